"""Where the program finds its configuration, the measured kernels, and its own data files."""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import os
import stat
import sys
import tempfile
from pathlib import Path, PurePosixPath

from roofexp.errors import BadInputError

PACKAGE = Path(str(importlib.resources.files("roofexp")))
STAMP = "%Y-%m-%d_%H-%M-%S"  # of a sweep's folder, as conf/config.yaml has it


def cache_folder() -> Path:
    """The user's own: compiled kernels, what ncu offers, journals of clocks that are held."""
    ensure_home()
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roofexp"
    problem = _why_unwritable(folder)
    return _temporary_folder(problem) if problem else folder


def ensure_home() -> None:
    """A temporary folder where there is neither HOME nor an entry for this user, as in containers: MLflow and others
    cannot even be imported without a home."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = str(_temporary_folder("there is no home folder"))


@functools.cache
def _why_unwritable(folder: Path) -> str | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{folder} cannot be made ({error.strerror})"
    return None if os.access(folder, os.W_OK) else f"{folder} cannot be written"


@functools.cache
def _temporary_folder(reason: str) -> Path:
    """This user's alone: what lies in it is run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"roofexp-{user}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != user or state.st_mode & 0o077:
            folder = Path(tempfile.mkdtemp(prefix="roofexp-"))
    print(f"cache: {reason}; {folder} is used; set HOME or XDG_CACHE_HOME to choose another", file=sys.stderr)
    return folder


def conf_folder() -> Path:
    """``conf`` inside the package (an installed wheel) or beside it (a source tree)."""
    return _first_with("config.yaml", [PACKAGE / "conf", PACKAGE.parent / "conf"])


def kernels_folder() -> Path:
    """``kernels`` inside the package (an installed wheel) or beside it (a source tree)."""
    return _first_with("README.md", [PACKAGE / "kernels", PACKAGE.parent / "kernels"])


def kernel_roots(config_folders: list[Path]) -> list[Path]:
    """The folders searched for kernel code, the user's before the project's.

    A user's ``--config-dir my/conf`` brings the code in ``my/conf/kernels`` and ``my/kernels``.
    """
    roots: list[Path] = []
    for folder in config_folders:
        roots += [folder / "kernels", folder.parent / "kernels"]
    roots.append(kernels_folder())
    return list(dict.fromkeys(root.resolve() for root in roots if root.is_dir()))


def find_kernel_file(name: str, roots: list[Path], where: str) -> Path:
    """The code file ``name`` under the first root that has it; BadInputError lists where it was looked for, or says
    that the name, or a link, leads out of the root."""
    if not is_inner(name):
        raise BadInputError(f"{where}: {name!r} leads out of the kernel folders; write the path from such a folder on")
    for root in roots:
        file = root / name
        if file.is_file():
            if not file.resolve().is_relative_to(root.resolve()):
                raise BadInputError(f"{where}: {name!r} is a link out of {root}; put the file itself there")
            return file
    folders = ", ".join(str(root) for root in roots)
    raise BadInputError(f"{where}: no kernel file {name!r}; looked in: {folders}")


def is_inner(name: str) -> bool:
    """Whether a relative path in printable characters stays below the folder that it starts from."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and name.isprintable()


def _first_with(marker: str, folders: list[Path]) -> Path:
    for folder in folders:
        if (folder / marker).is_file():
            return folder.resolve()
    looked = ", ".join(str(folder) for folder in folders)
    raise BadInputError(f"the program's own folder with {marker} is missing; looked in: {looked}")
