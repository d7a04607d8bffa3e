"""Before the first point: the sweep's folder and description, and the checks that must not wait for its end."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from roofexp.devices import parse_device
from roofexp.errors import BadInputError
from roofexp.explain import unknown_key
from roofexp.resume import repeatable, resumed_folder
from roofexp.running import Running
from roofexp.sweep import STOP_MARK, describe_sweep, read_sweep, write_sweep


def prepare(config: DictConfig, folder: Path, plain_run: bool) -> Running:
    """Makes the folder and writes sweep.yaml; a folder that holds a sweep already is resumed when it was asked for.

    Raises BadInputError for a folder that cannot be written and for a tracking store that cannot be used.
    """
    overrides = list(config.hydra.overrides.task)
    problem = unknown_key(config)
    if problem:
        raise BadInputError(problem)
    parse_device(str(config.device))  # refused here once instead of at every point
    _make_writable(folder)
    sweep = _described(config, folder, overrides, plain_run)
    (folder / STOP_MARK).unlink(missing_ok=True)
    total = 1 if plain_run else count_jobs(config)
    outputs = Path(config.hydra.runtime.cwd) / config.outputs
    return Running(folder, sweep, total, _open_tracker(config, folder, outputs, sweep))


def count_jobs(config: DictConfig) -> int | None:
    """How many jobs the swept overrides make together; None where Hydra's grammar is not understood."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    params = config.hydra.sweeper.get("params") or {}
    texts = [f"{key}={value}" for key, value in params.items()] + list(config.hydra.overrides.task)
    lengths: dict[str, int] = {}
    try:
        for override in OverridesParser.create().parse_overrides(texts):
            if override.is_sweep_override():
                lengths[override.get_key_element()] = sum(1 for _ in override.sweep_iterator())
            else:
                lengths.pop(override.get_key_element(), None)
    except Exception:  # globs need the config loader; the count is only for the display
        return None
    return math.prod(lengths.values())


def _described(config: DictConfig, folder: Path, overrides: list[str], plain_run: bool) -> dict[str, Any]:
    try:
        sweep = read_sweep(folder)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    if sweep and folder.resolve() != resumed_folder():
        raise BadInputError(
            f"{folder} holds a sweep already; go on with it by resume={folder}, or choose another name="
        )
    if not sweep:
        sweep = describe_sweep(_name(config), overrides, str(config.tracking.experiment))
        sweep |= {"arguments": repeatable(sys.argv[1:]), "plain_run": plain_run}
        write_sweep(folder, sweep)
    return sweep


def _name(config: DictConfig) -> str:
    """The sweep's name; several kernels in one sweep share the folder of the first."""
    try:
        return str(config.name)
    except OmegaConfBaseException as error:
        raise BadInputError(f"name: {error}") from error


def _make_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b" ")
        probe.unlink()
    except OSError as error:
        raise BadInputError(
            f"outputs: {folder} cannot be written ({error.strerror}); choose another: outputs="
        ) from error


def _open_tracker(config: DictConfig, folder: Path, outputs: Path, sweep: dict[str, Any]) -> Any:
    """The live mirror in MLflow. A store that is down does not stop a measurement; one that cannot work does, now."""
    from roofexp.tracking import SafeTracker, TrackingError, open_store

    settings = config.tracking
    if settings.store.name == "off":
        return SafeTracker(None, folder)
    try:
        tracker = open_store(settings.store.name, settings.uri, settings.experiment, outputs)
    except TrackingError as error:
        if isinstance(error, BadInputError):
            raise
        print(f"tracking: {error}; measuring goes on, mirror later with python -m roofexp.track {folder}")
        return SafeTracker(None, folder)
    safe = SafeTracker(tracker, folder)
    safe.start_sweep(sweep)
    return safe
