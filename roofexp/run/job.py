"""One job of a sweep: from its configuration to its record on disk. Never raises for what a point does wrong."""

from __future__ import annotations

import contextlib
import errno
import secrets
import sys
import time
import traceback
import uuid
from pathlib import Path
from typing import Any

import msgspec
from omegaconf import DictConfig

from roofexp.clocks import asked_for, check_clock
from roofexp.clocks.hold import with_asked
from roofexp.config.numbers import check_numbers
from roofexp.config.paths import kernel_roots
from roofexp.config.plain import config_hash, plain
from roofexp.config.schema import CounterPhase
from roofexp.config.settings import PlacingSettings, TimingSettings
from roofexp.devices import parse_device
from roofexp.diagnosis import placed
from roofexp.errors import EXIT_POINT_FAILED, BadInputError, SkippedError
from roofexp.kernel import Kernel
from roofexp.kernel.code_version import kernel_code, program_code
from roofexp.kernel.load import kernel_of
from roofexp.measure.bench import LONGEST_DETAIL, LONGEST_REASON, Progress, Reply, Request
from roofexp.placing.roofline import least_time_s, model_traffic
from roofexp.records.files import write_atomically, write_table
from roofexp.records.machine import RoofSet
from roofexp.records.point import Clock, Point, Traffic, read_point, write_point
from roofexp.records.samples import Samples
from roofexp.records.sweep_folder import STOP_MARK, now
from roofexp.run.kept import OLDER_MARK, is_older
from roofexp.run.process import PROCESS
from roofexp.run.progress import Run
from roofexp.run.session import Session, config_folders
from roofexp.text.console import explain_disk, one_line, shortened
from roofexp.text.numbers import engineering, percent

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class JobPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job stands: its folders (absolute), number and overrides, and where its configuration came from."""

    sweep: Path
    folder: Path
    outputs: Path
    job: int
    overrides: list[str]
    config_folders: list[Path]


class Artifacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a measurement beside its record."""

    samples: Samples | None = None
    clock_rows: list[dict[str, Any]] = []
    detail: str | None = None  # the traceback of an error that nobody foresaw


NOTHING = Artifacts()


def run_job(config: DictConfig) -> None:
    """The task function that Hydra calls for every job."""
    where = locate(config)
    try:
        try:
            values = plain(config)
        except BadInputError as error:
            _finish_job(_unresolved(config, where, str(error)), NOTHING, where)
        else:
            run_at(values, where)
    except OSError as error:  # Hydra would go on, to points that a full disk cannot keep either
        print(f"roofexp: {explain_disk(error)}", file=sys.stderr)
        raise SystemExit(EXIT_POINT_FAILED) from error


def run_at(values: dict[str, Any], where: JobPlace) -> None:
    """Measures one point in its folder, unless it is there already. ``values``: its configuration, plain, of the
    schema's types. Whatever goes wrong in it is this point's failed record; only a full disk is raised."""
    PROCESS.stop.raise_again()
    if (where.sweep / STOP_MARK).exists():
        return
    start_s = time.perf_counter() - PROCESS.sessions.waited_s
    identity = config_hash(values)
    point = _finished_before(identity, values, where)
    if point is not None:
        PROCESS.run_in(where.sweep).display.finished(point)
        return
    blank = _blank(values, identity, where)
    try:
        point, artifacts = _measure(blank, values, where)
    except OSError as error:
        if error.errno in FULL_DISK:
            raise
        point, artifacts = _failed(blank, error)
    except Exception as error:  # nobody foresaw it: this point fails, the others go on
        point, artifacts = _failed(blank, error)
    overhead_s = time.perf_counter() - PROCESS.sessions.waited_s - start_s - point.measuring_s
    _finish_job(msgspec.structs.replace(point, overhead_s=overhead_s), artifacts, where, values)
    if PROCESS.run_in(where.sweep).lock is None:  # a launcher's process, which never hears of the sweep's end
        PROCESS.sessions.let_go()


def _finish_job(point: Point, artifacts: Artifacts, where: JobPlace, values: dict[str, Any] | None = None) -> None:
    """Keeps the point, counts it where each job counts itself, and tells who wants to know."""
    run = PROCESS.run_in(where.sweep)
    point = _keep(point, artifacts, where)
    if values is not None:
        point = _counted(point, values, where, run)
    run.log_point(point, where.folder)
    run.display.finished(point)
    if point.status == "failed" and values is not None and values["fail_fast"]:
        (where.sweep / STOP_MARK).touch()


def locate(config: DictConfig) -> JobPlace:
    """From Hydra's runtime: a plain run lies in a sweep folder of its own, as job 0."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra = HydraConfig.get()
    folder, cwd = Path(hydra.runtime.output_dir), Path(hydra.runtime.cwd)
    swept = hydra.mode == RunMode.MULTIRUN
    return JobPlace(
        sweep=cwd / hydra.sweep.dir if swept else folder.parent,
        folder=folder,
        outputs=cwd / config.outputs,
        job=int(hydra.job.num) if swept else 0,
        overrides=list(hydra.overrides.task),
        config_folders=config_folders(hydra),
    )


def _finished_before(identity: str, values: dict[str, Any], where: JobPlace) -> Point | None:
    """The point of an earlier run into the same folder, when it is done and measured the same thing; also by older
    code, unless that is to be measured again."""
    file = where.folder / "point.json"
    if not file.is_file():
        return None
    with contextlib.suppress(ValueError):
        point = read_point(file)
        again = (where.sweep / OLDER_MARK).exists() and is_older(point, values, kernel_roots(where.config_folders))
        if point.status == "ok" and point.config_hash == identity and not again:
            return point
    return None


def _measure(point: Point, values: dict[str, Any], where: JobPlace) -> tuple[Point, Artifacts]:
    run = PROCESS.run_in(where.sweep)
    try:
        check_numbers(values)
        kernel = kernel_of(values)
        check_clock(values["clock"])
        session = PROCESS.sessions.get(values["device"], where.config_folders)
        machine = session.machine(where.sweep)
        held = session.hold_clocks(values["clock"], run.display.say)
    except SkippedError as error:
        return _skipped(point, values["device"], str(error)), NOTHING
    except BadInputError as error:
        reason = shortened(str(error), LONGEST_REASON)
        return msgspec.structs.replace(point, reason_kind="bad input", reason=reason), NOTHING
    run.tell_fallback(machine.name, session.fallback)
    point = msgspec.structs.replace(
        point, device=machine.device, machine_id=machine.machine_id, shape=kernel.shape, work=kernel.work, created=now()
    )
    roofs = _roofs(values, where, run, session)
    cold = values["cache"]["state"] == "cold"
    traffic = model_traffic(kernel.work, machine, cold)
    seed = values["seed"] if values["seed"] is not None else secrets.randbelow(2**31)
    timing = TimingSettings(**values["timing"])
    request = Request(kernel=kernel, timing=timing, cold=cold, seed=seed, clock=values["clock"])
    run.display.working(point.label)
    reply = session.run(request, _report(run, point.label, kernel, traffic, roofs))
    clock, flags = with_asked(reply.clock, held, machine.nominal_hz)
    reply = msgspec.structs.replace(reply, clock=clock, flags=[*reply.flags, *flags])
    point = _with_reply(msgspec.structs.replace(point, seed=seed), reply, traffic)
    artifacts = Artifacts(samples=reply.samples, clock_rows=reply.clock_rows, detail=reply.detail)
    return placed(point, roofs, PlacingSettings(**values["placing"])), artifacts


def _blank(values: dict[str, Any], identity: str, where: JobPlace) -> Point:
    """The record before anything was measured."""
    asked = asked_for(values["clock"])
    return Point(
        **_identity(where),
        kernel=values["kernel"]["name"],
        size=values["size"],
        params=values["kernel"]["params"],
        scalars=values["kernel"]["scalars"],
        precision=values["precision"]["name"],
        clock_mode=values["clock"]["mode"],
        cache_state=values["cache"]["state"],
        fill=values["fill"],
        expect=values["kernel"]["expect"],
        clock=Clock(compute_hz=None, asked=asked) if asked else None,
        config_hash=identity,
        kernel_code=kernel_code(values["kernel"], kernel_roots(where.config_folders)),
        program_code=program_code(),
    )


def _unresolved(config: DictConfig, where: JobPlace, reason: str) -> Point:
    """The record of a point whose configuration cannot be resolved: what can be read of it, and why it failed."""
    return Point(
        **_identity(where),
        reason_kind="bad input",
        reason=reason,
        kernel=str(config.kernel._get_node("name")),
        size=0,
        precision=str(config.precision._get_node("name")),
        clock_mode=str(config.clock._get_node("mode")),
        cache_state=str(config.cache._get_node("state")),
        fill=str(config._get_node("fill")),
        config_hash="",
    )


def _identity(where: JobPlace) -> dict[str, Any]:
    return {
        "point_id": uuid.uuid4().hex[:12],
        "sweep_id": PROCESS.run_in(where.sweep).sweep_id,
        "job": where.job,
        "overrides": where.overrides,
        "status": "failed",
        "created": now(),
    }


def _skipped(point: Point, device: str, reason: str) -> Point:
    """The record of a point whose device has not what was asked of it."""
    kind = parse_device(device)[0]
    return msgspec.structs.replace(point, device=kind, status="skipped", reason_kind="not possible here", reason=reason)


def _failed(point: Point, error: Exception) -> tuple[Point, Artifacts]:
    """The record of a point that an error ended which nobody foresaw."""
    failed = msgspec.structs.replace(point, status="failed", reason_kind="error", reason=one_line(error))
    return failed, Artifacts(detail=shortened("".join(traceback.format_exception(error)), LONGEST_DETAIL))


def _roofs(values: dict[str, Any], where: JobPlace, run: Run, session: Session) -> RoofSet | None:
    """Missing roofs cost the verdict, not the point."""
    try:
        return session.roofs(values, where.outputs, where.sweep, run.announce)
    except BadInputError as error:
        run.display.say(f"roofs: {error}")
        return None


def _with_reply(point: Point, reply: Reply, traffic: Traffic) -> Point:
    """The record with what was measured."""
    return msgspec.structs.replace(
        point,
        status=reply.status,
        reason=reply.reason,
        reason_kind=reply.reason_kind,
        implementation=reply.implementation,
        check=reply.check,
        timing=reply.timing,
        clock=reply.clock,
        traffic=traffic if reply.timing else None,
        flags=list(reply.flags),
        measuring_s=reply.measuring_s,
    )


def _keep(point: Point, artifacts: Artifacts, where: JobPlace) -> Point:
    """Raw samples first, the record last: a record on disk is complete, and can be read again."""
    where.folder.mkdir(parents=True, exist_ok=True)
    if artifacts.samples:
        write_atomically(where.folder / "samples.csv", samples_table(artifacts.samples))
    if artifacts.clock_rows:
        write_table(where.folder / "clocks.csv", artifacts.clock_rows)
    if artifacts.detail:
        write_atomically(where.folder / "error.txt", artifacts.detail.encode(errors="replace"))
    try:
        write_point(where.folder, point)
    except ValueError as error:  # such as a number that JSON does not have
        point = msgspec.structs.replace(
            point, status="failed", reason_kind="error", reason=f"its record cannot be read again: {one_line(error)}",
            params={}, scalars={}, check=None, timing=None, clock=None, traffic=None, placement=None, diagnosis=None,
        )  # fmt: skip
        write_point(where.folder, point)
    return point


def _counted(point: Point, values: dict[str, Any], where: JobPlace, run: Run) -> Point:
    """With its counters, where each job counts itself: on a cluster the sweep ends on another machine."""
    if point.device != "cuda" or point.status != "ok" or values["counters"]["phase"] != CounterPhase.job.value:
        return point
    from roofexp.counters.counting import CountRequest, count_sweep

    try:
        say, progress = run.display.say, run.display.working
        ncu = {"ncu": values["counters"]["ncu"]}
        wish = CountRequest(phase="job", override=ncu, config_folders=where.config_folders)
        count_sweep(where.sweep, wish, folders=[where.folder], say=say, progress=progress)
    except Exception as error:  # a mistake in counting costs no timing
        run.display.say(f"counters: {one_line(error)}; traffic stays modelled")
    return read_point(where.folder / "point.json")


def samples_table(samples: Samples) -> bytes:
    lines = ["sample,at_s,time_s,launches"]
    for index, (at_s, time_s, launches) in enumerate(samples.each):
        lines.append(f"{index},{at_s:.9f},{time_s:.12g},{launches}")
    return ("\n".join(lines) + "\n").encode()


def _report(run: Run, label: str, kernel: Kernel, traffic: Traffic, roofs: RoofSet | None) -> Progress:
    """Shows the rate so far, and the share of what the roofs allow."""
    flops, unit = (kernel.work.flops, "FLOP/s") if kernel.work.flops else (traffic.bytes, "B/s")
    least_s = least_time_s(kernel.work, traffic, kernel.precision, roofs) if roofs else None

    def progress(time_s: float) -> None:
        share = f"  {percent(least_s / time_s)} of the roof" if least_s else ""
        run.display.working(label, f"{engineering(flops / time_s, unit)}{share}")

    return progress
