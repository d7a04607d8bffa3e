"""Links from the page to the files of its sweep, relative to where the page lies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from roofexp import archive
from roofexp.report.contents import Contents

POINT_FILES = (
    "point.json",
    "samples.csv",
    "clocks.csv",
    "counters.csv",
    "error.txt",
    ".hydra/config.yaml",
    ".hydra/overrides.yaml",
)
SWEEP_FILES = ("sweep.yaml", "points.csv", "roofs.json")


class Link(NamedTuple):
    text: str  # the path from the sweep's folder: still says where to look on paper
    href: str


class Links:
    def __init__(self, contents: Contents, page: Path) -> None:
        self.contents, self.folder = contents, contents.folder
        self._base = page.resolve().parent

    def to(self, file: Path) -> Link | None:
        """None for a file that is not there."""
        if not file.is_file():
            return None
        return Link(
            file.relative_to(self.folder).as_posix(),
            quote(Path(os.path.relpath(file.resolve(), self._base)).as_posix()),
        )

    def named(self, *names: str) -> list[Link]:
        return [link for name in names if (link := self.to(self.folder / name))]

    def of_point(self, job: int) -> list[Link]:
        """The point's own files, or the packed ones that hold a line or rows of it."""
        own = self.contents.folders.get(job)
        if own is not None:
            return [link for name in POINT_FILES if (link := self.to(own / name))]
        return self.packed() or self.named("points.csv")

    def packed(self) -> list[Link]:
        return self.named(*archive.PACKED_FILES)

    def of_sweep(self) -> list[Link]:
        """Everything else that lies in the folder itself, so that nothing which was made goes unseen."""
        known = [*SWEEP_FILES, *archive.PACKED_FILES]
        others = [
            file.name for file in sorted(self.folder.iterdir()) if file.is_file() and not file.name.startswith(".")
        ]
        return self.named(*dict.fromkeys([*known, *(name for name in others if not name.endswith(".html"))]))
