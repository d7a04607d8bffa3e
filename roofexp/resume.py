"""``resume=FOLDER``: the stored command again into the same folder; finished points are recognised and kept."""

from __future__ import annotations

from pathlib import Path

from roofexp.archive import is_packed
from roofexp.errors import BadInputError
from roofexp.sweep import read_sweep

PREFIX = "resume="
PLACES = ("hydra.run.dir=", "hydra.sweep.dir=")

_asked: Path | None = None


def resumed_folder() -> Path | None:
    """The folder that this invocation goes on with."""
    return _asked


def resumed(arguments: list[str]) -> list[str]:
    """The arguments with ``resume=FOLDER`` replaced by what that folder's sweep was started with.

    Other arguments are kept and come after. Raises BadInputError.
    """
    global _asked
    asked = [word for word in arguments if word.startswith(PREFIX)]
    if not asked:
        return arguments
    folder = Path(asked[-1].removeprefix(PREFIX))
    try:
        sweep = read_sweep(folder)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    if not sweep:
        raise BadInputError(
            f"resume={folder}: no sweep.yaml there; name a folder like outputs/gemm/2026-01-31_12-00-00"
        )
    if is_packed(folder):
        raise BadInputError(
            f"resume={folder}: published, and stays as it is; python -m roofexp.reproduce {folder} measures it again"
        )
    if "arguments" not in sweep:
        raise BadInputError(
            f"resume={folder}: not made by a command that can be resumed, but by: {sweep.get('command')}"
        )
    _asked = folder.resolve()
    kept = [word for word in arguments if not word.startswith(PREFIX) and word not in ("-m", "--multirun")]
    if sweep.get("plain_run"):
        return [*sweep["arguments"], *kept, f"hydra.run.dir={_asked / '0'}"]
    return [*sweep["arguments"], *kept, "hydra.mode=MULTIRUN", f"hydra.sweep.dir={_asked}"]


def repeatable(arguments: list[str]) -> list[str]:
    """What to store of a command line so that it can be run again: all but the mode and the folders."""
    return [word for word in arguments if word not in ("-m", "--multirun") and not word.startswith(PLACES)]
