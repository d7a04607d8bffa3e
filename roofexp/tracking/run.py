"""The content of one MLflow run: keys and values without characters that MLflow refuses, and not too long."""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeGuard, TypeVar

import msgspec

KEY_LENGTH = 250
_ORIGINAL = "original/"
V = TypeVar("V")


def text_of(value: object) -> str:
    """A value as one text; lists and mappings as JSON, so that they can be read back."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def cut(text: str, length: int) -> str:
    """At most ``length`` characters; a mark tells a reader that, and how long the whole is."""
    if len(text) <= length:
        return text
    mark = f"…[cut, {len(text)}]"
    return text[: length - len(mark)] + mark


def cut_all(texts: Mapping[str, str], length: int) -> dict[str, str]:
    return {key: cut(text, length) for key, text in texts.items()}


def clean_key(key: str) -> str:
    """MLflow takes letters, digits and ``_ - . : / space``, and no key that is not a plain relative path. A key that
    has to be changed ends with a hash of the original: two never meet, and each has the same name in every run."""
    cleaned = re.sub(r"[^\w.\-:/ ]", "_", key)
    if posixpath.normpath(cleaned) != cleaned or cleaned.startswith(("/", "..")) or cleaned == ".":
        cleaned = cleaned.replace("/", "_").replace("..", "__") or "_"
        cleaned = "_" if cleaned == "." else cleaned
    if cleaned == key and len(key) <= KEY_LENGTH:
        return key
    return f"{cleaned[: KEY_LENGTH - 9]}_{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:8]}"


def clean_keys(values: Mapping[str, V]) -> dict[str, V]:
    return {clean_key(key): value for key, value in values.items()}


def originals(*keyed: Mapping[str, Any]) -> dict[str, str]:
    """Tags that keep the names which had to be changed, by the end of the new ones."""
    changed = {clean_key(key): key for values in keyed for key in values if clean_key(key) != key}
    return {f"{_ORIGINAL}{name[len(_ORIGINAL) - KEY_LENGTH :]}": key for name, key in changed.items()}


FORMAT = 3  # of what is written into a run; a higher one makes mirroring renew older runs
PARAM_LENGTH, TAG_LENGTH, NAME_LENGTH = 6000, 8000, 250  # characters that MLflow keeps


class RunContent(msgspec.Struct, frozen=True, kw_only=True):
    """One MLflow run. ``long_values`` holds the full text of everything that had to be cut."""

    name: str
    status: str  # FINISHED, FAILED or KILLED
    start_ms: int  # UNIX time
    end_ms: int
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    long_values: dict[str, str]


def build_content(
    name: str,
    status: str,
    times: tuple[int, int],
    params: Mapping[str, Any],
    metrics: Mapping[str, float | None],
    tags: Mapping[str, Any],
) -> RunContent:
    """Leaves out what has no value, cuts what is too long and renames keys that MLflow refuses; tags
    ``original/<new name>`` keep the old names."""
    texts = clean_keys({key: text_of(value) for key, value in params.items() if value is not None})
    known = {key: value for key, value in metrics.items() if is_finite(value)}
    tag_texts = clean_keys({key: text_of(value) for key, value in tags.items() if value is not None})
    tag_texts |= originals(params, known, tags)
    long_values = {f"params/{key}": text for key, text in texts.items() if len(text) > PARAM_LENGTH}
    long_values |= {f"tags/{key}": text for key, text in tag_texts.items() if len(text) > TAG_LENGTH}
    if len(name) > NAME_LENGTH:
        long_values["name"] = name
    return RunContent(
        name=cut(name, NAME_LENGTH),
        status=status,
        start_ms=times[0],
        end_ms=times[1],
        params=cut_all(texts, PARAM_LENGTH),
        metrics=clean_keys(known),
        tags=cut_all(tag_texts, TAG_LENGTH),
        long_values=long_values,
    )


def is_finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def hash_of(*parts: bytes) -> str:
    digest = hashlib.sha256(str(FORMAT).encode())
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def milliseconds(time: str | datetime | None, otherwise: int = 0) -> int:
    """UNIX milliseconds of an ISO 8601 time; one without a zone is local."""
    try:
        moment = time if isinstance(time, datetime) else datetime.fromisoformat(str(time))
    except ValueError:
        return otherwise
    return round(moment.timestamp() * 1000)


def sweep_tags(sweep: Mapping[str, Any]) -> dict[str, Any]:
    """Where the code stood; the same on a sweep and on each of its points."""
    versions = sweep.get("versions")
    return {
        "mlflow.source.name": "roofexp",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": sweep.get("git_commit"),
        "roofexp.git_commit": sweep.get("git_commit"),
        "roofexp.git_dirty": sweep.get("git_dirty"),
        "roofexp.version": versions.get("roofexp") if isinstance(versions, Mapping) else None,
    }
