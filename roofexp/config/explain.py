"""Hydra's and OmegaConf's refusals as one line: what, where, and what is allowed."""

from __future__ import annotations

import dataclasses
import difflib
import re
from typing import Any

from roofexp.config.plain import explain
from roofexp.config.yaml_file import yaml_reason
from roofexp.errors import BadInputError
from roofexp.text.console import explain_disk

OPTIONS = re.compile(r"Available options in '[^']*':((?:\n\t\S+)*)")


def explain_refusal(error: BaseException, arguments: list[str]) -> str:
    """The error behind ``error`` that tells most."""
    chain = list(_chain(error))
    for found in chain:
        if isinstance(found, BadInputError):
            return str(found)
        if isinstance(found, OSError) and found.errno is not None:  # Hydra derives a refusal of its own from it
            return explain_disk(found)
        if getattr(found, "problem_mark", None) is not None:
            mark = found.problem_mark
            return f"{_file_name(mark.name)}: {yaml_reason(found)}"
    text = "\n".join(str(found) for found in chain)
    return (
        _missing_option(text) or _ambiguous(text) or _unknown_key(chain, text) or _refused_value(chain) or _plain(error)
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
    """A key that was added with ``+`` and that nothing reads: as misleading as a mistyped one."""
    from omegaconf import DictConfig, OmegaConf

    from roofexp.config.schema import Config

    def search(found: Any, typed: Any, path: str) -> str | None:
        allowed = [str(key) for key in typed]
        for key in found:
            where = f"{path}.{key}" if path else str(key)
            if str(key) not in allowed:  # a missing value is a key all the same
                return no_such_key(where, str(key), f" of {path}" if path else "", sorted(allowed))
            child = typed._get_node(key)
            if isinstance(child, DictConfig) and dataclasses.is_dataclass(OmegaConf.get_type(child)):
                problem = search(found._get_node(key), child, where)
                if problem:
                    return problem
        return None

    return search(_without_hydra(config), OmegaConf.structured(Config), "")


def _without_hydra(config: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])


def _refused_value(chain: list[BaseException]) -> str | None:
    """A wrong type or a value outside its set, with the key it was meant for."""
    for found in reversed(chain):
        key, message = getattr(found, "full_key", None), explain(found)
        if key and ("could not be converted" in message or "expected one of" in message or "nvalid" in message):
            return f"{key}: {message.removeprefix(f'{key}: ')}"
    return None


def _plain(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _chain(error: BaseException | None) -> Any:
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
        node = node._get_node(part) if isinstance(node, DictConfig) else None
    return sorted(str(key) for key in node) if isinstance(node, DictConfig) else []


def _near(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _file_name(name: str) -> str:
    """From ``conf`` on, so that no machine's path is printed where it is not needed."""
    _, found, tail = name.rpartition("/conf/")
    return f"conf/{tail}" if found else name
