"""A sweep's folder is claimed before anything is written into it, and locked for as long as the sweep works in it."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import filelock

from roofexp.errors import BadInputError
from roofexp.records.files import locked
from roofexp.records.sweep_folder import read_sweep

LOCK = ".lock"
LONGEST_NAME = 255  # bytes, on the usual file systems


def claim_folder(folder: Path, resumed: Path | None) -> tuple[Path, filelock.BaseFileLock]:
    """The folder, made by this call alone, and its lock; another sweep of the same second gets the next name.

    Raises BadInputError for a folder that cannot be written, that holds a sweep which was not asked for (``resumed``),
    or that another process works in.
    """
    try:
        claimed = folder if resumed is not None and folder.resolve() == resumed else _made(folder)
        return claimed, _locked(claimed)
    except OSError as error:
        raise BadInputError(
            f"outputs: {folder} cannot be written ({error.strerror or error}); choose another: outputs="
        ) from error


def _made(folder: Path) -> Path:
    too_long = next((part for part in folder.parts if len(part.encode()) > LONGEST_NAME), None)
    if too_long:
        raise BadInputError(
            f"outputs, name: the folder {too_long[:40]}… is longer than {LONGEST_NAME} bytes; shorten outputs= or name="
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}_{number}")
        try:
            candidate.mkdir()
            return candidate
        except FileExistsError:
            if not candidate.is_dir():
                raise
            if not _is_dated(folder):
                return _chosen(candidate)
    raise AssertionError("unreachable")


def unclaim(folder: Path) -> None:
    """Gives a folder back in which nothing was measured; one that holds other things stays."""
    (folder / "sweep.yaml").unlink(missing_ok=True)
    for empty in (folder, folder.parent):
        with contextlib.suppress(OSError):
            empty.rmdir()


def _chosen(folder: Path) -> Path:
    """A folder that the user named: it may hold other things, but no sweep."""
    try:
        sweep = read_sweep(folder)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    if sweep:
        raise BadInputError(
            f"{folder} already contains a sweep; continue it with resume={folder}, or choose another folder or name="
        )
    return folder


def _is_dated(folder: Path) -> bool:
    return folder.name[:4].isdigit() and folder.name.count("-") >= 4 and "_" in folder.name


def _locked(folder: Path) -> filelock.BaseFileLock:
    try:
        return locked(folder / LOCK, timeout_s=0)
    except filelock.Timeout as error:
        raise BadInputError(f"{folder}: another process is measuring this sweep; wait for it, or stop it") from error
