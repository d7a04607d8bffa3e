"""One job of a sweep: from its configuration to its record on disk. Never raises for what a point does wrong."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
from omegaconf import DictConfig

from roofexp.clocks import asked_for, check_clock
from roofexp.clocks.hold import with_asked
from roofexp.config.plain import config_hash, plain
from roofexp.config.schema import CounterPhase
from roofexp.devices import parse_device
from roofexp.diagnosis import diagnosed
from roofexp.errors import EXIT_POINT_FAILED, BadInputError, SkippedError
from roofexp.kernel import Kernel
from roofexp.kernel.load import kernel_of
from roofexp.measure.bench import Progress, Reply, Request
from roofexp.placing.roofline import PlacingSettings, least_time_s, model_traffic, place
from roofexp.records.files import write_atomically, write_table
from roofexp.records.machine import RoofSet
from roofexp.records.point import Clock, Point, Traffic, read_point, write_point
from roofexp.records.samples import Samples, TimingSettings
from roofexp.records.sweep_folder import STOP_MARK, SWEEP_FOLDER, now
from roofexp.run.progress import Running, running
from roofexp.run.session import Session, config_folders, session_for
from roofexp.run.signals import raise_again
from roofexp.text.console import explain_disk
from roofexp.text.numbers import engineering, percent


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job stands: its folders (absolute), number and overrides, and where its configuration came from."""

    sweep: Path
    folder: Path
    outputs: Path
    job: int
    overrides: list[str]
    config_folders: list[Path]


def run_job(config: DictConfig) -> None:
    """The task function that Hydra calls for every job."""
    try:
        run_at(config, locate(config))
    except OSError as error:  # Hydra would go on, to points that a full disk cannot keep either
        print(f"roofexp: {explain_disk(error)}", file=sys.stderr)
        raise SystemExit(EXIT_POINT_FAILED) from error


def run_at(config: DictConfig, where: Place) -> None:
    """Measures one point in its folder, unless it is there already; ``config`` is of the schema's types."""
    raise_again()
    start = time.perf_counter()
    run = running(where.sweep)
    if (where.sweep / STOP_MARK).exists():
        return
    point, reply = _finished_before(config, where), None
    if point is None:
        point, reply = _measure(config, where, run)
        overhead_s = time.perf_counter() - start - point.measuring_s
        point = msgspec.structs.replace(point, overhead_s=overhead_s)
        _keep(point, reply, where)
        point = _counted(point, config, where, run)
        run.log_point(point, where.folder)
    run.display.finished(point)
    if point.status == "failed" and config.fail_fast:
        (where.sweep / STOP_MARK).touch()


def locate(config: DictConfig) -> Place:
    """From Hydra's runtime: a plain run lies in a sweep folder of its own, as job 0."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    cwd = Path(hydra.runtime.cwd)
    return Place(
        sweep=sweep_folder(folder, cwd),
        folder=folder,
        outputs=cwd / config.outputs,
        job=int(hydra.job.num) if hydra.mode == RunMode.MULTIRUN else 0,
        overrides=list(hydra.overrides.task),
        config_folders=config_folders(hydra),
    )


def sweep_folder(folder: Path, cwd: Path) -> Path:
    """The sweep's folder, also for jobs in folders that a user named with slashes."""
    named = os.environ.get(SWEEP_FOLDER)
    if named and folder.is_relative_to(cwd / named):
        return cwd / named
    return folder.parent


def _finished_before(config: DictConfig, where: Place) -> Point | None:
    """The point of an earlier run into the same folder, when it is done and measured the same thing."""
    file = where.folder / "point.json"
    if not file.is_file():
        return None
    with contextlib.suppress(ValueError, BadInputError):
        point = read_point(file)
        if point.status == "ok" and point.config_hash == config_hash(plain(config)):
            return point
    return None


def _measure(config: DictConfig, where: Place, run: Running) -> tuple[Point, Reply | None]:
    try:
        values = plain(config)
    except BadInputError as error:
        return _refused(config, where, run, str(error)), None
    point = _blank(values, where, run)
    try:
        kernel = kernel_of(values)
        check_clock(values["clock"])
        session = session_for(values["device"], where.config_folders)
        machine = session.machine(where.sweep)
        held = session.hold_clocks(values["clock"], run.display.say)
    except SkippedError as error:
        return _skipped(point, values["device"], str(error)), None
    except BadInputError as error:
        return msgspec.structs.replace(point, status="failed", reason_kind="bad input", reason=str(error)), None
    if session.fallback and not run.told_fallback:
        run.told_fallback = True
        run.display.say(f"device: {machine.name} ({session.fallback})")
    point = msgspec.structs.replace(
        point, device=machine.device, machine_id=machine.machine_id, shape=kernel.shape, work=kernel.work
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
    return _record(msgspec.structs.replace(point, seed=seed), values, reply, traffic, roofs), reply


def _blank(values: dict[str, Any], where: Place, run: Running) -> Point:
    """The record before anything was measured."""
    asked = asked_for(values["clock"])
    return Point(
        point_id=uuid.uuid4().hex[:12],
        sweep_id=run.sweep_id,
        job=where.job,
        overrides=where.overrides,
        status="failed",
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
        config_hash=config_hash(values),
        created=now(),
    )


def _skipped(point: Point, device: str, reason: str) -> Point:
    """The record of a point whose device has not what was asked of it."""
    kind = parse_device(device)[0]
    return msgspec.structs.replace(point, device=kind, status="skipped", reason_kind="not possible here", reason=reason)


def _refused(config: DictConfig, where: Place, run: Running, reason: str) -> Point:
    """The record of a point whose configuration cannot be resolved: what can be read of it, and why it failed."""
    return Point(
        point_id=uuid.uuid4().hex[:12],
        sweep_id=run.sweep_id,
        job=where.job,
        overrides=where.overrides,
        status="failed",
        reason_kind="bad input",
        reason=reason,
        kernel=str(config.kernel._get_node("name")),
        size=0,
        precision=str(config.precision._get_node("name")),
        clock_mode=str(config.clock._get_node("mode")),
        cache_state=str(config.cache._get_node("state")),
        fill=str(config._get_node("fill")),
        config_hash="",
        created=now(),
    )


def _roofs(values: dict[str, Any], where: Place, run: Running, session: Session) -> RoofSet | None:
    """Missing roofs cost the verdict, not the point."""
    try:
        return session.roofs(values, where.outputs, where.sweep, run.announce)
    except BadInputError as error:
        run.display.say(f"roofs: {error}")
        return None


def _record(point: Point, values: dict[str, Any], reply: Reply, traffic: Traffic, roofs: RoofSet | None) -> Point:
    """The reply as a record, with its verdict."""
    point = msgspec.structs.replace(
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
    return placed(point, roofs, PlacingSettings(**values["placing"]))


def placed(point: Point, roofs: RoofSet | None, settings: PlacingSettings) -> Point:
    """The point with its verdict under ``roofs``; unchanged without roofs or without a time."""
    if point.timing is None or roofs is None:
        return point
    placement, flags = place(point, roofs, settings)
    point = msgspec.structs.replace(point, placement=placement, flags=[*point.flags, *flags])
    return diagnosed(point, roofs, settings)


def _keep(point: Point, reply: Reply | None, where: Place) -> None:
    """Raw samples first, the record last: a record on disk is complete."""
    where.folder.mkdir(parents=True, exist_ok=True)
    if reply and reply.samples:
        write_atomically(where.folder / "samples.csv", samples_table(reply.samples))
    if reply and reply.clock_rows:
        write_table(where.folder / "clocks.csv", reply.clock_rows)
    if reply and reply.detail:
        write_atomically(where.folder / "error.txt", reply.detail.encode())
    write_point(where.folder, point)


def _counted(point: Point, config: DictConfig, where: Place, run: Running) -> Point:
    """With its counters, where each job counts itself: on a cluster the sweep ends on another machine."""
    if point.device != "cuda" or point.status != "ok" or config.counters.phase != CounterPhase.job:
        return point
    from roofexp.counters.counting import Wish, count_sweep

    try:
        say, progress = run.display.say, run.display.working
        count_sweep(where.sweep, Wish(phase="job"), folders=[where.folder], say=say, progress=progress)
    except Exception as error:  # a mistake in counting costs no timing
        run.display.say(f"counters: {type(error).__name__}: {error}; traffic stays modelled")
    return read_point(where.folder / "point.json")


def samples_table(samples: Samples) -> bytes:
    lines = ["sample,at_s,time_s,launches"]
    for index, (at_s, time_s, launches) in enumerate(samples.each):
        lines.append(f"{index},{at_s:.9f},{time_s:.12g},{launches}")
    return ("\n".join(lines) + "\n").encode()


def _report(run: Running, label: str, kernel: Kernel, traffic: Traffic, roofs: RoofSet | None) -> Progress:
    """Shows the rate so far, and the share of what the roofs allow."""
    flops, unit = (kernel.work.flops, "FLOP/s") if kernel.work.flops else (traffic.bytes, "B/s")
    least_s = least_time_s(kernel.work, traffic, kernel.precision, roofs) if roofs else None

    def progress(time_s: float) -> None:
        share = f"  {percent(least_s / time_s)} of the roof" if least_s else ""
        run.display.working(label, f"{engineering(flops / time_s, unit)}{share}")

    return progress
