"""What a resumed sweep keeps: a finished point must be what would be measured now, in configuration and in code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from roofexp.config.paths import kernel_roots
from roofexp.config.plain import NOT_MEASURED, config_hash, plain
from roofexp.errors import BadInputError
from roofexp.kernel.code_version import kernel_code, program_code
from roofexp.records.archive import read_configs, read_sweep_points
from roofexp.records.point import Point
from roofexp.run.session import config_folders
from roofexp.text.console import relative, shortened

OLDER = "resume_older="
CHOICES = ("measure", "keep")
OLDER_MARK = ".measure_older"  # in the sweep's folder: finished points of older code are measured again
SHOWN = 3


def older_choice(arguments: list[str]) -> tuple[str | None, list[str]]:
    """What ``resume_older=`` asks for, and the arguments without it. Raises BadInputError."""
    given = [word.removeprefix(OLDER) for word in arguments if word.startswith(OLDER)]
    if given and given[-1] not in CHOICES:
        raise BadInputError(f"{OLDER}{given[-1]}: allowed: {', '.join(CHOICES)}")
    return (given[-1] if given else None), [word for word in arguments if not word.startswith(OLDER)]


def check_kept(config: DictConfig, folder: Path, plain_run: bool, older: str | None) -> None:
    """Raises BadInputError where a finished point would be measured otherwise now: in another configuration, or,
    unless ``older`` says what to do about it, with other code."""
    finished = {point.job: point for point in read_sweep_points(folder) if point.status == "ok"}
    if not finished:
        return
    stored = read_configs(folder)
    roots = kernel_roots(config_folders(config.hydra))
    of_older_code = []
    for job, values in _jobs(config, plain_run, set(finished)):
        point = finished[job]
        if config_hash(values) != point.config_hash:
            raise BadInputError(_difference(folder, point, stored.get(job, {}), values))
        if is_older(point, values, roots):
            of_older_code.append(point)
    if of_older_code and older is None:
        names = ", ".join(point.label for point in of_older_code[:SHOWN])
        more = len(of_older_code) - SHOWN
        raise BadInputError(
            f"resume={relative(folder)}: {len(of_older_code)} of {len(finished)} finished points were measured with "
            f"older code ({names}{f' and {more} more' if more > 0 else ''}); add {OLDER}measure to measure these "
            f"again, or {OLDER}keep to leave them as they are"
        )


def is_older(point: Point, values: Mapping[str, Any], roots: list[Path]) -> bool:
    """Whether the point was measured with other code than there is now; where no code is recorded nobody knows."""
    if point.kernel_code is None:
        return False
    return (point.kernel_code, point.program_code) != (kernel_code(values["kernel"], roots), program_code())


def _jobs(config: DictConfig, plain_run: bool, wanted: set[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The configurations of the wanted jobs, as they would be measured now. Of a sweeper that is not Hydra's own
    nobody knows its jobs before it makes them."""
    if plain_run:
        alone = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
        yield 0, plain(alone)
        return
    if not str(config.hydra.sweeper.get("_target_")).endswith("BasicSweeper"):
        return
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from roofexp.config.composition import share_compositions

    share_compositions()
    loader = GlobalHydra.instance().config_loader()
    params = config.hydra.sweeper.get("params") or {}
    texts = [f"{key}={value}" for key, value in params.items()] + list(config.hydra.overrides.task)
    parsed = OverridesParser.create(config_loader=loader).parse_overrides(texts)
    for job, overrides in enumerate(BasicSweeper.split_arguments(parsed, None)[0]):
        if job in wanted:
            composed = loader.load_sweep_config(config, list(overrides))
            yield job, plain(OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"]))


def _difference(folder: Path, point: Point, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    old, new = dict(_leaves(before)), dict(_leaves(now))
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)] if before else []
    # a change of a group changes many keys: its name says most
    key = min(changed, key=lambda key: (not key.endswith("name"), key.count(".")), default=None)
    what = (
        f"{key} was {_shown(old.get(key))}, and would be {_shown(new.get(key))}" if key else "its configuration changed"
    )
    return (
        f"resume={relative(folder)}: {point.label} is finished, and would be another point now: {what}; "
        f"continue with what the sweep was started with, or start a new sweep"
    )


def _shown(value: Any) -> str:
    return shortened("not set" if value is None else str(value), 80)


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if not above and key in NOT_MEASURED:
            continue
        name = f"{above}.{key}" if above else str(key)
        if isinstance(value, Mapping):
            yield from _leaves(value, name)
        else:
            yield name, value
