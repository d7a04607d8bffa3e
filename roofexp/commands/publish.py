"""``python -m roofexp.publish FOLDER TARGET`` packs a sweep for publication, free of names of hosts and people and of
absolute paths."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from roofexp.commands import run_command
from roofexp.config.input_files import LARGEST_BYTES, read_bytes, unpacked
from roofexp.errors import EXIT_OK, BadInputError
from roofexp.records.archive import is_packed, pack, read_configs, read_sweep_machines, read_sweep_points
from roofexp.records.point import unreadable
from roofexp.records.sweep_folder import commit_names, read_roofs, read_sweep
from roofexp.text.console import one_line, relative
from roofexp.text.numbers import engineering

MARKUP = (".html", ".svg")
BINARY = (".png",)
SHORTEST = 4  # a shorter host or user name would be found in ordinary words
ROOTS = "bin|data|etc|home|lib|lustre|media|mnt|nfs|nix|opt|private|proc|project|projects|root|run|scratch|srv|sys|tmp"
KNOWN_ROOT = re.compile(rf"(?<![\w./<-])/(?:{ROOTS}|usr|users|Users|var|work|workspace)/[\w.@+-]+")

WITH_PASSWORD = re.compile(r"://[^/\s:@\"'<>]+:[^/\s@\"'<>]+@")

ANY_PATH = re.compile(
    r"(?:(?<=^)|(?<=[\s\"'=(,\[]))/[\w.@+-]*[A-Za-z][\w.@+-]*/[\w.@+/-]+|\b[A-Za-z]:\\\w+|file://\S+", re.M
)

COMMON = {"localhost", "root", "user", "runner", "ubuntu", "debian", "docker", "nobody", "build"}


def findings(folder: Path) -> Iterator[str]:
    """A line for every file with such words: where, and the first of them."""
    own = own_names()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.suffix not in BINARY:
            private_word = first_private(text_of(file), file.suffix in MARKUP, own)
            if private_word:
                yield f"{file.relative_to(folder)}: {private_word}"


def first_private(text: str, markup: bool, own: list[str]) -> str | None:
    """The first private word, with the text around it. In markup only paths below well-known roots count."""
    match = next(filter(None, (pattern.search(text) for pattern in _patterns(markup, own))), None)
    if match is None:
        return None
    around = text[max(0, match.start() - 20) : match.end() + 20]
    return f"{match.group(0)!r} in {' '.join(around.split())!r}"


def _patterns(markup: bool, own: list[str]) -> Iterator[re.Pattern[str]]:
    yield KNOWN_ROOT
    yield WITH_PASSWORD
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
    data = unpacked(file, LARGEST_BYTES) if file.suffix == ".xz" else read_bytes(file)
    return data.decode(errors="replace")


SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """\
TARGET gets table, roofs, figures and report, and in compressed files the records, raw samples, clocks, counters and
configurations of all points. Files that name a host, a person or an absolute path are refused."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a sweep's folder, e.g. outputs/tiles/<date_time>")
    parser.add_argument("target", type=Path, metavar="TARGET", help="e.g. outputs/reference/h200/tiles")
    parser.add_argument("--replace", action="store_true", help="replace an earlier publication in TARGET")
    parser.add_argument("--dirty", action="store_true", help="publish although the code had uncommitted changes")


def run(options: argparse.Namespace) -> int:
    publish(options.folder, options.target, options.replace, options.dirty)
    return EXIT_OK


def publish(folder: Path, target: Path, replace: bool = False, dirty: bool = False) -> None:
    """Writes ``target`` whole or not at all. Raises BadInputError, naming what is in the way."""
    _check_source(folder, dirty)
    if target.exists() and not (replace and (is_packed(target) or not any(target.iterdir()))):
        cure = "give --replace" if is_packed(target) else "name a folder that is not there yet"
        raise BadInputError(f"{target} is there already; {cure}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".publish", dir=target.parent) as scratch:
        fresh = Path(scratch) / target.name
        fresh.mkdir()
        pack(folder, fresh)
        _write_report(fresh)
        _check_private(fresh)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    files = [file for file in target.rglob("*") if file.is_file()]
    size = engineering(sum(file.stat().st_size for file in files), "B")
    print(f"published {relative(target)}: {len(read_sweep_points(target))} points, {len(files)} files, {size}")


def _check_source(folder: Path, dirty: bool) -> None:
    if is_packed(folder):
        raise BadInputError(f"{folder} is published already; name the folder that was measured")
    points = read_sweep_points(folder)
    if not points:
        raise BadInputError(f"{folder}: no sweep in it; name a sweep's folder, e.g. outputs/tiles/<date_time>")
    if unreadable(points):
        raise BadInputError(f"{unreadable(points)[0]}; nothing is published without it")
    missing = {point.job for point in points} - set(read_configs(folder))
    if missing:
        raise BadInputError(f"{folder}: job {min(missing)} has no .hydra/config.yaml, so nobody could reproduce it")
    sweep = read_sweep(folder)
    read_sweep_machines(folder)
    read_roofs(folder)
    if not dirty and (not sweep.get("git_commit") or sweep.get("git_dirty")):
        what = "had uncommitted changes" if sweep.get("git_commit") else "is not known by a git commit"
        states = f" ({'; '.join(commit_names(sweep))})" if sweep.get("commits") else ""
        raise BadInputError(f"{folder}: the code that measured it {what}{states}; measure again, or give --dirty")


def _write_report(folder: Path) -> None:
    """Writes the page again, so that its links lead to the packed files."""
    from roofexp.report import write_report

    try:
        write_report(folder)
    except Exception as error:  # the page can be made again from the files
        print(f"report: {one_line(error)}; published without it", file=sys.stderr)


def _check_private(folder: Path) -> None:
    files = list(findings(folder))
    if files:
        more = f"\n  and in {len(files) - SHOWN} more files" if len(files) > SHOWN else ""
        lines = "".join(f"\n  {line}" for line in files[:SHOWN])
        raise BadInputError(f"not published: it names a host, a person or an absolute path:{lines}{more}")


if __name__ == "__main__":
    sys.exit(run_command("publish"))
