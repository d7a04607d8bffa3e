"""The benchmarks behind the roofs: the plan for a precision, the kernel of each, and runs under sustained load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.settings import TimingSettings
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel
from roofexp.kernel.formula import evaluate_count
from roofexp.kernel.load import load_kernel
from roofexp.kernel.precision import STORAGE
from roofexp.measure.bench import Reply, Request
from roofexp.measure.steadiness import drift
from roofexp.records.clock_readings import ClockReadings
from roofexp.records.machine import Machine, RoofKind, Sustained

STREAMS = {"read": (1, 0), "write": (0, 1), "copy": (1, 1), "triad": (2, 1)}  # arrays that a mix reads and writes

# Levels that run on the clock of the unit that they belong to.
PRIVATE_LEVELS: dict[str, tuple[str, ...]] = {"cpu": ("l1", "l2"), "cuda": ("l1", "shared")}
HIGHEST = "highest"  # a ceiling of whichever compute roof of its precision turns out to be the highest
MEMORY_BYTES = 16 * 1024**3  # where the device does not say how much it has
BY_PRECISION = ("kernel", "instruction", "pipe")  # one value, or one for each precision


class Benchmark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the list: which kernel, at which size, and which roof it belongs to."""

    name: str
    kind: RoofKind
    kernel: str
    precision: str  # of a compute roof; of the data of the others
    level: str | None = None
    mix: str | None = None
    size: str | int | None = None
    params: dict[str, Any] = {}
    ceiling_of: str | None = None
    cause: str | None = None
    limit: str | None = None  # "tensor": its limit is the tensor cores' rate, not the precision's own
    counts_as: str | None = None  # the precision that its roof stands for, where that is another than the data's
    extra: bool = False  # no sweep waits for it: measured by python -m roofexp.roofs
    sustained: bool = False  # also under load that does not pause
    instruction: str | None = None  # that the hot loop must be made of, by the beginning of its name in SASS
    share: float = 0.0  # of the loop's instructions, at least
    pipe: str | None = None  # ncu's own percentage of the unit that the benchmark is about
    pipe_part: float = 1.0  # of ncu's peak, where that is more than the unit does with dense operands


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark's result. ``rate`` is in FLOP/s, B/s, or s per launch."""

    benchmark: Benchmark
    rate: float | None
    compute_hz: float | None
    problem: str | None = None
    disturbed: bool = False  # other programs took the machine meanwhile
    took_s: float = 0.0
    sustained: Sustained | None = None


def plan(entries: dict[str, Any], precision: str, levels: set[str], extra: bool = False) -> list[Benchmark]:
    """The benchmarks for points of one precision on a machine with these memory levels; with ``extra`` also those that
    sweeps do not wait for. Raises BadInputError."""
    benchmarks = []
    for key, entry in entries.items():
        compute = entry.get("kind") == "compute"
        if compute and precision not in entry.get("precisions", []):
            continue
        if entry.get("level") is not None and entry["level"] not in levels:
            continue
        if entry.get("extra") and not extra:
            continue
        benchmarks.append(_benchmark(key, entry, precision if compute else entry.get("precision", "fp64"), compute))
    return benchmarks


def planned_precisions(entries: dict[str, Any], extra: bool) -> list[str]:
    """Every precision that the list has a compute roof for, as the list names them."""
    computing = [e for e in entries.values() if e.get("kind") == "compute" and (extra or not e.get("extra"))]
    return list(dict.fromkeys(name for entry in computing for name in entry.get("precisions", [])))


def _benchmark(key: str, entry: dict[str, Any], precision: str, compute: bool) -> Benchmark:
    fields = {name: value for name, value in entry.items() if name not in ("precisions", "precision")}
    for name in BY_PRECISION:
        if isinstance(fields.get(name), dict):
            fields[name] = fields[name].get(precision)
    words = key.replace("_", " ")
    of = fields.get("ceiling_of")
    if compute and of and of != HIGHEST:
        fields["ceiling_of"] = f"{precision} {of.replace('_', ' ')}"
    try:
        return msgspec.convert(
            {"name": f"{precision} {words}" if compute else words, "precision": precision, **fields}, Benchmark
        )
    except msgspec.ValidationError as error:
        raise BadInputError(f"conf/roofs: {key}: {error}") from error


def levels_of(machine: Machine) -> set[str]:
    return {*machine.cache_bytes, "dram", *PRIVATE_LEVELS[machine.device]}


def kernel_of(benchmark: Benchmark, machine: Machine, folders: list[Path], fill: str = "normal") -> Kernel:
    """The benchmark's kernel at its size on this machine. Raises BadInputError."""
    size = None
    if benchmark.size is not None:
        names: dict[str, Any] = {**machine.cache_bytes, "units": machine.units or 1}
        names["last_cache"] = max(machine.cache_bytes.values(), default=32 * 1024**2)
        names["memory"] = machine.memory_bytes or MEMORY_BYTES
        names["itemsize"] = STORAGE[benchmark.precision][1]
        size = evaluate_count(benchmark.size, names, f"conf/roofs: {benchmark.name}.size")
    return load_kernel(benchmark.kernel, folders, benchmark.precision, size, benchmark.params, fill)


LOAD_S = 1.5  # of load before the first look; power control takes a second to find its clock
LOOK_S = 1.5  # the rate must stay within SETTLED over this long
SETTLED = 0.01
LOOKS = 2
BATCH_S = 0.05  # launches of one sample; between samples the GPU waits for the host some 0.1 ms


def measure_sustained(kernel: Kernel, timing: TimingSettings, run: Any, clock: dict[str, Any]) -> Sustained | None:
    """At most LOAD_S + LOOKS x LOOK_S of load; the last look counts. None where the kernel cannot run here."""
    found, load_s = None, 0.0
    for look in range(LOOKS):
        before_s = LOAD_S if look == 0 else 0.1
        load_s += before_s + LOOK_S
        settings = sustained_settings(timing, before_s)
        reply: Reply = run(Request(kernel=kernel, timing=settings, cold=False, seed=1, clock=clock))
        if reply.timing is None or reply.samples is None:
            return found
        moved = abs(drift(reply.samples.time_s))
        found = _reading(kernel, reply, load_s, settled=moved <= SETTLED)
        if found.settled:
            break
    return found


def sustained_settings(timing: TimingSettings, before_s: float) -> TimingSettings:
    """Nothing ends the warm-up or the samples but time."""
    return msgspec.structs.replace(
        timing, warmup_s=before_s, steady=-1.0, budget_s=LOOK_S, batch_s=BATCH_S, target=-1.0, min_samples=1_000_000,
        max_samples=1_000_000,
    )  # fmt: skip


def _reading(kernel: Kernel, reply: Reply, load_s: float, settled: bool) -> Sustained:
    assert reply.timing
    readings = reply.clock.readings if reply.clock else ClockReadings()
    return Sustained(
        rate=kernel.work.flops / reply.timing.median_s,
        compute_hz=reply.clock.compute_hz if reply.clock else None,
        power_w=readings.power_w,
        seconds=load_s,
        settled=settled,
        event_reasons=readings.event_reasons,
    )
