"""Roofs under hardware counters: what a benchmark says that it computes and moves, against what the GPU counted.

One session of ncu for all of them. Caches are left as the launch before left them, so that what a stream still owes to
DRAM at its end is what it found there at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from roofexp.counters.catalogue import request, resolve
from roofexp.counters.command import Command
from roofexp.counters.counts import Counts
from roofexp.counters.item import sum_launches
from roofexp.counters.launch import Launch
from roofexp.counters.ncu import ask_metrics, explain_missing, find_ncu
from roofexp.counters.plan import Task
from roofexp.counters.run import EVERY_POINT, child_environment
from roofexp.counters.session import Counting, count
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel
from roofexp.machine import Machine, Roof, RoofCheck, RoofSet
from roofexp.roofs.assembly import TOO_LOW, with_checks
from roofexp.roofs.benchmark import Benchmark
from roofexp.roofs.store import RoofStore

TOLERANCE = 0.01
TIMEOUT_S = 120.0  # of one benchmark


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
    counting = count(tasks, command, say)
    _tell(counting, say)
    counted = [Counted(b, k, counting.launches[_range(b)]) for b, k in kernels if _range(b) in counting.launches]
    store.keep([checked(roof, counted) for roof in store.set.roofs])
    return store.set


def _kernels(store: RoofStore) -> list[tuple[Benchmark, Kernel]]:
    """The CUDA benchmarks behind the roofs, ceilings aside."""
    names = {roof.name for roof in store.set.roofs if roof.ceiling_of is None}
    levels = {roof.level for roof in store.set.roofs if roof.kind == "bandwidth"}
    precisions = [roof.precision for roof in store.set.roofs if roof.kind == "compute" and roof.precision]
    found = [b for b in store.benchmarks(dict.fromkeys(precisions), extra=True) if b.kind != "launch"]
    wanted = [b for b in found if b.ceiling_of is None and (b.name in names or b.level in levels)]
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
    return list(dict.fromkeys(names))


def _range(benchmark: Benchmark) -> str:
    """The NVTX range of a benchmark: names with blanks and slashes would be taken apart."""
    return benchmark.name.replace(" ", "_")


def _tell(counting: Counting, say: Callable[[str], None]) -> None:
    for name, problem in counting.problems.items():
        say(f"counters: {name.replace('_', ' ')}: {problem.kind}: {problem.reason}")
    if counting.unavailable is not None:
        say(f"counters: {counting.unavailable}")


def checked(roof: Roof, counted: Sequence[Counted]) -> Roof:
    """The roof with what the counters say of its benchmark, or of each of its access mixes."""
    if roof.ceiling_of is not None:
        return roof
    checks: list[RoofCheck] = []
    for one in counted:
        if roof.kind == "compute" and one.benchmark.name == roof.name:
            checks += compute_checks(one)
        elif roof.kind == "bandwidth" and one.benchmark.level == roof.level:
            checks += bandwidth_checks(one)
    return with_checks(roof, checks) if checks else roof


def compute_checks(counted: Counted) -> list[RoofCheck]:
    counts = sum_launches(counted.launches)
    found = [_against_formula("flops", counted.kernel.work.flops, counts.flops)] if counts.flops else []
    return [*found, *_pipe(counted, at_least=100 * TOO_LOW)]


def bandwidth_checks(counted: Counted) -> list[RoofCheck]:
    counts, benchmark = sum_launches(counted.launches), counted.benchmark
    moved = bytes_at(counts, benchmark.level or "")
    name = f"bytes of {benchmark.mix}"
    found = [_against_formula(name, counted.kernel.work.dram_bytes, moved)] if moved else []
    return [*found, *_pipe(counted, at_least=0.0)]


def bytes_at(counts: Counts, level: str) -> float | None:
    found: float | None = getattr(counts, f"{level}_bytes", None)
    return found


def _against_formula(name: str, expected: float, found: float) -> RoofCheck:
    ratio = found / expected
    return RoofCheck(
        name=name,
        passed=abs(ratio - 1) <= TOLERANCE,
        expected=expected,
        found=found,
        message=f"counted {ratio:.4g} times what the formula says",
    )


def _pipe(counted: Counted, at_least: float) -> list[RoofCheck]:
    """ncu's own percentage of the unit: free of any clock of ours. What a memory reaches of its peak differs from chip
    to chip, so that only arithmetic must come near it."""
    metric = counted.benchmark.pipe
    values = [value for launch in counted.launches if metric and (value := launch.values.get(metric)) is not None]
    if not values:
        return []
    pct = max(values)
    said = f"{pct:.1f} % of ncu's peak ({metric})"
    return [RoofCheck(name="pipe", passed=pct >= at_least, expected=at_least, found=pct, message=said)]
