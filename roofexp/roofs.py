"""Which micro-benchmarks make which roof, their self-checks, and the cache of what was measured.

The list of benchmarks is data (conf/roofs/measure.yaml); each is a kernel like any other (conf/kernel/roofs).
"""

from __future__ import annotations

import datetime
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from roofexp.configuration import load_kernel
from roofexp.errors import BadInputError
from roofexp.folders import PACKAGE, kernels_folder
from roofexp.formula import evaluate_count
from roofexp.kernel import Kernel
from roofexp.machine import Machine, Roof, RoofKind, RoofSet
from roofexp.measure import NOT_QUIET, Reply, Request
from roofexp.point import write_json
from roofexp.timing import TimingSettings

Run = Callable[[Request], Reply]
Announce = Callable[[str], None]

# Levels that run on the clock of the unit that they belong to.
PRIVATE_LEVELS: dict[str, tuple[str, ...]] = {"cpu": ("l1", "l2"), "cuda": ("l1", "shared")}

TOO_HIGH = 1.02  # of the limit: the clock or the table of rates must be wrong
TOO_LOW = 0.90  # of the limit: published, with a flag


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


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark's result. ``rate`` is in FLOP/s, B/s, or s per launch."""

    benchmark: Benchmark
    rate: float | None
    compute_hz: float | None
    problem: str | None = None
    disturbed: bool = False  # other programs took the machine meanwhile


class RoofStore:
    """The roofs of one machine in one clock mode: measured when asked for, kept in a file, used again."""

    def __init__(
        self, folder: Path, machine: Machine, clock_mode: str, config: dict[str, Any], config_folders: list[Path]
    ) -> None:
        self._machine = machine
        self._clock_mode = clock_mode
        self._config = config
        self._config_folders = config_folders
        self._file = folder / f"{machine.machine_id}_{clock_mode}.json"
        self._version = code_version(config, config_folders)
        self.saved_s = 0.0  # what a stored set would have taken to measure
        self.set = self._stored() or self._empty()

    def ensure(self, precision: str, timing: TimingSettings, run: Run, announce: Announce) -> RoofSet | None:
        """The roofs that a point of this precision needs; what is missing is measured now."""
        policy = self._config["policy"]
        if policy == "off":
            return None
        missing = [b for b in self._benchmarks(precision) if not self._has(b)]
        if missing and policy == "measure":
            from filelock import FileLock

            self._file.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(str(self._file) + ".lock"):  # another process may be measuring the same machine
                self.set = self._stored() or self.set  # what another process measured meanwhile
                missing = [b for b in missing if not self._has(b)]
                if missing:
                    self._measure(missing, timing, run, announce)
        return self.set if self.set.roofs else None

    def _measure(self, missing: list[Benchmark], timing: TimingSettings, run: Run, announce: Announce) -> None:
        start = time.monotonic()
        settings = msgspec.structs.replace(
            timing, budget_s=self._config["budget_s"], warmup_s=min(timing.warmup_s, 0.1), target=0.005, min_samples=5
        )
        outcomes = []
        for number, benchmark in enumerate(missing):
            announce(f"roof {number + 1} of {len(missing)}: {benchmark.name}")
            outcomes.append(self._run(benchmark, settings, run))
        roofs = assemble(outcomes, self._machine)
        disturbed = sum(outcome.disturbed for outcome in outcomes)
        if disturbed:
            announce(f"{disturbed} roofs were measured while other programs ran; the next sweep measures them again")
        self.set = msgspec.structs.replace(
            self.set,
            roofs=[*self.set.roofs, *roofs],
            unavailable={**self.set.unavailable, **{o.benchmark.name: o.problem for o in outcomes if o.problem}},
            seconds=self.set.seconds + time.monotonic() - start,
            disturbed=self.set.disturbed or disturbed > 0,
            measured=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )
        write_json(self._file, self.set)

    def _run(self, benchmark: Benchmark, settings: TimingSettings, run: Run) -> Outcome:
        try:
            kernel = self._kernel(benchmark)
        except BadInputError as error:
            return Outcome(benchmark=benchmark, rate=None, compute_hz=None, problem=str(error))
        reply = run(Request(kernel=kernel, timing=settings, cold=False, seed=1, clock={"mode": self._clock_mode}))
        if reply.timing is None:
            return Outcome(benchmark=benchmark, rate=None, compute_hz=None, problem=reply.reason)
        # a roof is what the machine reaches: the fastest samples, short of outliers
        fastest_s = reply.timing.p5_s
        work = kernel.work.flops if benchmark.kind == "compute" else kernel.work.dram_bytes
        rate = reply.timing.median_s if benchmark.kind == "launch" else work / fastest_s
        return Outcome(
            benchmark=benchmark,
            rate=rate,
            compute_hz=reply.clock.compute_hz if reply.clock else None,
            disturbed=any(flag.name == NOT_QUIET for flag in reply.flags),
        )

    def _kernel(self, benchmark: Benchmark) -> Kernel:
        size = None
        if benchmark.size is not None:
            names: dict[str, Any] = {**self._machine.cache_bytes, "units": self._machine.units or 1}
            names["last_cache"] = max(self._machine.cache_bytes.values(), default=32 * 1024**2)
            names["itemsize"] = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}.get(benchmark.precision, 1)
            size = evaluate_count(benchmark.size, names, f"conf/roofs: {benchmark.name}.size")
        return load_kernel(
            benchmark.kernel, self._config_folders, benchmark.precision, size, benchmark.params, "normal"
        )

    def _benchmarks(self, precision: str) -> list[Benchmark]:
        levels = {*self._machine.cache_bytes, "dram", *PRIVATE_LEVELS[self._machine.device]}
        return plan(self._config.get(self._machine.device, {}), precision, levels)

    def _has(self, benchmark: Benchmark) -> bool:
        for roof in self.set.roofs:
            if benchmark.kind == "bandwidth" and roof.kind == "bandwidth" and roof.level == benchmark.level:
                return True
            if roof.name == benchmark.name:
                return True
        return benchmark.name in self.set.unavailable

    def _stored(self) -> RoofSet | None:
        try:
            stored = msgspec.json.decode(self._file.read_bytes(), type=RoofSet)
        except (OSError, msgspec.MsgspecError):
            return None
        if stored.code_version != self._version or (stored.disturbed and self._config["policy"] == "measure"):
            return None
        self.saved_s = stored.seconds
        return stored

    def _empty(self) -> RoofSet:
        return RoofSet(
            machine=self._machine,
            clock_mode=self._clock_mode,
            code_version=self._version,
            measured="",
            seconds=0.0,
            roofs=[],
        )


def plan(entries: dict[str, Any], precision: str, levels: set[str]) -> list[Benchmark]:
    """The benchmarks for points of one precision on a machine with these memory levels. Raises BadInputError."""
    benchmarks = []
    for key, entry in entries.items():
        compute = entry.get("kind") == "compute"
        if compute and precision not in entry.get("precisions", []):
            continue
        if entry.get("level") is not None and entry["level"] not in levels:
            continue
        fields = {name: value for name, value in entry.items() if name not in ("precisions", "precision")}
        own = precision if compute else entry.get("precision", "fp64")
        name = f"{precision} {key.replace('_', ' ')}" if compute else key.replace("_", " ")
        if fields.get("ceiling_of"):
            fields["ceiling_of"] = f"{precision} {fields['ceiling_of'].replace('_', ' ')}"
        try:
            benchmarks.append(msgspec.convert({"name": name, "precision": own, **fields}, Benchmark))
        except msgspec.ValidationError as error:
            raise BadInputError(f"conf/roofs: {key}: {error}") from error
    return benchmarks


def assemble(outcomes: list[Outcome], machine: Machine) -> list[Roof]:
    """Roofs from results: compute roofs and the launch floor one by one, each bandwidth level as the envelope of its
    access mixes. A mix that could not be measured makes its roof incomplete, never silently lower."""
    single = [o for o in outcomes if o.benchmark.kind != "bandwidth" and o.rate]
    names = {outcome.benchmark.name for outcome in single}
    roofs = [_single(_promoted(outcome, names), machine) for outcome in single]
    levels = dict.fromkeys(o.benchmark.level for o in outcomes if o.benchmark.kind == "bandwidth")
    for level in levels:
        mixes = [o for o in outcomes if o.benchmark.kind == "bandwidth" and o.benchmark.level == level]
        if level is not None and any(outcome.rate for outcome in mixes):
            roofs.append(envelope(level, mixes, machine))
    return roofs


def _promoted(outcome: Outcome, measured: set[str]) -> Outcome:
    """A ceiling whose roof this machine does not have is the roof: mma.sync, where there is no wgmma."""
    if outcome.benchmark.ceiling_of is None or outcome.benchmark.ceiling_of in measured:
        return outcome
    benchmark = msgspec.structs.replace(outcome.benchmark, ceiling_of=None, cause=None)
    return msgspec.structs.replace(outcome, benchmark=benchmark)


def envelope(level: str, mixes: list[Outcome], machine: Machine) -> Roof:
    """The highest rate over read, write, copy and triad; which mix set it is kept beside it."""
    rates = {str(o.benchmark.mix): o.rate for o in mixes if o.rate}
    missing = [f"{o.benchmark.mix} ({o.problem})" for o in mixes if not o.rate]
    best = max((o for o in mixes if o.rate), key=lambda outcome: outcome.rate or 0.0)
    assert best.rate
    private = level in PRIVATE_LEVELS[machine.device]
    return Roof(
        name=level,
        kind="bandwidth",
        level=level,
        rate=best.rate,
        mixes=rates,
        compute_hz=best.compute_hz,
        clock_domain="compute" if private else "none",
        per_cycle=_per_cycle(best.rate, best.compute_hz, machine) if private else None,
        limit=_bandwidth_limit(level, best.compute_hz, machine),
        incomplete=f"not measured: {', '.join(missing)}" if missing else None,
    )


def _bandwidth_limit(level: str, clock: float | None, machine: Machine) -> float | None:
    """By arithmetic: the memory's bus and clock, or what L1 and shared memory move per cycle."""
    if level == "dram":
        return machine.limit("dram_bytes_per_s")
    per_cycle = machine.limit("l1_bytes_per_cycle")
    if level in ("l1", "shared") and per_cycle and clock and machine.units:
        return per_cycle * clock * machine.units
    return None


def _single(outcome: Outcome, machine: Machine) -> Roof:
    benchmark, rate, clock = outcome.benchmark, outcome.rate, outcome.compute_hz
    assert rate
    if benchmark.kind == "launch":
        return Roof(name=benchmark.name, kind="launch", rate=rate, compute_hz=clock)
    rates = _rate_per_cycle(benchmark, machine)
    limit = rates * machine.units * clock if rates and machine.units and clock else None
    return Roof(
        name=benchmark.name,
        kind="compute",
        rate=rate,
        precision=benchmark.precision,
        ceiling_of=benchmark.ceiling_of,
        cause=benchmark.cause,
        clock_domain="compute",
        compute_hz=clock,
        per_cycle=_per_cycle(rate, clock, machine),
        limit=limit if benchmark.ceiling_of is None else None,
        incomplete=_self_check(rate, limit) if benchmark.ceiling_of is None else None,
    )


def _rate_per_cycle(benchmark: Benchmark, machine: Machine) -> float | None:
    """FLOP per cycle and unit from the machine's limits; formats that only tensor cores do carry no suffix there."""
    names = [benchmark.precision]
    if benchmark.limit:
        names = [f"{benchmark.precision}_{benchmark.limit}", benchmark.precision]
    return next((rate for name in names if (rate := machine.limit(f"flop_per_cycle_{name}"))), None)


def _self_check(rate: float, limit: float | None) -> str | None:
    """Why a compute roof may not be believed: measured against arithmetic at the clock it held."""
    if limit and rate > TOO_HIGH * limit:
        return f"{rate / limit:.0%} of what the units can do at the clock held: clock or table of rates is wrong"
    if limit and rate < TOO_LOW * limit:
        return f"only {rate / limit:.0%} of what the units can do at the clock held"
    return None


def _per_cycle(rate: float, clock: float | None, machine: Machine) -> float | None:
    return rate / machine.units / clock if clock and machine.units else None


def code_version(config: dict[str, Any], config_folders: Iterable[Path]) -> str:
    """Changes with anything that a roof depends on: the benchmarks, their list, and how they are timed."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    files = [PACKAGE / name for name in ("timing.py", "statistics.py", "measure.py", "roofs.py")]
    files += sorted((PACKAGE / "devices").glob("*.py")) + sorted((PACKAGE / "devices").glob("*.yaml"))
    files += [file for file in sorted((kernels_folder() / "roofs").glob("*")) if file.is_file()]
    for folder in config_folders:
        files += sorted((folder / "kernel" / "roofs").glob("*.yaml"))
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
