"""The roofs of one machine in one clock mode: measured when asked for, kept in a file, used again.

A stored set belongs to one machine (its id stands for UUID, driver, power limit and MIG mode of a GPU), one clock mode,
one fill and one version of the code and the list behind it. Anything else is measured again.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.input_files import read_json
from roofexp.config.paths import PACKAGE, kernel_roots, kernels_folder
from roofexp.config.settings import TimingSettings
from roofexp.config.yaml_file import read_mapping
from roofexp.devices.base import FEWER_CORES
from roofexp.errors import BadInputError, DamagedFileError
from roofexp.kernel import Kernel
from roofexp.kernel.code_version import code_files, program_code
from roofexp.measure.bench import Reply, Request
from roofexp.measure.host_load import HELD_BACK, NOT_QUIET
from roofexp.records.files import lock_held, write_json
from roofexp.records.machine import Machine, Roof, RoofSet
from roofexp.roofs.assembly import assemble, with_checks
from roofexp.roofs.benchmark import PRIVATE_LEVELS, Benchmark, Outcome, kernel_of, levels_of, measure_sustained, plan
from roofexp.roofs.precompile import CompileAhead

Run = Callable[[Request], Reply]
Announce = Callable[[str], None]
DISTURBING = (NOT_QUIET, HELD_BACK, FEWER_CORES)  # flags of a time that is not the machine's own
NOT_IDENTIFYING = ("policy",)  # keys of the configuration that change no measured number
DISTURBED = "disturbed"  # flag of a roof: the next sweep measures it again
_measured_here: set[Path] = set()  # files written by this process: disturbed or not, a sweep measures its roofs once


class RoofStore:
    """``config`` is the ``roofs`` group of the configuration."""

    def __init__(
        self, folder: Path, machine: Machine, clock_mode: str, config: dict[str, Any], config_folders: list[Path]
    ) -> None:
        self._machine = machine
        self._clock_mode = clock_mode
        self._config = config
        self._config_folders = config_folders
        self._fill = str(config.get("fill") or "normal")
        self._file = stored_file(folder, machine.machine_id, clock_mode, self._fill)
        self._version = code_version(config, config_folders)
        self._built: dict[str, Kernel] = {}
        self.saved_s = 0.0  # what a stored set would have taken to measure
        self.set = self._stored() or self._empty()

    def ensure(self, precision: str, timing: TimingSettings, run: Run, announce: Announce) -> RoofSet | None:
        """The roofs that a point of this precision needs; what is missing is measured now."""
        policy = self._config["policy"]
        if policy == "off":
            return None
        missing = self.missing(self.benchmarks([precision]))
        if missing and policy == "measure":
            self.measure(missing, timing, run, announce)
        return self.for_sweeps() if self.set.roofs else None

    def for_sweeps(self) -> RoofSet:
        """Without the ceilings that no sweep waits for: what a figure shows must not depend on what else was asked."""
        entries = self._config.get(self._machine.device, {})
        names = {b.name for p in self._precisions() for b in plan(entries, p, levels_of(self._machine), extra=True)}
        names -= {b.name for p in self._precisions() for b in plan(entries, p, levels_of(self._machine))}
        return msgspec.structs.replace(self.set, roofs=[roof for roof in self.set.roofs if roof.name not in names])

    def _precisions(self) -> list[str]:
        return list(dict.fromkeys(roof.precision for roof in self.set.roofs if roof.precision)) or ["fp32"]

    def benchmarks(self, precisions: Iterable[str], extra: bool = False) -> list[Benchmark]:
        """What these precisions need, each benchmark once."""
        entries, levels = self._config.get(self._machine.device, {}), levels_of(self._machine)
        found = [b for precision in precisions for b in plan(entries, precision, levels, extra)]
        return list({benchmark.name: benchmark for benchmark in found}.values())

    def missing(self, benchmarks: Sequence[Benchmark]) -> list[Benchmark]:
        return [benchmark for benchmark in benchmarks if not self._has(benchmark)]

    def without_sustained(self, benchmarks: Sequence[Benchmark]) -> list[Benchmark]:
        """Those that are also to be run under lasting load, were measured in bursts, and were not yet."""
        have = {roof.name for roof in self.set.roofs if roof.sustained is None}
        return [benchmark for benchmark in benchmarks if benchmark.sustained and benchmark.name in have]

    @property
    def roots(self) -> list[Path]:
        """Folders with the kernels' code."""
        return kernel_roots(self._config_folders)

    def forget(self, benchmarks: Sequence[Benchmark]) -> None:
        """So that they are measured again; the file changes only when they were."""
        names, levels = {b.name for b in benchmarks}, {b.level for b in benchmarks if b.mix and not b.ceiling_of}
        roofs = [
            r
            for r in self.set.roofs
            if r.name not in names and not (r.mixes and r.ceiling_of is None and r.level in levels)
        ]
        problems = {name: why for name, why in self.set.unavailable.items() if name not in names}
        self.set = msgspec.structs.replace(self.set, roofs=roofs, unavailable=problems)

    def measure(self, missing: Sequence[Benchmark], timing: TimingSettings, run: Run, announce: Announce) -> None:
        """In bursts. What was finished is kept, whatever ends this."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        forgotten = self.set
        with lock_held(Path(f"{self._file}.lock")):  # another process may be measuring the same machine
            stored = self._stored()
            if stored is not None and forgotten.measured != stored.measured:
                self.set = stored  # what another process measured meanwhile
            missing = self.missing(missing)
            if missing:
                self._measure(missing, timing, run, announce)

    def _measure(self, missing: list[Benchmark], timing: TimingSettings, run: Run, announce: Announce) -> None:
        start = time.monotonic()
        outcomes: list[Outcome] = []
        on_gpu = self._machine.device == "cuda"
        ahead = CompileAhead(self._machine, self.kernels(missing) if on_gpu else [], self._config_folders)
        try:
            for number, benchmark in enumerate(missing):
                announce(f"roof {number + 1} of {len(missing)}: {benchmark.name}")
                outcomes.append(self._run(benchmark, timing, run))
            checks = ahead.checks()
        finally:
            ahead.stop()
            self._keep(whole_levels(outcomes, missing), time.monotonic() - start)
        if checks:
            self.keep([with_checks(r, [checks[r.name]]) if r.name in checks else r for r in self.set.roofs])
        disturbed = sum(outcome.disturbed for outcome in outcomes)
        if disturbed:
            announce(f"{disturbed} roofs were disturbed while they were measured; the next sweep measures them again")

    def sustain(self, benchmarks: Sequence[Benchmark], timing: TimingSettings, run: Run, announce: Announce) -> None:
        """Runs them until the clock has settled; each result is kept at once."""
        for number, benchmark in enumerate(benchmarks):
            announce(f"sustained {number + 1} of {len(benchmarks)}: {benchmark.name}")
            kernel, start = self._kernel(benchmark), time.monotonic()
            found = measure_sustained(kernel, timing, run, {"mode": self._clock_mode})
            took_s = time.monotonic() - start
            roofs = [
                msgspec.structs.replace(roof, sustained=found) if roof.name == benchmark.name and found else roof
                for roof in self.set.roofs
            ]
            seconds = self.set.seconds + took_s
            self.set = msgspec.structs.replace(
                self.set, seconds=seconds, took_s={**self.set.took_s, f"{benchmark.name}, sustained": round(took_s, 3)}
            )
            self.keep(roofs)

    def keep(self, roofs: list[Roof]) -> None:
        """Writes these roofs in the place of those that were there."""
        self.set = msgspec.structs.replace(self.set, roofs=roofs)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_json(self._file, self.set)

    def _keep(self, outcomes: list[Outcome], seconds: float) -> None:
        if not outcomes:
            return
        disturbed = {outcome.benchmark.name for outcome in outcomes if outcome.disturbed}
        levels = {o.benchmark.level for o in outcomes if o.disturbed and o.benchmark.kind == "bandwidth"}
        roofs = [
            msgspec.structs.replace(roof, flags=[*roof.flags, DISTURBED])
            if roof.name in disturbed or (roof.ceiling_of is None and roof.level in levels - {None})
            else roof
            for roof in assemble(outcomes, self._machine, self.set.roofs)
        ]
        self.set = msgspec.structs.replace(
            self.set,
            unavailable={**self.set.unavailable, **{o.benchmark.name: o.problem for o in outcomes if o.problem}},
            seconds=self.set.seconds + seconds,
            took_s={**self.set.took_s, **{o.benchmark.name: round(o.took_s, 3) for o in outcomes}},
            disturbed=self.set.disturbed or any(outcome.disturbed for outcome in outcomes),
            measured=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )
        self.keep([*self.set.roofs, *roofs])
        _measured_here.add(self._file.resolve())

    def _run(self, benchmark: Benchmark, timing: TimingSettings, run: Run) -> Outcome:
        start = time.monotonic()
        try:
            kernel = self._kernel(benchmark)
        except BadInputError as error:
            return Outcome(benchmark=benchmark, rate=None, compute_hz=None, problem=str(error))
        settings = burst_settings(timing, self._config["budget_s"])
        reply = run(Request(kernel=kernel, timing=settings, cold=False, seed=1, clock={"mode": self._clock_mode}))
        took_s = time.monotonic() - start
        if reply.timing is None:
            return Outcome(benchmark=benchmark, rate=None, compute_hz=None, problem=reply.reason, took_s=took_s)
        work = kernel.work.flops if benchmark.kind == "compute" else kernel.work.dram_bytes
        return Outcome(
            benchmark=benchmark,
            rate=reply.timing.median_s if benchmark.kind == "launch" else work / self._launch_s(benchmark, reply),
            compute_hz=reply.clock.compute_hz if reply.clock else None,
            disturbed=any(flag.name in DISTURBING for flag in reply.flags),
            took_s=took_s,
        )

    def _launch_s(self, benchmark: Benchmark, reply: Reply) -> float:
        """Of the fastest samples, short of outliers: a roof is what the machine reaches. Of all samples where the rate
        follows the clock and the clock read is the mean over all of them, as the GPU's cycle counters are: the fastest
        held a higher one while power was still free, and would seem to do more per cycle than there is."""
        assert reply.timing
        private = benchmark.level in PRIVATE_LEVELS[self._machine.device]
        if self._machine.device == "cuda" and reply.samples and (benchmark.kind == "compute" or private):
            return sum(reply.samples.time_s) / len(reply.samples.time_s)
        return reply.timing.p5_s

    def _kernel(self, benchmark: Benchmark) -> Kernel:
        if benchmark.name not in self._built:
            self._built[benchmark.name] = kernel_of(benchmark, self._machine, self._config_folders, self._fill)
        return self._built[benchmark.name]

    def kernels(self, benchmarks: Sequence[Benchmark]) -> list[tuple[Benchmark, Kernel]]:
        """Those that can be built; the others say why when it is their turn."""
        found = []
        for benchmark in benchmarks:
            try:
                found.append((benchmark, self._kernel(benchmark)))
            except BadInputError:
                continue
        return found

    def _has(self, benchmark: Benchmark) -> bool:
        is_mix = benchmark.kind == "bandwidth" and benchmark.ceiling_of is None
        for roof in self.set.roofs:
            if roof.name == benchmark.name:
                return True
            if is_mix and roof.kind == "bandwidth" and roof.level == benchmark.level and roof.ceiling_of is None:
                return True
        return benchmark.name in self.set.unavailable

    def _stored(self) -> RoofSet | None:
        stored = read_stored(self._file)
        if stored is None or stored.code_version != self._version:
            return None
        stale = stored.disturbed and self._file.resolve() not in _measured_here
        if stale and self._config["policy"] == "measure":
            kept = [roof for roof in stored.roofs if DISTURBED not in roof.flags]
            if len(kept) == len(stored.roofs):  # a file of before, which does not say which
                return None
            return msgspec.structs.replace(stored, roofs=kept, disturbed=False)
        self.saved_s = stored.seconds
        return stored

    def _empty(self) -> RoofSet:
        return RoofSet(
            machine=self._machine,
            clock_mode=self._clock_mode,
            code_version=self._version,
            measured="",
            seconds=0.0,
            fill=self._fill,
            roofs=[],
        )


def burst_settings(timing: TimingSettings, budget_s: float) -> TimingSettings:
    """Short, so that heat and the power limit do not bind yet."""
    return msgspec.structs.replace(
        timing, budget_s=budget_s, warmup_s=min(timing.warmup_s, 0.1), target=0.005, min_samples=5
    )


def whole_levels(outcomes: list[Outcome], wanted: Sequence[Benchmark]) -> list[Outcome]:
    """Short of the mixes of a memory level that was interrupted: its envelope would be stored too low."""
    done = {outcome.benchmark.name for outcome in outcomes}
    cut = {b.level for b in wanted if b.kind == "bandwidth" and not b.ceiling_of and b.name not in done}
    return [o for o in outcomes if o.benchmark.ceiling_of or o.benchmark.level not in cut or o.benchmark.level is None]


def stored_file(folder: Path, machine_id: str, clock_mode: str, fill: str = "normal") -> Path:
    """Where the roofs of a machine in a clock mode are kept; those of other data than random beside them."""
    return folder / f"{machine_id}_{clock_mode}{'' if fill == 'normal' else f'_{fill}'}.json"


def read_stored(file: Path) -> RoofSet | None:
    """None for a file that is not there, cut short or foreign."""
    try:
        stored: RoofSet = read_json(file, RoofSet)
    except DamagedFileError:
        return None
    return stored


def code_version(config: dict[str, Any], config_folders: Iterable[Path]) -> str:
    """Changes with anything that a roof depends on: the benchmarks, their list, and how they are timed."""
    listed = {key: value for key, value in config.items() if key not in NOT_IDENTIFYING}
    folders = list(config_folders)
    digest = hashlib.sha256(json.dumps([listed, program_code()], sort_keys=True, default=str).encode())
    files = [PACKAGE / "roofs" / name for name in ("benchmark.py", "assembly.py", "store.py")]
    files += [file for file in sorted((kernels_folder() / "roofs").glob("*")) if file.is_file()]
    for file in dict.fromkeys([*files, *kernel_files(config, folders)]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def kernel_files(config: dict[str, Any], config_folders: list[Path]) -> list[Path]:
    """The YAML files of every kernel that the list names, and their code with what it includes and imports."""
    entries = [entry for group in config.values() if isinstance(group, Mapping) for entry in group.values()]
    names = {name for entry in entries for name in _texts(entry.get("kernel"))}
    paths = [folder / "kernel" / f"{name}.yaml" for name in sorted(names) for folder in config_folders]
    descriptions, roots = [path for path in paths if path.is_file()], kernel_roots(config_folders)
    return [*descriptions, *(file for path in descriptions for file in code_files(read_mapping(path), roots))]


def _texts(value: Any) -> list[str]:
    """Every text in a value from YAML, however deep."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []


WORTH_SAYING_S = 3.0
TYPICAL_S = 1.0  # of a benchmark that was never measured here: compiled, checked, timed
TYPICAL_CPU_DRAM_S = 12.0  # large arrays, filled and compared by the cores themselves
TAKES_THEM = "roofs=cached takes them as they are"


def notice(missing: Sequence[Benchmark], device: str, kept: RoofSet | None, code_version: str) -> str | None:
    """None where it is done before anybody wonders. ``kept``: what the roofs' file holds, used or not."""
    same = kept is not None and kept.code_version == code_version
    seconds = sum(
        kept.took_s[benchmark.name] if same and kept and benchmark.name in kept.took_s else typical_s(benchmark, device)
        for benchmark in missing
    )
    if seconds < WORTH_SAYING_S:
        return None
    roofs = f"{len(missing)} roof{'s' if len(missing) > 1 else ''} of this machine"
    if same and kept and kept.disturbed and kept.roofs:
        why = "other programs or a quota disturbed the last"
        return f"measuring {roofs} again, about {seconds:.0f} s: {why}; {TAKES_THEM}"
    return f"measuring {roofs}, about {seconds:.0f} s; they are kept"


def typical_s(benchmark: Benchmark, device: str) -> float:
    return TYPICAL_CPU_DRAM_S if device == "cpu" and benchmark.level == "dram" else TYPICAL_S
