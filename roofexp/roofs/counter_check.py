"""Roofs under hardware counters: what a benchmark says that it computes and moves, against what the GPU counted.

One session of ncu for all of them. Caches are left as they are; what a launch has written and L2 still holds when it
ends has not been counted at DRAM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from roofexp.counters.counts import Counts
from roofexp.counters.kernel_sums import sum_launches
from roofexp.devices.device_lock import DeviceLock, gpu_names
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel
from roofexp.ncu import ask_metrics, explain_missing, find_ncu
from roofexp.ncu.catalogue import fact_metrics, request, resolve
from roofexp.ncu.child import Command, Task
from roofexp.ncu.launch import Launch
from roofexp.ncu.session import EVERY_POINT, Counting, child_environment, count
from roofexp.records.machine import Machine, Roof, RoofCheck, RoofSet
from roofexp.roofs.assembly import TOO_LOW, with_checks
from roofexp.roofs.benchmark import STREAMS, Benchmark
from roofexp.roofs.store import RoofStore
from roofexp.text.numbers import plain

TOLERANCE = 0.01
MERGED = 0.05  # of a ceiling's bytes: what two SMs want from L2 at the same moment is fetched once for both
TIMEOUT_S = 120.0  # of one benchmark
DRAM_READ, DRAM_WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
L2_READ, L2_WRITTEN = "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum"
SECTOR_BYTES = 32
HELD = "L2 may hold {} at the end"
SHARED = "SMs may have shared {}"
OPERATIONS_PER_MULTIPLY_ADD = 2  # IMAD is one integer instruction to the counter; the loop adds 0.4 % of others


class Counted(msgspec.Struct, frozen=True):
    """A benchmark with the launches that ncu saw of it."""

    benchmark: Benchmark
    kernel: Kernel
    launches: list[Launch]


def count_roofs(store: RoofStore, device: str, say: Callable[[str], None]) -> RoofSet:
    """The set with checks by counters, kept. Where nothing can be counted it is as before, and the reason is said."""
    machine = store.set.machine
    if machine.device != "cuda":
        say("counters: --count reads those of a GPU")
        return store.set
    kernels = _kernels(store)
    try:
        command = _command(machine, [benchmark for benchmark, _ in kernels], device, store)
    except BadInputError as error:
        say(f"counters: {error}")
        return store.set
    tasks = [Task(name=_range(b), kernel=k, implementation="cuda", seed=1, hot=True) for b, k in kernels]
    with DeviceLock(gpu_names(machine.machine_id)).taken(say):
        counting = count(tasks, command, say)
    _tell(counting, say)
    counted = [Counted(b, k, counting.launches[_range(b)]) for b, k in kernels if _range(b) in counting.launches]
    store.keep([checked(roof, counted, machine) for roof in store.set.roofs])
    return store.set


def _kernels(store: RoofStore) -> list[tuple[Benchmark, Kernel]]:
    """The CUDA benchmarks behind the roofs, and behind those ceilings that are a mix of their level."""
    names = {roof.name for roof in store.set.roofs if roof.ceiling_of is None or roof.mixes}
    levels = {roof.level for roof in store.set.roofs if roof.kind == "bandwidth"}
    precisions = [roof.precision for roof in store.set.roofs if roof.kind == "compute" and roof.precision]
    found = [b for b in store.benchmarks(dict.fromkeys(precisions), extra=True) if b.kind != "launch"]
    wanted = [b for b in found if b.name in names or (b.ceiling_of is None and b.level in levels)]
    return [(b, k) for b, k in store.kernels(wanted) if "cuda" in k.implementations]


def _command(machine: Machine, benchmarks: Sequence[Benchmark], device: str, store: RoofStore) -> Command:
    """Raises BadInputError with the reason why there is nothing to run."""
    ncu = find_ncu(None)
    if ncu is None:
        raise BadInputError(str(explain_missing()))
    architecture = str(machine.details.get("architecture"))
    device = device if device.startswith("cuda") else "cuda"
    asked = metrics_of(architecture, benchmarks)
    offer = ask_metrics(ncu, architecture, Path(child_environment(device)["ROOFEXP_CACHE_DIR"]))
    if offer.trouble is not None and offer.trouble.kind in EVERY_POINT:
        raise BadInputError(str(offer.trouble))
    metrics = resolve(asked, offer.listing).available if offer.metrics else asked
    return Command(
        ncu=ncu, metrics=metrics, clock_control="none", cache_control="none", replay_mode="kernel",
        timeout_s=TIMEOUT_S, device=device, roots=store.roots, machine_name=machine.name,
    )  # fmt: skip


def metrics_of(architecture: str, benchmarks: Sequence[Benchmark]) -> list[str]:
    """FLOPs of the precisions, bytes of every level, and each benchmark's own percentage."""
    names: list[str] = []
    for benchmark in benchmarks:
        level = "hierarchy" if benchmark.kind == "bandwidth" else "basic"
        names += request(architecture, level, benchmark.precision)
        names += [benchmark.pipe] if benchmark.pipe else []
        names += [DRAM_READ, DRAM_WRITTEN] if benchmark.level == "dram" else []
        names += [L2_READ, L2_WRITTEN, _fact("l1_hit_pct")] if benchmark.level == "l2" else []
        names += [_fact("integer_thread_instructions")] if counts_integers(benchmark) else []
    return list(dict.fromkeys(names))


def _fact(name: str) -> str:
    return fact_metrics()[name]


def counts_integers(benchmark: Benchmark) -> bool:
    """On the CUDA cores; 8-bit integers are the tensor cores' and counted there."""
    return benchmark.kind == "compute" and benchmark.precision == "int32"


def _range(benchmark: Benchmark) -> str:
    """The NVTX range of a benchmark: names with blanks and slashes would be taken apart."""
    return benchmark.name.replace(" ", "_")


def _tell(counting: Counting, say: Callable[[str], None]) -> None:
    for name, problem in counting.problems.items():
        say(f"counters: {name.replace('_', ' ')}: {problem.kind}: {problem.reason}")
    if counting.unavailable is not None:
        say(f"counters: {counting.unavailable}")


def checked(roof: Roof, counted: Sequence[Counted], machine: Machine) -> Roof:
    """The roof with what the counters say of its benchmark, or of each of its access mixes."""
    checks: list[RoofCheck] = []
    for one in counted:
        if roof.kind == "compute" and one.benchmark.name == roof.name:
            checks += compute_checks(one)
        elif roof.kind == "bandwidth" and _behind(one.benchmark, roof):
            checks += bandwidth_checks(one, machine)
    return with_checks(roof, checks) if checks else roof


def _behind(benchmark: Benchmark, roof: Roof) -> bool:
    """Whether a benchmark of bandwidth is the ceiling ``roof``, or one of its mixes."""
    if roof.ceiling_of is not None:
        return benchmark.name == roof.name
    return benchmark.ceiling_of is None and benchmark.level == roof.level


def compute_checks(counted: Counted) -> list[RoofCheck]:
    if counts_integers(counted.benchmark):
        instructions = _total(counted, _fact("integer_thread_instructions"))
        name, found = "operations", instructions and OPERATIONS_PER_MULTIPLY_ADD * instructions
    else:
        name, found = "flops", sum_launches(counted.launches).flops
    checks = [against_formula(name, counted.kernel.work.flops, found)] if found else []
    return [*checks, *_pipe(counted, at_least=TOO_LOW)]


def bandwidth_checks(counted: Counted, machine: Machine) -> list[RoofCheck]:
    level, pipe = counted.benchmark.level or "", _pipe(counted, at_least=0.0)
    if level == "dram":
        return [*_dram_checks(counted, machine), *pipe]
    if level == "l2" and _total(counted, L2_READ) is not None and _total(counted, L2_WRITTEN) is not None:
        return [*_l2_checks(counted), *pipe]
    moved = bytes_at(sum_launches(counted.launches), level)
    if not moved:
        return pipe
    check = against_formula(f"bytes of {counted.benchmark.mix}", counted.kernel.work.dram_bytes, moved)
    return [_with_hits(check, counted) if level == "l2" else check, *pipe]


def _l2_checks(counted: Counted) -> list[RoofCheck]:
    """Reads and writes apart, as L2 received them from the SMs: a mix is faster than reads alone only where both are
    there in full. What is read at all is told with L1's hits, where stores always count as such."""
    mix, of_array = counted.benchmark.mix or "", _array_bytes(counted)
    arrays_read, arrays_written = STREAMS[mix]
    merged = MERGED * arrays_read * of_array if counted.benchmark.ceiling_of else 0.0
    checks = []
    if arrays_read:
        reads = SECTOR_BYTES * (_total(counted, L2_READ) or 0.0)
        check = against_formula(f"reads of {mix}", arrays_read * of_array, reads, merged, SHARED)
        checks.append(_with_hits(check, counted))
    if arrays_written:
        writes = SECTOR_BYTES * (_total(counted, L2_WRITTEN) or 0.0)
        checks.append(against_formula(f"writes of {mix}", arrays_written * of_array, writes))
    return checks


def _with_hits(check: RoofCheck, counted: Counted) -> RoofCheck:
    hits = _values(counted, _fact("l1_hit_pct"))
    if not hits:
        return check
    return msgspec.structs.replace(check, message=f"{check.message}; {max(hits):.1f} % of L1's sectors were hits")


def _array_bytes(counted: Counted) -> float:
    """What one array of the mix moves."""
    return counted.kernel.work.dram_bytes / sum(STREAMS[counted.benchmark.mix or ""])


def _dram_checks(counted: Counted, machine: Machine) -> list[RoofCheck]:
    """Reads and writes apart: of what was written, L2 may still hold as much as fits when the launch ends."""
    mix, of_array = counted.benchmark.mix or "", _array_bytes(counted)
    arrays_read, arrays_written = STREAMS[mix]
    reads, writes = _total(counted, DRAM_READ), _total(counted, DRAM_WRITTEN)
    checks = []
    if arrays_read and reads:
        checks.append(against_formula(f"reads of {mix}", arrays_read * of_array, reads))
    if arrays_written and writes:
        held = float(machine.cache_bytes.get("l2", 0))
        checks.append(against_formula(f"writes of {mix}", arrays_written * of_array, writes, held, HELD))
    return checks


def bytes_at(counts: Counts, level: str) -> float | None:
    found: float | None = getattr(counts, f"{level}_bytes", None)
    return found


def _total(counted: Counted, metric: str) -> float | None:
    values = _values(counted, metric)
    return sum(values) if values else None


def _values(counted: Counted, metric: str) -> list[float]:
    """Of the launches that have it."""
    return [value for launch in counted.launches if (value := launch.values.get(metric)) is not None]


def against_formula(name: str, expected: float, found: float, held: float = 0.0, why: str = HELD) -> RoofCheck:
    """Within TOLERANCE, and short of it by at most the bytes ``held``, with the reason ``why``."""
    ratio, slack = found / expected, TOLERANCE * expected
    message = f"counted {ratio:.4g} times what the formula says"
    if held and found < expected:
        message += f": {(expected - found) / 1e6:.0f} MB less, of which {why.format(f'{held / 1e6:.0f} MB')}"
    passed = expected - slack - held <= found <= expected + slack
    return RoofCheck(name=name, passed=passed, expected=expected, found=found, message=message)


def _pipe(counted: Counted, at_least: float) -> list[RoofCheck]:
    """ncu's own percentage of the unit, free of any clock of ours, over the part of ncu's peak that is the roof's. What
    a memory reaches of its peak differs from chip to chip, so that only arithmetic must come near it."""
    metric, of_peak = counted.benchmark.pipe, counted.benchmark.pipe_part
    values = _values(counted, metric) if metric else []
    if not values:
        return []
    pct, whole = max(values), 100 * of_peak
    peak = "ncu's peak" if of_peak == 1 else f"the {plain(whole)} % of ncu's peak that are dense (the rest: sparse)"
    said = f"{100 * pct / whole:.1f} % of {peak}: {metric}"
    name = f"pipe of {counted.benchmark.mix}" if counted.benchmark.mix else "pipe"
    return [RoofCheck(name=name, passed=pct >= at_least * whole, expected=whole, found=pct, message=said)]
