"""Links in a sweep's folder that lead out of it: through them a folder of somebody else would have its reader's files
read, packed or written over."""

from __future__ import annotations

import os
from pathlib import Path

from roofexp.errors import BadInputError


def refuse_links_out(folder: Path) -> None:
    """Raises BadInputError naming the first link in ``folder`` that leads out of it; the folder itself may be one."""
    root = folder.resolve()
    waiting = [root]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:  # not a folder, or one that cannot be read, which those who read it say
            continue
        for entry in entries:
            if entry.is_symlink() and not _inside(entry.path, root):
                shown = folder / Path(entry.path).relative_to(root)
                raise BadInputError(f"{shown}: a link out of the folder; put there what it leads to, or remove it")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))


def _inside(link: str, root: Path) -> bool:
    """False for a link in a circle too, which leads nowhere."""
    try:
        return Path(link).resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False
