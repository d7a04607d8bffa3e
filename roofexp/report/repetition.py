"""What it takes to do the sweep again: the command, the versions, the commit and the composed configuration."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
import yaml

from roofexp.report.contents import Contents
from roofexp.sweep import JUDGED_WITH


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    command: str  # "" where it is not recorded
    commit: str
    dirty: bool | None
    started: str
    finished: str
    versions: dict[str, str]
    config: str  # YAML; "" where it is not at hand
    config_job: int | None
    judged_with: dict[str, Any]  # thresholds and rules that are not those of the configuration
    varies: list[tuple[str, list[str]]]  # overrides that differ between points, with their values


def repetition(contents: Contents) -> Repetition:
    sweep = contents.sweep
    versions = sweep.get("versions")
    return Repetition(
        command=command_of(sweep),
        commit=str(sweep.get("git_commit") or ""),
        dirty=sweep.get("git_dirty"),
        started=moment(str(sweep.get("started") or "")),
        finished=moment(str(sweep.get("finished") or "")),
        versions={str(name): str(text) for name, text in versions.items()} if isinstance(versions, dict) else {},
        config=yaml.safe_dump(contents.config, sort_keys=False, allow_unicode=True) if contents.config else "",
        config_job=contents.config_job,
        judged_with=dict(sweep.get(JUDGED_WITH) or {}),
        varies=_varying(contents),
    )


def moment(stamp: str) -> str:
    """An ISO 8601 time in UTC as a person reads it; any other text as it is."""
    day, found, clock = stamp.partition("T")
    return f"{day} {clock[:8]} UTC" if found and clock.endswith("+00:00") else stamp


def command_of(sweep: dict[str, Any]) -> str:
    """As it must be typed: a word with brackets or spaces in it is quoted."""
    words = sweep.get("arguments")
    if not isinstance(words, list):
        return str(sweep.get("command") or "")
    mode = [] if sweep.get("plain_run") or any(str(w).startswith("experiment=") for w in words) else ["-m"]
    return shlex.join(["python", "-m", "roofexp", *map(str, words), *mode]) if words or sweep.get("command") else ""


def _varying(contents: Contents) -> list[tuple[str, list[str]]]:
    values: dict[str, dict[str, None]] = {}
    for point in contents.points:
        for key, found, value in (override.partition("=") for override in point.overrides):
            if found:
                values.setdefault(key.lstrip("+"), {})[value] = None
    return [(key, list(those)) for key, those in values.items() if len(those) > 1]
