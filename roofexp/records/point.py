"""The record of one point: frozen, versioned, written and read atomically. All units are SI.

``point.json`` in the point's folder is the truth; tables, figures and MLflow are made from it.
Version history: 1, the first; 2, typed clock readings (``clock.readings``, in 1 a mapping ``clock.extra``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.config.input_files import LARGEST_RECORDS, as_type, decode_json, read_bytes
from roofexp.errors import DamagedFileError
from roofexp.records.clock_readings import ClockReadings
from roofexp.records.files import write_json
from roofexp.records.quantities import Amount, Count, Duration, Name, Rate, Time
from roofexp.text.numbers import engineering, plain

VERSION = 2
UNREADABLE = "unreadable record"
Status = Literal["ok", "skipped", "failed"]

Bound = Literal[
    "bandwidth-bound",
    "on the bandwidth roof",
    "compute-bound",
    "on the compute roof",
    "latency-bound",
    "above a roof",
]


class Flag(msgspec.Struct, frozen=True):
    """Something a reader must know before believing a number. ``name`` is short and stable."""

    name: str
    message: str


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Useful work by formula. ``working_set_bytes`` is what all operands occupy, ``written_bytes`` what those do that
    are written."""

    flops: Count
    dram_bytes: Count
    working_set_bytes: Count
    written_bytes: Count | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Result against the float64 reference: largest deviation over the scale of the result."""

    error: float
    tolerance: float


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one launch. The interval is the 95 % confidence interval of the median."""

    median_s: Time
    p5_s: Time
    p95_s: Time
    low_s: Time
    high_s: Time
    samples: Count
    launches_per_sample: Count
    warmup_s: Duration
    floor_s: Duration | None  # the timer's own floor: an empty launch measured the same way
    method: str
    mean_s: Time | None = None  # of all timed launches: what belongs with a clock that was read over all of them
    compile_s: Duration | None = None  # building the code; on a CPU with the first launch, in which numba compiles


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The clock held by the compute units over the timed part. ``source`` says how it was read; None is unknown."""

    compute_hz: Rate | None
    before_hz: Rate | None = None
    after_hz: Rate | None = None
    source: str = "unknown"
    spans_timing: bool = False  # the mean over exactly the timed launches, as ``Timing.mean_s`` is
    asked: str | None = None  # what the clock mode asked for: "1200 MHz locked", "duty 0.4"; None: nothing
    readings: ClockReadings = ClockReadings()


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that crossed ``level`` in one launch, and how that is known."""

    level: str  # dram, l3, l2, l1
    bytes: Count
    source: Literal["modelled", "counted"]


class CountedKernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that a point launched: its sums over ``launches`` and their shares of the point's sums."""

    name: str
    launches: Count
    time_s: Duration | None = None
    flops: Count | None = None
    dram_bytes: Count | None = None
    time_share: Amount | None = None
    flops_share: Amount | None = None
    dram_share: Amount | None = None


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What hardware counters say of one launch, sums over its kernels; None is not known, never 0.

    Issued FLOPs, bytes and the profiled time belong together; the event time of ``Timing`` is another run. Occupancy,
    waves, registers, sectors and stalls are those of the kernel that took longest, percentages means over time.
    """

    level: str | None = None  # basic, hierarchy, diagnosis; None: metrics that the user named
    unavailable: str | None = None  # why nothing was counted: cause and cure
    flops: Count | None = None  # issued
    flops_by_type: dict[str, Count | None] = {}
    flops_ratio: Amount | None = None  # issued / useful
    dram_bytes: Count | None = None
    l2_bytes: Count | None = None
    l1_bytes: Count | None = None
    shared_bytes: Count | None = None
    time_s: Time | None = None  # profiled
    cycles: Rate | None = None
    sm_hz: Rate | None = None  # the clocks of the profiled run
    memory_hz: Rate | None = None
    l2_hz: Rate | None = None
    fraction: Amount | None = None  # profiled rate / attainable at the profiled clock
    sol_sm_pct: Amount | None = None  # ncu's percentages of its own peaks
    sol_memory_pct: Amount | None = None
    sol_dram_pct: Amount | None = None
    peak_fraction: Amount | None = None  # profiled FLOP/s / dense peak of the precision that was used
    peak_note: str | None = None  # why that and sol_sm_pct differ
    occupancy_pct: Amount | None = None
    occupancy_possible_pct: Amount | None = None
    occupancy_limiter: str | None = None
    waves: Amount | None = None
    registers: Count | None = None
    sectors_per_load: Amount | None = None
    sectors_per_store: Amount | None = None
    stalls: dict[str, Amount] = {}  # cycles waited per issued instruction, by reason
    facts: dict[str, Amount] = {}  # what else the diagnosis needs, by the names of counters/catalogue.yaml
    kernels: list[CountedKernel] = []
    passes: Count | None = None  # of the kernel that needed most
    counting_s: Duration = 0.0  # this point's share of its session
    ncu_version: str | None = None
    clock_control: str | None = None
    cache_control: str | None = None
    replay_mode: str | None = None
    missing: dict[str, str] = {}  # metrics without a value, and why
    flags: list[Flag] = []
    notes: list[str] = []

    def bytes_at(self, level: str) -> int | None:
        """Counted bytes of dram, l2, l1 or shared; None for any other level."""
        found: int | None = getattr(self, f"{level}_bytes", None)
        return found


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where the point lies under the roofs, and what to do about it. Fractions are not clipped."""

    bound: Bound
    intensity_flop_per_byte: Rate | None
    attainable_per_s: Rate | None  # FLOP/s, or B/s for a kernel without FLOPs
    fraction: Amount | None  # achieved / attainable, of the roof that binds
    roof: str | None  # the name of the roof that binds
    roof_fractions: dict[str, Amount]
    ridge_flop_per_byte: Rate | None
    cause: str
    next_move: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One number that speaks for a cause, and the threshold that it passed. ``unit`` is empty for a ratio."""

    what: str
    value: Amount
    threshold: Amount | None = None
    unit: str = ""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Something that holds the point back. ``name`` is a rule's name; ``score`` is the part of the time that it costs
    at most, of a roof the part of it that is reached."""

    name: str
    message: str
    next_move: str
    score: Amount = 0.0
    evidence: list[Evidence] = []
    healthy: bool = False  # a roof that is reached, nothing that should be changed


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Why the point is not faster: one verdict, and what else was found, most likely first.

    ``basis`` says what it was made from: the time and the roofs alone, or hardware counters too.
    """

    verdict: Cause
    others: list[Cause] = []
    basis: Literal["time", "counters"] = "time"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel at one size, precision, clock mode and cache state on one device."""

    version: int = VERSION
    point_id: str
    sweep_id: str
    job: Count
    overrides: list[str]
    status: Status
    reason: str | None = None  # of a skip or a failure
    reason_kind: str | None = None
    kernel: Name
    implementation: Name | None = None  # cpu, numpy, cuda, cupy or torch
    size: int
    shape: dict[str, int] = {}
    params: dict[str, Any] = {}
    scalars: dict[str, float] = {}
    precision: Name
    clock_mode: Name
    cache_state: Name
    fill: Name
    seed: int | None = None
    device: str | None = None  # cpu or cuda
    machine_id: str | None = None  # the machine's entry in machine.json
    config_hash: str
    kernel_code: str | None = None  # hashes of the code that was measured, and of the program that measured it
    program_code: str | None = None
    work: Work | None = None
    check: Check | None = None
    timing: Timing | None = None
    clock: Clock | None = None
    traffic: Traffic | None = None
    counted: Counted | None = None
    placement: Placement | None = None
    diagnosis: Diagnosis | None = None
    expect: str | None = None  # the verdict that a planted fault, or its healthy twin, must get
    flags: list[Flag] = []
    created: str
    measuring_s: Duration = 0.0  # spent in the worker on this point
    overhead_s: Duration = 0.0  # spent outside it

    @property
    def time_s(self) -> float | None:
        """The median of the time of one launch."""
        return self.timing.median_s if self.timing else None

    @property
    def compute_hz(self) -> float | None:
        return self.clock.compute_hz if self.clock else None

    @property
    def clock_asked(self) -> str | None:
        return self.clock.asked if self.clock else None

    @property
    def time_at_clock_s(self) -> float | None:
        """The time that belongs with the clock: where the clock is the mean over the timed launches, so is the time. A
        median beside a mean clock is off by as much as the clock moved in between."""
        if self.timing is None:
            return None
        paired = self.clock is not None and self.clock.spans_timing and self.timing.mean_s
        return self.timing.mean_s if paired else self.timing.median_s

    @property
    def flops_per_s(self) -> float | None:
        """Useful FLOP/s at the event time; None for a kernel without FLOPs or without a time."""
        if self.work is None or self.timing is None or self.work.flops == 0:
            return None
        return self.work.flops / self.timing.median_s

    @property
    def bytes_per_s(self) -> float | None:
        """B/s through the level that ``traffic`` names."""
        if self.traffic is None or self.timing is None or self.traffic.bytes == 0:
            return None
        return self.traffic.bytes / self.timing.median_s

    @property
    def as_expected(self) -> bool | None:
        """Whether the verdict is the one that the kernel's file expects; None where either is missing."""
        if self.expect is None or self.diagnosis is None:
            return None
        verdict = self.diagnosis.verdict
        return verdict.healthy if self.expect == "healthy" else verdict.name == self.expect

    @property
    def joules(self) -> float | None:
        """Energy of one launch, idle power included; None where the device does not count energy over the timing."""
        return self.clock.readings.energy_per_launch_j if self.clock else None

    def intensity_at(self, level: str) -> float | None:
        """Useful FLOPs per counted byte of dram, l2, l1 or shared; None where the bytes are unknown or none."""
        moved = self.counted.bytes_at(level) if self.counted else None
        return self.work.flops / moved if self.work and moved else None

    @property
    def name(self) -> str:
        """What was measured: kernel, size and precision."""
        return f"{self.kernel} {self.size} {self.precision}"

    @property
    def label(self) -> str:
        """Names the point in tables and figures: its name, and what was asked of the clock."""
        asked = f" {self.clock_asked}" if self.clock_asked else ""
        if self.clock and self.clock.readings.clocks_locked is False:
            asked += " (refused)"
        return self.name + asked


def write_point(folder: Path, point: Point) -> None:
    """Raises ValueError for a record that could not be read again; the file is as it was then."""
    decode_point(msgspec.json.encode(point), "what would be written")
    write_json(folder / "point.json", point)


def read_point(file: Path) -> Point:
    """Raises DamagedFileError for a file that is cut short, foreign or of a newer version."""
    return decode_point(read_bytes(file, largest=LARGEST_RECORDS), str(file))


def decode_point(data: bytes, where: str) -> Point:
    """A record from its JSON; ``where`` names it in the DamagedFileError for one that cannot be read."""
    try:
        raw = decode_json(data)
        version = raw.get("version") if isinstance(raw, dict) else None
        if not isinstance(version, int) or version > VERSION:
            raise ValueError(f"version {version!r}; this program reads up to {VERSION}")
        point: Point = as_type(_from_version_1(raw) if version == 1 else raw, Point)
    except ValueError as error:
        raise DamagedFileError(f"{where} is not a point record ({error})") from error
    return point


def _from_version_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Readings stood in an untyped mapping, and whether the clocks were locked in it as a word."""
    clock = raw.get("clock")
    if not isinstance(clock, dict) or not isinstance(clock.get("extra"), dict):
        return raw
    readings = {key: value for key, value in clock["extra"].items() if value is not None}
    if "clocks_locked" in readings:
        readings["clocks_locked"] = readings["clocks_locked"] == "yes"
    return {**raw, "clock": {**{key: value for key, value in clock.items() if key != "extra"}, "readings": readings}}


def read_point_or_failure(file: Path) -> Point:
    """A record that cannot be read stands for a point that failed: it is named, not left out."""
    try:
        return read_point(file)
    except ValueError as error:
        name = file.parent.name
        job = int(name) if name.isdecimal() and len(name) < 10 else 0
        return _unreadable(job, name, str(error).replace(f"{file.parent.parent}/", ""))


def decode_point_or_failure(data: bytes, where: str, job: int) -> Point:
    """As ``read_point_or_failure`` for a record without a file of its own; ``job`` is the number of a failed one."""
    try:
        return decode_point(data, where)
    except ValueError as error:
        return _unreadable(job, str(job), str(error))


def unreadable(points: Iterable[Point]) -> list[str]:
    """A line for every record that could not be read."""
    return [str(point.reason) for point in points if point.reason_kind == UNREADABLE]


def _unreadable(job: int, name: str, reason: str) -> Point:
    return Point(
        point_id="", sweep_id="", job=job, overrides=[], status="failed", reason_kind=UNREADABLE, reason=reason[:300],
        kernel=name, size=0, precision="", clock_mode="", cache_state="", fill="", config_hash="", created="",
    )  # fmt: skip


def evidence_text(evidence: list[Evidence]) -> str:
    """One line: every number with the threshold that it passed."""
    return "; ".join(_told(item) for item in evidence)


def _told(item: Evidence) -> str:
    limit = "" if item.threshold is None else f" (threshold {with_unit(item.threshold, item.unit)})"
    return f"{item.what} {with_unit(item.value, item.unit)}{limit}"


def with_unit(value: float, unit: str) -> str:
    return engineering(value, unit) if unit in ("s", "B") else f"{plain(value)} {unit}".strip()
