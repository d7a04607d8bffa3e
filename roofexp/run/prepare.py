"""Before the first point: the sweep's folder and description, and the checks that must not wait for its end."""

from __future__ import annotations

import contextlib
import math
import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from roofexp.clocks import check_clock
from roofexp.clocks.journal import give_back
from roofexp.config.explain import unknown_key
from roofexp.config.numbers import check_swept
from roofexp.config.paths import is_inner
from roofexp.config.plain import explain
from roofexp.config.schema import CounterLevel
from roofexp.devices import parse_device
from roofexp.errors import BadInputError, SkippedError
from roofexp.records.sweep_folder import (
    NO_COUNTERS_MARK,
    STOP_MARK,
    describe_sweep,
    read_sweep,
    resumed_sweep,
    write_sweep,
)
from roofexp.run.claim import claim_folder, unclaim
from roofexp.run.kept import OLDER_MARK, check_kept
from roofexp.run.process import PROCESS
from roofexp.run.progress import Run
from roofexp.run.resume import repeatable
from roofexp.run.session import config_folders
from roofexp.text.addresses import real_address

SUBDIR = "${hydra.job.num}"


def prepare(config: DictConfig, plain_run: bool) -> Run:
    """Checks what concerns every point, claims the sweep's folder and writes sweep.yaml; a folder that holds a sweep
    already is resumed when that was asked for. From here on ``config`` and the jobs name the folder that was claimed.

    Raises BadInputError for what is refused: nothing was written then.
    """
    problem = unknown_key(config)
    if problem:
        raise BadInputError(problem)
    parse_device(str(config.device))  # refused here once instead of at every point
    _check_clock(config)
    _check_numbers(config)
    for line in give_back():
        print(line)
    without_counters = _check_counters(config)
    _check_rules(config)
    gate = _read_gate(config)
    PROCESS.config_folders, PROCESS.counters = config_folders(config.hydra), {"ncu": config.counters.ncu}
    _open_named_device(config)
    cwd = Path(config.hydra.runtime.cwd)
    if PROCESS.resumed is not None:
        check_kept(config, PROCESS.resumed, plain_run, PROCESS.older)
    folder, lock = claim_folder(cwd / _chosen_folder(config, plain_run), PROCESS.resumed)
    _send_jobs_to(folder, config, plain_run)
    sweep = _described(config, folder, plain_run)
    (folder / STOP_MARK).unlink(missing_ok=True)
    (folder / OLDER_MARK).unlink(missing_ok=True)
    if PROCESS.older == "measure":
        (folder / OLDER_MARK).touch()
    (folder / NO_COUNTERS_MARK).unlink(missing_ok=True)
    if without_counters:  # told of a sweep that goes on, not of one whose device is refused
        print(without_counters)
    total = 1 if plain_run else count_jobs(config)
    run = PROCESS.begin(Run(folder, sweep, total, None, gate, lock))
    try:
        _open_tracker(config, run, cwd / config.outputs, sweep)
    except BadInputError:
        run.finished = True
        run.release()
        if PROCESS.resumed is None:
            unclaim(folder)
        raise
    return run


def count_jobs(config: DictConfig) -> int | None:
    """How many jobs the swept overrides make together; None where that is not known (a glob of what is no group)."""
    lengths = [len(values) for values in swept_values(config).values()]
    return None if 0 in lengths else math.prod(lengths)


def swept_values(config: DictConfig) -> dict[str, list[str]]:
    """The values of every key that is swept, without their quotes; an empty list where they are not known."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Glob, QuotedString

    params = config.hydra.sweeper.get("params") or {}
    texts = [f"{key}={value}" for key, value in params.items()] + list(config.hydra.overrides.task)
    swept: dict[str, list[str]] = {}
    for override in OverridesParser.create().parse_overrides(texts):
        key = str(override.get_key_element())
        swept.pop(key, None)  # the command line stands above the file
        if override.is_sweep_override():
            glob = override.value()
            values = _matching(glob, key) if isinstance(glob, Glob) else override.sweep_iterator()
            swept[key] = [value.text if isinstance(value, QuotedString) else str(value) for value in values]
    return swept


def _matching(glob: Any, group: str) -> list[str]:
    """The options of a group that a glob takes, as Hydra's own loader lists them."""
    from hydra.core.global_hydra import GlobalHydra

    if not GlobalHydra.instance().is_initialized():
        return []
    matching: list[str] = glob.filter(GlobalHydra.instance().config_loader().get_group_options(group))
    return matching


def _described(config: DictConfig, folder: Path, plain_run: bool) -> dict[str, Any]:
    sweep = read_sweep(folder)
    if not sweep:
        sweep = describe_sweep(sweep_name(config), list(config.hydra.overrides.task), str(config.tracking.experiment))
        sweep |= {"arguments": repeatable(sys.argv[1:]), "plain_run": plain_run}
    else:
        sweep = resumed_sweep(sweep)
    write_sweep(folder, sweep)
    return sweep


def _chosen_folder(config: DictConfig, plain_run: bool) -> Path:
    """Where the sweep is to lie: the folder above a plain run's own, or the one for all jobs."""
    _name(config)
    if plain_run:
        job = Path(config.hydra.run.dir)
        return job.parent if job.name.isdigit() else job
    if config.hydra.sweep._get_node("subdir")._value() != SUBDIR:
        raise BadInputError(f"hydra.sweep.subdir: each point has the folder {SUBDIR}; leave it out")
    chosen = Path(config.hydra.sweep.dir)
    if chosen.parent.name == _name(config):  # nobody chose another folder: the name may stand for several kernels
        chosen = chosen.parent.parent / sweep_name(config) / chosen.name
    return chosen


def _send_jobs_to(folder: Path, config: DictConfig, plain_run: bool) -> None:
    """Hydra composes each job anew, here or in a launcher's process, from the overrides that it keeps."""
    with open_dict(config):
        config.hydra.output_subdir = ".hydra"  # counting, drawing and publishing read what lies there
        if plain_run:
            config.hydra.run.dir = str(folder / "0")
            return
        config.hydra.sweep.dir = str(folder)
        quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
        config.hydra.overrides.hydra += [f"hydra.sweep.dir='{quoted}'", "hydra.output_subdir=.hydra"]


def sweep_name(config: DictConfig) -> str:
    """As it was given; else the kernel, or the first of several kernels or cases and how many there are."""
    if OmegaConf.is_interpolation(config, "name"):
        for group in ("case", "kernel"):
            options = swept_values(config).get(group, [])
            if options:
                first = options[0].replace("/", "-")
                return "+".join(options).replace("/", "-") if len(options) < 4 else f"{first}+{len(options) - 1}"
    return _name(config)


def _name(config: DictConfig) -> str:
    try:
        name = str(config.name)
    except OmegaConfBaseException as error:
        raise BadInputError(f"name: {explain(error)}") from error
    if not is_inner(name):
        raise BadInputError(f"name={name!r}: allowed: a folder below outputs, in printable characters, without ..")
    return name


def _open_named_device(config: DictConfig) -> None:
    """A device that was named and is not there is refused once, before the first job. Jobs in other processes open
    their own."""
    if config.device == "auto" or "device" in swept_values(config):
        return
    if "BasicLauncher" in str(config.hydra.launcher.get("_target_")):
        with contextlib.suppress(SkippedError):  # its points say so
            PROCESS.sessions.get(str(config.device), config_folders(config.hydra)).open()


def _check_clock(config: DictConfig) -> None:
    """A share or a clock that makes no sense is refused before the first point. What is swept over is put in its place;
    where the mode itself is swept, each point is checked alone."""
    from itertools import product

    swept = swept_values(config)
    if "clock" in swept or "clock.mode" in swept:
        return
    clock = {str(key): value for key, value in OmegaConf.to_container(config.clock, enum_to_str=True).items()}  # type: ignore[union-attr]
    names = [name for name in ("duty", "period_s", "mhz") if swept.get(f"clock.{name}")]
    for values in product(*(swept[f"clock.{name}"] for name in names)):
        given = dict(zip(names, values, strict=True))
        try:
            check_clock({**clock, **{name: float(value) for name, value in given.items()}})
        except ValueError:  # not a number: the types of the configuration refuse it
            continue


def _check_numbers(config: DictConfig) -> None:
    """Numbers that no point can be measured with are refused before the first one; those of a kernel that is swept over
    at its points."""
    kept = {str(key): _resolved(config, str(key)) for key in config if key != "hydra"}
    check_swept({key: value for key, value in kept.items() if value is not None}, swept_values(config))


def _resolved(config: DictConfig, key: str) -> Any:
    """A part of the configuration as plain data; None where an interpolation in it cannot be resolved yet."""
    try:
        value = config[key]
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except OmegaConfBaseException:
        return None


def _check_counters(config: DictConfig) -> str | None:
    """An ncu that was named and is not there is refused now, and not after hours of timing. The line to print where
    counters were asked for and there is no ncu."""
    from roofexp.ncu import explain_missing, find_ncu

    named, explicit = config.counters.ncu, config.counters.level not in (CounterLevel.none, CounterLevel.auto)
    if named is None and (not explicit or str(config.device).startswith("cpu")):
        return None
    if find_ncu(named) is not None:
        return None
    return f"counters: {explain_missing()}; the sweep goes on with modelled traffic"


def _check_rules(config: DictConfig) -> None:
    """Rules of the diagnosis that cannot be used are refused now: a point would be without a verdict by them."""
    if config.placing.rules is not None and "placing.rules" not in swept_values(config):
        from roofexp.diagnosis.rules import read_rules

        read_rules(str(config.placing.rules))


def _read_gate(config: DictConfig) -> Any:
    """Rules that could never be judged are refused now, and not after hours of timing."""
    if "gate" in swept_values(config):
        raise BadInputError("gate: one file for the whole sweep; put several rules into it")
    if config.gate is None:
        return None
    from roofexp.gate import read_gate

    return read_gate(str(config.gate), Path(config.hydra.runtime.cwd))


def _open_tracker(config: DictConfig, run: Run, outputs: Path, sweep: dict[str, Any]) -> None:
    """The live mirror in MLflow. A store that is down does not stop a measurement; one that cannot work does, now."""
    from roofexp.tracking import SafeTracker, open_store
    from roofexp.tracking.store import TrackingError

    settings = config.tracking
    if settings.store.name == "off":
        run.tracker = SafeTracker(None, run.folder)
        return
    try:
        uri = real_address(settings.uri) if settings.uri else None
        tracker = open_store(settings.store.name, uri, settings.experiment, outputs)
    except TrackingError as error:
        if isinstance(error, BadInputError):
            raise
        print(f"tracking: {error}; measuring goes on, mirror later with python -m roofexp.track {run.folder}")
        run.tracker = SafeTracker(None, run.folder)
        return
    run.tracker = SafeTracker(tracker, run.folder)  # known before its run is opened: whatever ends this closes it
    run.tracker.start_sweep(sweep)
