"""Why ncu gave no counters, in words a user can act on."""

from __future__ import annotations

import functools
import re

import msgspec

from roofexp.counters.yaml_file import read_yaml

NOT_FOUND = 127  # what a shell returns for a command that does not exist
_TOOL_PREFIX = re.compile(r"^==\w+==\s*")
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

    A kind "unknown" carries ncu's last error line, or its exit code when it printed none.
    """
    for message in _messages():
        line = next((line for line in text.splitlines() if _says(line, message)), None)
        if line is not None:
            return _explanation(message, _TOOL_PREFIX.sub("", line).strip())
    if returncode == NOT_FOUND or "command not found" in text:
        return Explanation(kind="missing", cause="ncu was not found", cure=MISSING_CURE)
    errors = [line for line in text.splitlines() if line.startswith("==ERROR==")]
    if returncode == 0 and not errors:
        return None
    said = _TOOL_PREFIX.sub("", errors[-1]).strip() if errors else f"exit code {returncode} without a message"
    return Explanation(kind="unknown", cause=f"ncu failed: {said}", cure="timing works without counters")


MISSING_CURE = "install Nsight Compute (it comes with the CUDA toolkit) or name its path; timing works without"


def _says(line: str, message: _Message) -> bool:
    own = message.anywhere or _TOOL_PREFIX.match(line)
    return bool(own) and any(word.lower() in line.lower() for word in message.words)


def _explanation(message: _Message, line: str) -> Explanation:
    found = _METRIC.search(line) if message.kind == "unknown metric" else None
    name = found.group(1).rstrip("\\.") if found else None
    return Explanation(
        kind=message.kind,
        cause=message.cause.format(name=name or "named in the message", line=line),
        cure=message.cure,
        unknown_metric=name,
    )


@functools.cache
def _messages() -> list[_Message]:
    return msgspec.convert(read_yaml("messages.yaml")["messages"], list[_Message])
