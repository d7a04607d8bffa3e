"""What must not be published: names of hosts and people, and absolute paths, found in the files of a folder."""

from __future__ import annotations

import contextlib
import getpass
import lzma
import platform
import re
from collections.abc import Iterator
from pathlib import Path

MARKUP = (".html", ".svg")
BINARY = (".png",)
SHORTEST = 4  # a shorter host or user name would be found in ordinary words
ROOTS = "bin|data|etc|home|lib|lustre|media|mnt|nfs|nix|opt|private|proc|project|projects|root|run|scratch|srv|sys|tmp"
KNOWN_ROOT = re.compile(rf"(?<![\w./<-])/(?:{ROOTS}|usr|users|Users|var|work|workspace)/[\w.@+-]+")
ANY_PATH = re.compile(
    r"(?:(?<=^)|(?<=[\s\"'=(,\[]))/[\w.@+-]*[A-Za-z][\w.@+-]*/[\w.@+/-]+|\b[A-Za-z]:\\\w+|file://\S+", re.M
)
COMMON = {"localhost", "root", "user", "runner", "ubuntu", "debian", "docker", "nobody", "build"}


def findings(folder: Path) -> Iterator[str]:
    """A line for every file with such words: where, and the first of them."""
    own = own_names()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.suffix not in BINARY:
            found = first_private(text_of(file), file.suffix in MARKUP, own)
            if found:
                yield f"{file.relative_to(folder)}: {found}"


def first_private(text: str, markup: bool, own: list[str]) -> str | None:
    """What was found first, with the words around it. In markup only paths below well-known roots are looked for."""
    match = next(filter(None, (pattern.search(text) for pattern in _patterns(markup, own))), None)
    if match is None:
        return None
    around = text[max(0, match.start() - 20) : match.end() + 20]
    return f"{match.group(0)!r} in {' '.join(around.split())!r}"


def _patterns(markup: bool, own: list[str]) -> Iterator[re.Pattern[str]]:
    yield KNOWN_ROOT
    if not markup:
        yield ANY_PATH
    for name in own:
        yield re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


def own_names() -> list[str]:
    """Names of this host and of the person at it, where they are telling."""
    host = platform.node()
    names = {host, host.split(".")[0]}
    with contextlib.suppress(OSError, KeyError):  # a user without a name
        names.add(getpass.getuser())
    return sorted(name for name in names if len(name) >= SHORTEST and name.lower() not in COMMON)


def text_of(file: Path) -> str:
    data = file.read_bytes()
    return (lzma.decompress(data) if file.suffix == ".xz" else data).decode(errors="replace")
