"""Nsight Compute on this machine: where it is, which metrics it offers, and why it gave no counters."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from roofexp.config.paths import PACKAGE
from roofexp.config.yaml_file import read_mapping
from roofexp.errors import BadInputError

NOT_FOUND = 127  # what a shell returns for a command that does not exist
_TOOL_PREFIX = re.compile(r"^==\w+==\s*")
_KERNEL = re.compile(r'Failed to (?:profile|replay) (?:kernel )?"([^"\n]+)"')
_CODE = re.compile(r"error code \((-?\d+)\)")
_FOLLOWS = re.compile(
    r"The application returned|An error occurred while trying to profile|An error was reported by the driver:?$|"
    r"Failed to (?:profile|replay) |Failed to prepare kernel|Profiling failed\.?$"
)
_CAUSES, _LONGEST = 3, 240  # lines and characters of ncu's own that are shown
_METRIC = re.compile(r"Failed to find metric\s+(?:regex:)?\^?\"?([\w.]+?)(?:\\?\.\(|\$|\"|\s|$)")


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """``kind`` is short and stable; ``unknown_metric`` is the name to leave out before trying again."""

    kind: str
    cause: str
    cure: str
    unknown_metric: str | None = None

    def __str__(self) -> str:
        return f"{self.cause}; {self.cure}"


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    words: list[str]
    cause: str
    cure: str
    anywhere: bool = False


def explain_ncu_failure(text: str, returncode: int) -> Explanation | None:
    """What ``text`` (everything that ncu printed) and the exit code say; None where nothing went wrong.

    The cause is that of the first message which matches, with what ncu itself named: the kernel, its own error lines
    and the code with which the program ended. A kind "unknown" carries the lines as they are.
    """
    lines = text.splitlines()
    for message in _messages():
        line = next((line for line in lines if _matches(line, message)), None)
        if line is not None:
            return _explanation(message, line, lines, returncode)
    if returncode == NOT_FOUND or "command not found" in text:
        return explain_missing()
    errors = _causes(lines)
    if returncode == 0 and not errors:
        return None
    code = f" (exit code {returncode})" if returncode else ""
    cause = f"ncu failed: {errors}{code}" if errors else f"ncu failed: exit code {returncode} without a message"
    return Explanation(kind="unknown", cause=cause, cure="timing works without counters")


MISSING_CURE = "install Nsight Compute (it comes with the CUDA toolkit) or name its path; timing works without"


def _matches(line: str, message: _Message) -> bool:
    own = message.anywhere or _TOOL_PREFIX.match(line)
    return bool(own) and any(word.lower() in line.lower() for word in message.words)


def _explanation(message: _Message, line: str, lines: list[str], returncode: int) -> Explanation:
    """``message`` with its places filled: {name} of a metric, {line} that matched, {kernel}, {errors}, {code}."""
    bare = _bare(line)
    metric = _METRIC.search(bare) if message.kind == "unknown metric" else None
    name = metric.group(1).rstrip("\\.") if metric else None
    text = "\n".join(lines)
    kernel, code = _KERNEL.search(text), _CODE.search(text)
    number, errors = code[1] if code else str(returncode or ""), _causes(lines)
    cause = message.cause.format(
        name=name or "named in the message",
        line=bare,
        kernel=f"the kernel {kernel[1]}" if kernel else "the kernel",
        errors=errors or "no reason given",
        code=f" (exit code {number})" if number and number not in errors else "",
    )
    return Explanation(kind=message.kind, cause=cause, cure=message.cure, unknown_metric=name)


def _causes(lines: list[str]) -> str:
    """ncu's own error lines short of those that only follow from another; all of them where nothing else is left."""
    errors = list(dict.fromkeys(_bare(line) for line in lines if line.startswith("==ERROR==")))
    causes = [error for error in errors if not _FOLLOWS.match(error)] or errors
    shown = "; ".join(cause.rstrip(".:") for cause in causes[:_CAUSES])
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _bare(line: str) -> str:
    return _TOOL_PREFIX.sub("", line).strip()


@functools.cache
def _messages() -> list[_Message]:
    return msgspec.convert(read_mapping(PACKAGE / "ncu/messages.yaml")["messages"], list[_Message])


COMMANDS = ("ncu", "nv-nsight-cu-cli")

PLACES = (  # where installers put it, beside the PATH
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda*/bin/ncu",
    "/usr/local/NVIDIA-Nsight-Compute*/ncu",
    "/usr/lib/nsight-compute/ncu",
    "/opt/nvidia/hpc_sdk/Linux_*/*/profilers/Nsight_Compute/ncu",
)

VERSION_TIMEOUT_S = 0.5  # a wrong path is refused within a second, the versions found included
QUERY_TIMEOUT_S = 180.0
_VERSION = re.compile(r"Version\s+(\d[\d.]*)")
_VERSION_IN_PATH = re.compile(r"nsight-compute[-/](\d{4}\.\d+(?:\.\d+)*)", re.IGNORECASE)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What one ncu offers on one GPU. ``metrics`` are base names; empty: the question was not answered."""

    version: str | None
    metrics: list[str]
    trouble: Explanation | None = None

    @property
    def listing(self) -> str:
        """As ``ncu --query-metrics`` prints it, descriptions left out."""
        return "\n".join(self.metrics)


def find_ncu(named: str | None) -> Path | None:
    """The ncu that was named, else that on the PATH, else the newest installed; None where there is none.

    Raises BadInputError, with the versions that were found, when the one that was named is not there.
    """
    if named is None:
        on_path = next((program for command in COMMANDS if (program := shutil.which(command))), None)
        if on_path:
            return Path(on_path)
        return max(_installed(), key=_by_version, default=None)
    program = shutil.which(os.path.expanduser(named))
    if program is None:
        raise BadInputError(f"counters.ncu={named}: no such program; found here: {_every_ncu()}")
    return Path(program).absolute()


def ncu_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """``environment`` for an ncu that we start: it writes its numbers as the user's locale does."""
    return {**environment, "LC_ALL": "C"}


def explain_missing() -> Explanation:
    return Explanation(kind="missing", cause="ncu was not found", cure=MISSING_CURE)


def read_version(ncu: Path, timeout_s: float = 30.0) -> str | None:
    """From its path where that names it, else by asking; None where it does not answer."""
    named = _VERSION_IN_PATH.search(str(ncu.resolve()))
    if named:
        return named[1]
    try:
        done = subprocess.run([str(ncu), "--version"], capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(done.stdout)
    return version[1] if version else None


def ask_metrics(ncu: Path, architecture: str | None, cache: Path) -> Offer:
    """The metrics that ``ncu`` offers, asked once for a program and an architecture: asking takes seconds."""
    file = cache / "ncu" / f"{_identity(ncu, architecture)}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Offer)
    except (OSError, msgspec.MsgspecError):
        offer = _ask(ncu)
    if offer.metrics:
        from roofexp.records.files import write_json

        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, offer)
        except OSError:  # asked again the next time
            pass
    return offer


def _ask(ncu: Path) -> Offer:
    version = read_version(ncu)
    command = [str(ncu), "--config-file", "off", "--query-metrics"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=False, env=ncu_environment()
        )
    except OSError as error:
        cause = f"ncu could not be started ({error.strerror})"
        return Offer(version=version, metrics=[], trouble=Explanation(kind="missing", cause=cause, cure=MISSING_CURE))
    except subprocess.TimeoutExpired:
        return Offer(version=version, metrics=[])
    lines = (re.match(r"(\w+__\w+)\s", f"{line} ") for line in done.stdout.splitlines())
    names = list(dict.fromkeys(line[1] for line in lines if line))
    trouble = None if names else explain_ncu_failure(done.stdout + "\n" + done.stderr, done.returncode)
    return Offer(version=version, metrics=names, trouble=trouble)


def _identity(ncu: Path, architecture: str | None) -> str:
    """Another program, or the same one after an update, is asked again."""
    real = ncu.resolve()
    status = real.stat()
    text = f"{real} {status.st_size} {status.st_mtime_ns} {architecture}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _installed() -> list[Path]:
    programs = [path for place in PLACES for path in Path("/").glob(place.lstrip("/"))]
    return [path for path in programs if os.access(path, os.X_OK)]


def _every_ncu() -> str:
    """Every ncu here, with its version."""
    on_path = [Path(program) for command in COMMANDS if (program := shutil.which(command))]
    paths = list({path.resolve(): path for path in [*on_path, *_installed()]}.values())
    if not paths:
        return "none"
    with ThreadPoolExecutor(len(paths)) as pool:
        versions = pool.map(lambda path: read_version(path, VERSION_TIMEOUT_S), paths)
        return ", ".join(
            f"{path} ({version or 'version unknown'})" for path, version in zip(paths, versions, strict=True)
        )


def _by_version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in (read_version(path) or "0").split("."))
