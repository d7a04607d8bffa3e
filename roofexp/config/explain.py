"""Hydra's and OmegaConf's refusals as one line: what, where, and what is allowed."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from roofexp.config.plain import explain
from roofexp.config.yaml_file import yaml_reason
from roofexp.errors import BadInputError
from roofexp.text.console import explain_disk, first_line

OPTIONS = re.compile(r"Available options in '[^']*':((?:\n\t\S+)*)")


def explain_refusal(error: BaseException) -> str:
    """One line from the error in the chain of ``error`` that says most."""
    chain = list(_chain(error))
    for cause in chain:
        if isinstance(cause, BadInputError):
            return str(cause)
        if isinstance(cause, OSError) and cause.errno is not None:  # Hydra derives a refusal of its own from it
            return explain_disk(cause)
        mark = getattr(cause, "problem_mark", None)
        if mark is not None:
            return f"{_file_name(mark.name)}: {yaml_reason(cause)}"
    text = "\n".join(map(str, chain))
    return (
        _missing_option(text)
        or _ambiguous(text)
        or _unknown_key(chain, text)
        or _refused_value(chain)
        or first_line(error)
    )


def _missing_option(text: str) -> str | None:
    """``kernel=nope``: the group's members are named."""
    match = re.search(r"Could not find '([^']*)/([^'/]*)'", text)
    if match is None:
        return None
    group, member = match[1], match[2]
    listed = OPTIONS.search(text)
    allowed = listed[1].split() if listed else []
    near = _near(member, allowed)
    return f"{group}={member}: there is no such {group}{near}; available: {', '.join(allowed) or 'none'}"


def _ambiguous(text: str) -> str | None:
    match = re.search(r"Ambiguous value for argument '([^']*)'", text)
    if match is None:
        return None
    key, _, values = match[1].partition("=")
    return f"{match[1]}: several values are a sweep: add -m (or write one list: {key}=[{values}])"


def _unknown_key(chain: list[BaseException], text: str) -> str | None:
    match = re.search(r"Could not override '([^']*)'", text) or re.search(r"Key '([^']*)' (?:is )?not in '", text)
    if match is None or "not in" not in text:
        return None
    full = next((str(getattr(e, "full_key", None) or "") for e in reversed(chain) if getattr(e, "full_key", None)), "")
    key = full or match[1]
    parent, _, last = key.rpartition(".")
    allowed = _keys_at(parent)
    where = f" of {parent}" if parent else ""
    return no_such_key(key, last, where, allowed)


def no_such_key(key: str, last: str, where: str, allowed: list[str]) -> str:
    return f"{key}: no such key{_near(last, allowed)}; keys{where}: {', '.join(allowed) or 'none'}"


def unknown_key(config: Any) -> str | None:
    """The refusal of a key that was added with ``+`` and that nothing reads; None where there is none."""
    from omegaconf import DictConfig, OmegaConf

    from roofexp.config.schema import Config

    def search(node: Any, typed: Any, path: str) -> str | None:
        allowed = [str(key) for key in typed]
        for key in node:
            where = f"{path}.{key}" if path else str(key)
            if str(key) not in allowed:  # a missing value is a key all the same
                return no_such_key(where, str(key), f" of {path}" if path else "", sorted(allowed))
            child = typed._get_node(key)
            if isinstance(child, DictConfig) and dataclasses.is_dataclass(OmegaConf.get_type(child)):
                problem = search(node._get_node(key), child, where)
                if problem:
                    return problem
        return None

    return search(_without_hydra(config), OmegaConf.structured(Config), "")


def _without_hydra(config: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])


def _refused_value(chain: list[BaseException]) -> str | None:
    """A wrong type or a value that is not allowed, with its key."""
    for cause in reversed(chain):
        key, message = getattr(cause, "full_key", None), explain(cause)
        if key and ("could not be converted" in message or "expected one of" in message or "nvalid" in message):
            cure = "; write a whole number in digits, as 1000000" if "converted to Integer" in message else ""
            return f"{key}: {message.removeprefix(f'{key}: ')}{cure}"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what caused it, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _keys_at(path: str) -> list[str]:
    """The keys that the types allow at a dotted path."""
    from omegaconf import DictConfig, OmegaConf

    from roofexp.config.schema import Config

    node: Any = OmegaConf.structured(Config)
    for part in filter(None, path.split(".")):
        node = node._get_node(part, validate_access=False) if isinstance(node, DictConfig) else None
    return sorted(str(key) for key in node) if isinstance(node, DictConfig) else []


def _near(word: str, names: list[str]) -> str:
    name = nearest(word, names)
    return f" (did you mean {name}?)" if name else ""


def nearest(word: str, names: Sequence[str]) -> str | None:
    """The name that was probably meant: the most similar one that begins with ``word``, else the most similar one."""
    completions = [name for name in names if len(word) > 1 and name.startswith(word)]
    similar = completions or difflib.get_close_matches(word, names, 9)
    return min(similar, key=lambda name: (-difflib.SequenceMatcher(None, name, word).ratio(), name), default=None)


def _file_name(name: str) -> str:
    """The path from ``conf`` on, where it holds ``conf``."""
    _, separator, tail = name.rpartition("/conf/")
    return f"conf/{tail}" if separator else name
