"""Keys and values as MLflow accepts them: no character that it refuses, nothing longer than it keeps."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from typing import TypeVar

KEY_LENGTH = 250
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
    """MLflow takes letters, digits and ``_ - . : / space``, and no key that is not a plain relative path."""
    cleaned = re.sub(r"[^\w.\-:/ ]", "_", key)
    if posixpath.normpath(cleaned) != cleaned or cleaned.startswith(("/", "..")) or cleaned == ".":
        cleaned = cleaned.replace("/", "_").replace("..", "__") or "_"
        cleaned = "_" if cleaned == "." else cleaned
    if len(cleaned) <= KEY_LENGTH:
        return cleaned
    return f"{cleaned[: KEY_LENGTH - 9]}_{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def clean_keys(values: Mapping[str, V]) -> dict[str, V]:
    """Keys that become the same by cleaning stay apart by a number."""
    cleaned: dict[str, V] = {}
    for key, value in values.items():
        name, number = clean_key(key), 1
        while name in cleaned:
            number += 1
            name = f"{clean_key(key)[: KEY_LENGTH - 4]}_{number}"
        cleaned[name] = value
    return cleaned
