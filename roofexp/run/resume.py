"""``resume=FOLDER``: the stored command again into the same folder; finished points are recognised and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from roofexp.clocks import HELD
from roofexp.config.input_files import refuse_links_out
from roofexp.config.paths import conf_folder
from roofexp.config.plain import explain, plain
from roofexp.config.schema import Config
from roofexp.errors import BadInputError
from roofexp.records.archive import is_packed
from roofexp.records.sweep_folder import describe_sweep, read_sweep, resumed_sweep, write_sweep
from roofexp.run.finish import finish
from roofexp.run.job import JobPlace, run_at
from roofexp.run.process import PROCESS
from roofexp.run.progress import Run
from roofexp.run.replay import replayed

PREFIX = "resume="
PLACES = ("hydra.run.dir=", "hydra.sweep.dir=")


def resumed_arguments(arguments: list[str]) -> tuple[Path | None, list[str]]:
    """The folder of ``resume=FOLDER`` (None where there is none), and the arguments with it replaced by what that
    folder's sweep was started with.

    Other arguments are kept and come after. Raises BadInputError.
    """
    named = [word.removeprefix(PREFIX) for word in arguments if word.startswith(PREFIX)]
    if not named:
        return None, arguments
    given = Path(named[-1])
    sweep, folder = _resumable(given), given.resolve()
    kept = [word for word in arguments if not word.startswith(PREFIX) and word not in ("-m", "--multirun")]
    stored = replayed(sweep["arguments"], given, kept)
    if sweep.get("plain_run"):
        return folder, [*stored, *kept, f"hydra.run.dir={folder / '0'}"]
    return folder, [*stored, *kept, "hydra.mode=MULTIRUN", f"hydra.sweep.dir={folder}"]


def _resumable(folder: Path) -> dict[str, Any]:
    """The description of a sweep that can be continued. Raises BadInputError with the cure for any other folder."""
    refuse_links_out(folder)
    try:
        sweep = read_sweep(folder)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    if not sweep:
        raise BadInputError(
            f"resume={folder}: no sweep.yaml there; name a folder like outputs/gemm/2026-01-31_12-00-00"
        )
    if is_packed(folder):
        raise BadInputError(f"resume={folder}: published, and stays as it is; run python -m roofexp.reproduce {folder}")
    if "arguments" not in sweep:
        raise BadInputError(f"resume={folder}: made by {sweep.get('command')}, which cannot be resumed")
    return sweep


def repeatable(arguments: list[str]) -> list[str]:
    """What to store of a command line so that it can be run again: all but the mode and the folders."""
    return [word for word in arguments if word not in ("-m", "--multirun") and not word.startswith(PLACES)]


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
    run = PROCESS.begin(Run(folder, _described(folder, described), len(typed)))
    folders = [*([config_dir.resolve()] if config_dir else []), conf_folder()]
    PROCESS.config_folders = folders
    interrupted = False
    try:
        for job, config in typed.items():
            where = JobPlace(
                sweep=folder,
                folder=folder / str(job),
                outputs=outputs,
                job=job,
                overrides=overrides[job],
                config_folders=folders,
            )
            _store(config, where)
            run_at(plain(config), where)
    except KeyboardInterrupt:
        interrupted = True
    finish(run, interrupted)
    return not interrupted


def typed_config(config: Settings, where: str) -> DictConfig:
    """A stored configuration in the schema's types; what the schema got since has its default, or is missing."""
    known = config | {"tracking": {"store": "off"}, "gate": None}
    if isinstance(config.get("counters"), dict):
        known["counters"] = {**config["counters"], "ncu": None}  # a program, which is the user's to name
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
    begun = read_sweep(folder)
    sweep = resumed_sweep(begun) if begun else describe_sweep(described["name"], [], "roofexp") | described
    write_sweep(folder, sweep)
    return sweep


def _store(config: DictConfig, where: JobPlace) -> None:
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
