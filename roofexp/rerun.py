"""Points measured from their stored configurations, without Hydra: as a sweep in a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from roofexp.clocks.modes import HELD
from roofexp.configuration import explain, plain
from roofexp.errors import BadInputError
from roofexp.finish import finish
from roofexp.folders import conf_folder
from roofexp.job import Place, run_at
from roofexp.running import Running, begin
from roofexp.schema import Config
from roofexp.sweep import describe_sweep, read_sweep, write_sweep

Settings = dict[str, Any]


def rerun(
    configs: dict[int, Settings],
    overrides: dict[int, list[str]],
    folder: Path,
    outputs: Path,
    described: Settings,
    config_dir: Path | None = None,
) -> bool:
    """Measures every job of ``configs`` (absolute paths) and finishes the sweep; points that are there stay.

    ``described`` goes into sweep.yaml. False where it was interrupted. Raises BadInputError for a configuration that
    this version cannot use, before anything is measured.
    """
    typed = {job: typed_config(config, f"job {job}") for job, config in configs.items()}
    run = begin(Running(folder, _described(folder, described), len(typed)))
    folders = [*([config_dir.resolve()] if config_dir else []), conf_folder()]
    interrupted = False
    try:
        for job, config in typed.items():
            where = Place(
                sweep=folder,
                folder=folder / str(job),
                outputs=outputs,
                job=job,
                overrides=overrides[job],
                config_folders=folders,
            )
            _store(config, where)
            run_at(config, where)
    except KeyboardInterrupt:
        interrupted = True
    finish(run, interrupted)
    return not interrupted


def typed_config(config: Settings, where: str) -> DictConfig:
    """A stored configuration in the schema's types; what the schema got since has its default, or is missing."""
    known = config | {"tracking": {"store": "off"}}
    try:
        merged = OmegaConf.merge(OmegaConf.structured(Config), known)
    except OmegaConfBaseException as error:
        raise BadInputError(f"{where}: its stored configuration does not fit this version: {explain(error)}") from error
    assert isinstance(merged, DictConfig)
    if merged.clock.mode.value in HELD:
        raise BadInputError(
            f"{where}: it was measured with clock={merged.clock.mode.value}, and no clocks are changed by a stored "
            f"configuration; measure it with roofexp itself, or leave it out by --only"
        )
    return merged


def _described(folder: Path, described: Settings) -> Settings:
    """sweep.yaml of the new folder; an interrupted one keeps its own."""
    folder.mkdir(parents=True, exist_ok=True)
    sweep = read_sweep(folder)
    if not sweep:
        sweep = describe_sweep(described["name"], [], "roofexp") | described
        write_sweep(folder, sweep)
    return sweep


def _store(config: DictConfig, where: Place) -> None:
    """Beside the record, as Hydra leaves it: counting and drawing read it."""
    own = where.folder / ".hydra"
    own.mkdir(parents=True, exist_ok=True)
    sources = [
        {"path": str(folder), "schema": "file", "provider": "main" if folder == conf_folder() else "command-line"}
        for folder in where.config_folders
    ]
    OmegaConf.save(OmegaConf.create(plain(config)), own / "config.yaml")
    OmegaConf.save(OmegaConf.create({"hydra": {"runtime": {"config_sources": sources}}}), own / "hydra.yaml")
    OmegaConf.save(OmegaConf.create(where.overrides), own / "overrides.yaml")
