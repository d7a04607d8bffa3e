"""What Hydra stored of a job beside its record: enough to build its kernel again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofexp.configuration import plain
from roofexp.errors import BadInputError


def stored_config(folder: Path) -> dict[str, Any]:
    """The configuration of the job in ``folder``, all interpolations resolved. Raises BadInputError."""
    from omegaconf import OmegaConf

    return plain(OmegaConf.create(_read(folder / ".hydra/config.yaml")))


def stored_config_folders(folder: Path) -> list[Path]:
    """Where that configuration was composed from, the user's folders first; empty where it is not known."""
    try:
        runtime = _read(folder / ".hydra/hydra.yaml")["hydra"]["runtime"]
        sources = [source for source in runtime["config_sources"] if source["schema"] == "file"]
    except (BadInputError, KeyError, TypeError):
        return []
    return [Path(source["path"]) for source in sorted(sources, key=lambda source: bool(source["provider"] == "main"))]


def _read(file: Path) -> Any:
    """By the C parser where it is there: a sweep of a hundred points has a hundred of them."""
    import yaml

    try:
        return yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise BadInputError(f"{file}: cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise BadInputError(f"{file}: {str(error).splitlines()[0]}") from error
