"""What a machine is, what its roofs and limits are: the records that devices fill and figures read. SI units."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from roofexp.records.quantities import Amount, Count, Duration, Name, Rate, RoofRate

RoofKind = Literal["compute", "bandwidth", "launch"]
ClockDomain = Literal["compute", "none"]
LEVELS = ("dram", "l3", "l2", "l1", "shared")  # of memory, from far to near
COUNTED_LEVELS = ("dram", "l2", "l1", "shared")  # those whose bytes a GPU's counters tell


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One device as it was found. A field that could not be read is None: unknown, never a guess."""

    machine_id: Name  # short hash of what identifies it; no host name
    device: Literal["cpu", "cuda"]
    name: Name
    units: Count | None  # cores in use, or SMs
    nominal_hz: Rate | None
    memory_bytes: Count | None
    cache_bytes: dict[str, Count] = {}  # l1, l2, l3: what all units in use have together, nearest level first
    kept_levels: list[str] = []  # caches whose content survives from one launch to the next, nearest first
    details: dict[str, Any] = {}
    limits: dict[str, Rate] = {}  # per unit and clock: flop_per_cycle_fp32 ..., or bytes_per_s_dram
    unknown: list[str] = []  # what could not be read, and why

    def limit(self, name: str) -> float | None:
        return self.limits.get(name)


class Sustained(msgspec.Struct, frozen=True, kw_only=True):
    """What remained of a roof once the clock had settled under load that did not pause."""

    rate: RoofRate
    compute_hz: Rate | None = None
    power_w: Amount | None = None
    seconds: Duration = 0.0  # of load
    settled: bool = True
    event_reasons: str | None = None  # what held the clocks back


class RoofCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a roof by means that did not make it: its counters, its machine code, the limit."""

    name: str  # "flops", "bytes", "pipe", "instructions", "limit"
    passed: bool
    expected: Amount | None = None
    found: Amount | None = None
    message: str = ""


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate measured on a machine (or, with ``ceiling_of``, a lower one with a named cause).

    ``rate`` is in FLOP/s (compute), B/s (bandwidth) or s (launch: the floor of one launch).
    """

    name: str  # e.g. "fp32 fma", "dram", "launch"
    kind: RoofKind
    rate: RoofRate
    precision: str | None = None  # of a compute roof
    level: str | None = None  # of a bandwidth roof
    ceiling_of: str | None = None
    cause: str | None = None  # why a ceiling is lower
    clock_domain: ClockDomain = "none"  # compute: the rate follows the compute clock
    compute_hz: Rate | None = None  # held while it was measured
    per_cycle: Rate | None = None  # rate / (units x clock)
    limit: Rate | None = None  # by arithmetic, at the clock held
    mixes: dict[str, Rate] = {}  # the rate of each access mix; the roof is their envelope
    incomplete: str | None = None  # why this is only a lower bound
    sheet: Rate | None = None  # the datasheet's figure, dense
    sustained: Sustained | None = None
    checks: list[RoofCheck] = []
    flags: list[str] = []

    def at(self, compute_hz: float | None) -> float:
        """The rate redrawn at another compute clock; as measured where the clock is unknown or has no influence."""
        if self.clock_domain != "compute" or not compute_hz or not self.compute_hz:
            return self.rate
        return self.rate * compute_hz / self.compute_hz


class RoofSet(msgspec.Struct, frozen=True, kw_only=True):
    """The roofs of one machine in one clock mode."""

    version: int = 1
    machine: Machine
    clock_mode: str
    code_version: str
    measured: str  # when, ISO 8601
    seconds: Duration  # what measuring took
    roofs: list[Roof]
    disturbed: bool = False  # by other programs or a quota: good enough for one sweep, not to be kept
    unavailable: dict[str, str] = {}  # benchmarks that this machine cannot run, and why
    fill: str = "normal"  # of the operands: zeros draw less power, and so hold higher clocks
    took_s: dict[str, Duration] = {}  # wall time of each benchmark

    def bandwidth(self, level: str) -> Roof | None:
        return self._find("bandwidth", level=level)

    def compute(self, precision: str) -> Roof | None:
        """The highest compute roof of a precision."""
        found = [r for r in self.roofs if r.kind == "compute" and r.precision == precision and r.ceiling_of is None]
        return max(found, key=lambda roof: roof.rate, default=None)

    def launch(self) -> Roof | None:
        return self._find("launch")

    def ceilings(self, of: str) -> list[Roof]:
        return [roof for roof in self.roofs if roof.ceiling_of == of]

    def _find(self, kind: RoofKind, level: str | None = None) -> Roof | None:
        for roof in self.roofs:
            if roof.kind == kind and roof.ceiling_of is None and (level is None or roof.level == level):
                return roof
        return None
