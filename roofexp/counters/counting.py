"""Counts a sweep's points under ncu: which points need counters, and how their records receive them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from roofexp.clocks import roofs_of
from roofexp.config.paths import kernel_roots
from roofexp.config.settings import PlacingSettings, placing_of
from roofexp.counters.join import counted_point, join, join_failure, tidy_table
from roofexp.devices.device_lock import DeviceLock, gpu_names
from roofexp.errors import BadInputError, SkippedError
from roofexp.kernel import Kernel, build_kernel
from roofexp.ncu import Explanation, Offer, ask_metrics, explain_missing, find_ncu
from roofexp.ncu.catalogue import request, resolve
from roofexp.ncu.child import CLOCK_CONTROL, Command, Task
from roofexp.ncu.launch import Launch
from roofexp.ncu.session import EVERY_POINT, Counting, child_environment, count
from roofexp.records.archive import stored_config
from roofexp.records.files import write_atomically
from roofexp.records.machine import Machine
from roofexp.records.point import Point, read_point, write_point
from roofexp.records.sweep_folder import NO_COUNTERS_MARK, read_machines, read_roofs


class CountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The ``counters`` group of the configuration; see conf/counters/basic.yaml."""

    level: str
    phase: str = "sweep"
    ncu: str | None = None
    metrics: list[str] | None = None
    cache_control: str = "auto"
    replay_mode: str = "kernel"
    timeout_s: float = 120.0
    keep_reports: bool = False

    @property
    def level_asked(self) -> str | None:
        """The catalogue's level; None where metrics are named instead."""
        return None if self.metrics else {"auto": "basic"}.get(self.level, self.level)


class CountRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which points to count, and how. ``override`` replaces keys of their own ``counters`` group; ``default`` is the
    level of those that were timed without; ``phase`` leaves out points of the other phase, ``again`` none.
    ``config_folders`` are the user's own with code, and ncu is what ``override`` says: the sweep's files may be
    somebody else's."""

    override: dict[str, Any] = {}
    default: str = "none"
    phase: str | None = None
    again: bool = False
    config_folders: list[Path] = []

    def settings(self, stored: dict[str, Any]) -> CountSettings | None:
        """None where no counters are wished. Raises msgspec.ValidationError."""
        settings = msgspec.convert({**stored, "ncu": None, **self.override}, CountSettings)
        if settings.level == "none":
            settings = msgspec.structs.replace(settings, level=self.default)
        other_phase = self.phase is not None and settings.phase != self.phase
        return None if settings.level == "none" or other_phase else settings


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A point to be counted, rebuilt from its folder."""

    folder: Path
    point: Point
    kernel: Kernel
    settings: CountSettings
    placing: PlacingSettings
    device: str  # cuda or cuda:<index>

    @property
    def session(self) -> tuple[str, str, str, str | None, bytes]:
        """Points that agree in this share a session of ncu."""
        settings = msgspec.json.encode(self.settings)
        return self.device, self.point.clock_mode, self.point.cache_state, self.point.machine_id, settings

    @property
    def half_lanes(self) -> int:
        code = self.kernel.implementations.get("cuda") if self.point.implementation == "cuda" else None
        return int((code or {}).get("half_lanes") or 2)


def gpu_points(folders: Iterable[Path]) -> list[tuple[Path, Point]]:
    """Points that a GPU measured, in job order."""
    points = []
    for folder in folders:
        try:
            point = read_point(folder / "point.json")
        except (ValueError, OSError):
            continue
        if point.device == "cuda" and point.status == "ok" and point.implementation:
            points.append((folder, point))
    return sorted(points, key=lambda pair: pair[1].job)


def candidate_of(folder: Path, point: Point, request: CountRequest) -> Candidate | None:
    """None for a point that wants no counters or has them; one that cannot be rebuilt is marked."""
    settings = None
    try:
        config = stored_config(folder)
        settings = request.settings(config["counters"])
        if settings is None or (_has(point, settings) and not request.again):
            return None
        kernel = build_kernel(config["kernel"], config["precision"], config["size"], config["fill"])
        placing = placing_of(config, str(folder))
    except (BadInputError, SkippedError, KeyError, TypeError, msgspec.ValidationError) as error:
        level = settings.level_asked if settings else None
        write_point(folder, join_failure(point, f"its stored configuration cannot be used: {error}", level, "refused"))
        return None
    device = str(config["device"])
    return Candidate(
        folder=folder,
        point=point,
        kernel=kernel,
        settings=settings,
        placing=placing,
        device=device if device.startswith("cuda") else "cuda",
    )


def _has(point: Point, settings: CountSettings) -> bool:
    counted = point.counted
    return counted is not None and counted.unavailable is None and counted.level == settings.level_asked


Tell = Callable[[str], None]
OF_THE_SESSION = ("unknown option", "other machine")  # another session of the sweep may fare better


def count_sweep(
    sweep: Path,
    request: CountRequest,
    *,
    folders: Iterable[Path] | None = None,
    say: Tell = print,
    progress: Tell = lambda line: None,
) -> int:
    """Counts the points of ``sweep`` (or those in ``folders``) that ``wish`` is for, and writes them. How many."""
    points = gpu_points([file.parent for file in sweep.glob("*/point.json")] if folders is None else folders)
    candidates = [candidate for folder, point in points if (candidate := candidate_of(folder, point, request))]
    counter = _Counter(sweep, say, progress, request.phase == "job", request.config_folders)
    for key in dict.fromkeys(candidate.session for candidate in candidates):
        counter.count_group([candidate for candidate in candidates if candidate.session == key])
    return len(candidates)


class _Counter:
    """The sessions of one sweep: what is known for all of them is found out once."""

    def __init__(self, sweep: Path, say: Tell, progress: Tell, asks_once: bool, config_folders: list[Path]) -> None:
        self._sweep, self._say, self._progress, self._asks_once = sweep, say, progress, asks_once
        self._machines = read_machines(sweep)
        self._roofs = read_roofs(sweep)
        self._roots = kernel_roots(config_folders)
        self._unavailable = _marked(sweep) if asks_once else None

    def count_group(self, group: list[Candidate]) -> None:
        """One session; every point of it is written, with counters or with the reason why it has none."""
        command, missing, trouble = None, dict[str, str](), self._unavailable
        if trouble is None:
            command, missing, offer, trouble = self._prepare(group)
        if command is None or trouble is not None:
            self._write_unavailable(group, trouble or explain_missing())
            return
        plural = "s" if len(group) > 1 else ""
        self._say(f"counters: {len(group)} point{plural} under ncu {offer.version or ''}".rstrip())
        with DeviceLock(gpu_names(group[0].point.machine_id or "")).taken(self._say):
            counting = count([_task(candidate) for candidate in group], command, self._progress)
        self._write(group, counting, missing | counting.missing, offer)

    def _prepare(self, group: list[Candidate]) -> tuple[Command | None, dict[str, str], Offer, Explanation | None]:
        """The command, the metrics that this ncu does not offer, what it is, or why there is nothing to run."""
        settings, machine = group[0].settings, self._machines.get(group[0].point.machine_id or "")
        offer = Offer(version=None, metrics=[])
        try:
            ncu = find_ncu(settings.ncu)
            if ncu is None:
                return None, {}, offer, explain_missing()
            architecture = _architecture(machine)
            asked = _asked(group, architecture)
            offer = ask_metrics(ncu, architecture, _cache_folder(group[0].device))
        except BadInputError as error:
            return None, {}, offer, Explanation(kind="missing", cause=str(error), cure="timing works without counters")
        if offer.trouble is not None and offer.trouble.kind in EVERY_POINT:
            return None, {}, offer, offer.trouble
        resolved = resolve(asked, offer.listing) if offer.metrics else None
        metrics = resolved.available if resolved else asked
        if not metrics:
            cause = f"this ncu offers none of: {', '.join(asked)}"
            return None, {}, offer, Explanation(kind="unknown metric", cause=cause, cure="see ncu --query-metrics")
        command = self._command(group[0], ncu, metrics, machine)
        return command, resolved.unavailable if resolved else {}, offer, None

    def _command(self, first: Candidate, ncu: Path, metrics: list[str], machine: Machine | None) -> Command:
        settings, point = first.settings, first.point
        cache_control = settings.cache_control
        if cache_control == "auto":
            cache_control = "all" if point.cache_state == "cold" else "none"
        report = self._sweep / f"counters_{point.clock_mode}_{point.cache_state}.ncu-rep"
        return Command(
            ncu=ncu,
            metrics=metrics,
            clock_control=CLOCK_CONTROL.get(point.clock_mode, "none"),
            cache_control=cache_control,
            replay_mode=settings.replay_mode,
            timeout_s=settings.timeout_s,
            device=first.device,
            roots=self._roots,
            machine_name=machine.name if machine else None,
            report=report.absolute() if settings.keep_reports else None,
        )

    def _write_unavailable(self, group: list[Candidate], trouble: Explanation) -> None:
        if self._unavailable is None and trouble.kind not in OF_THE_SESSION:
            self._unavailable = trouble
        if self._unavailable is trouble and self._asks_once:
            write_atomically(self._sweep / NO_COUNTERS_MARK, msgspec.json.encode(trouble))
        for candidate in group:
            reason = f"{trouble.kind}: {trouble}"
            write_point(candidate.folder, join_failure(candidate.point, reason, candidate.settings.level_asked))

    def _write(self, group: list[Candidate], counting: Counting, missing: dict[str, str], offer: Offer) -> None:
        share_s = counting.seconds / len(group)
        rest = []
        for candidate in group:
            name = candidate.point.point_id
            if name in counting.launches:
                self._write_counted(candidate, counting.launches[name], counting.command, missing, offer, share_s)
            elif name in counting.problems:
                problem, level = counting.problems[name], candidate.settings.level_asked
                write_point(candidate.folder, join_failure(candidate.point, problem.reason, level, problem.kind))
            else:
                rest.append(candidate)
        if rest and counting.unavailable is not None:
            self._write_unavailable(rest, counting.unavailable)

    def _write_counted(
        self, candidate: Candidate, launches: list[Launch], command: Command, missing: dict[str, str], offer: Offer,
        counting_s: float,
    ) -> None:  # fmt: skip
        point, machine = candidate.point, self._machines.get(candidate.point.machine_id or "")
        asked = _metrics_of(candidate, _architecture(machine))
        counted = counted_point(point, launches, asked, candidate.half_lanes)
        counted = msgspec.structs.replace(
            counted,
            level=candidate.settings.level_asked,
            missing={name: missing.get(name, reason) for name, reason in counted.missing.items()},
            counting_s=counting_s,
            ncu_version=offer.version,
            clock_control=command.clock_control,
            cache_control=command.cache_control,
            replay_mode=command.replay_mode,
        )
        write_atomically(candidate.folder / "counters.csv", tidy_table(launches))
        roofs = roofs_of(point, self._roofs)
        write_point(candidate.folder, join(point, counted, roofs, candidate.placing))


def _task(candidate: Candidate) -> Task:
    point = candidate.point
    return Task(
        name=point.point_id,
        kernel=candidate.kernel,
        implementation=point.implementation or "cuda",
        seed=point.seed or 0,
        hot=point.cache_state == "hot",
    )


def _asked(group: list[Candidate], architecture: str | None) -> list[str]:
    """The metrics of the whole session: what any of its precisions needs."""
    return list(dict.fromkeys(name for candidate in group for name in _metrics_of(candidate, architecture)))


def _metrics_of(candidate: Candidate, architecture: str | None) -> list[str]:
    level = candidate.settings.level_asked
    if level is None:
        return list(candidate.settings.metrics or [])
    if architecture is None:
        raise BadInputError(
            "the GPU's compute capability is not in the sweep's files, so that its counters are unknown"
        )
    return request(architecture, level, candidate.point.precision)


def _architecture(machine: Machine | None) -> str | None:
    architecture = machine.details.get("architecture") if machine else None
    return str(architecture) if architecture else None


def _cache_folder(device: str) -> Path:
    return Path(child_environment(device)["ROOFEXP_CACHE_DIR"])


def _marked(sweep: Path) -> Explanation | None:
    try:
        return msgspec.json.decode((sweep / NO_COUNTERS_MARK).read_bytes(), type=Explanation)
    except (OSError, msgspec.MsgspecError):
        return None
