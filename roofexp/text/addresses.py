"""Addresses of servers as they may be kept and shown: without passwords and tokens."""

from __future__ import annotations

import re
from typing import Any

# as far as an address may reach; a path after three slashes names a file, and has no user
_ADDRESS = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]*://)(?P<rest>[^/\s\"'<>`,;][^\s\"'<>`]*)")
_VALUE = re.compile(r"([?&;#][\w.%~\[\]-]+=)[^&;#\s]+")
_BARE = re.compile(r"[?#][^=&;#\s]+(?=$|[&;#])")
MASK = "***"


def without_secrets(text: str) -> str:
    """The text with the user, the password and every value after the ``?`` of each address in it masked."""
    return _ADDRESS.sub(_masked, text) if "://" in text else text


def _masked(match: re.Match[str]) -> str:
    before, mark, after = match["rest"].rpartition("@")
    if mark and "?" in before:  # an @ in a value after the question mark
        place, question, values = match["rest"].partition("?")
        before, mark, after = place.rpartition("@")
        after += question + values
    if mark and not before:
        return match[0]
    shown = f"{MASK}@{after}" if mark else match["rest"]
    return match["scheme"] + _BARE.sub(f"?{MASK}", _VALUE.sub(rf"\g<1>{MASK}", shown))


def all_without_secrets(value: Any) -> Any:
    """Dicts and lists with ``without_secrets`` of every text."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {key: all_without_secrets(item) for key, item in value.items()}
    return [all_without_secrets(item) for item in value] if isinstance(value, list) else value


_REAL: dict[str, str] = {}  # of this process: what was masked before it was kept anywhere


def mask_and_remember(text: str) -> str:
    """``without_secrets``, with the addresses kept in this process for ``real_address``."""
    for match in _ADDRESS.finditer(text):
        _REAL[without_secrets(match[0])] = match[0]
    return without_secrets(text)


def real_address(shown: str) -> str:
    """The address that was masked as ``shown`` in this process, else ``shown``."""
    return _REAL.get(shown, shown)
