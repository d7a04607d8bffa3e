"""The one reader of YAML files: plain data, one line for what is wrong, and no file that grows while it is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from roofexp.config.input_files import DEEPEST, read_bytes, shown
from roofexp.errors import BadInputError
from roofexp.text.console import first_line

LARGEST_BYTES = 16 * 1024**2
MOST_NODES = 2_000_000  # with every alias counted as often as it is used: nine lines of aliases can mean gigabytes
STEEP = re.compile(rf"^ {{{DEEPEST}}}|(?:[-?:]\s+){{{DEEPEST // 2}}}", re.M)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # in C where it is there
    """As OmegaConf reads YAML: ``1e3`` is a number, a date is text, and a key stands once."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} stands twice", key.start_mark)
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that would be read as numbers."""


_FLOAT = (
    "tag:yaml.org,2002:float",
    re.compile(
        r"""[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?
        |\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$""",
        re.X,
    ),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver(*_FLOAT)
_Dumper.add_implicit_resolver(*_FLOAT)


def yaml_text(content: Any) -> str:
    """Plain data as YAML that ``parse_yaml`` reads as the same."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_yaml(file: Path, where: str = "") -> Any:
    """The content of ``file`` as dicts, lists and scalars. Raises BadInputError naming the file (or ``where``, as the
    user knows it) and the line."""
    where = where or str(file)
    try:
        text = read_bytes(file, where, LARGEST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{where}: not UTF-8 text (byte {error.start})") from error
    return parse_yaml(text, where)


def parse_yaml(text: str, where: str) -> Any:
    """YAML text as plain data; ``where`` names it in the BadInputError for text that cannot be used."""
    try:
        _refuse_explosions(text, where)
        content = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that does not exist
        raise BadInputError(f"{where}: {yaml_reason(error)}") from error
    return shown(content, where)


def read_mapping(file: Path) -> dict[str, Any]:
    """A file whose top level is a mapping. Raises BadInputError."""
    content = read_yaml(file)
    if not isinstance(content, dict):
        raise BadInputError(f"{file}: expected 'key: value' lines, found {type(content).__name__}")
    return {str(key): value for key, value in content.items()}


def yaml_reason(error: BaseException) -> str:
    """What is wrong with a YAML file, and on which line."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if problem and mark:
        return f"line {mark.line + 1}: {problem}"
    return first_line(error)


def _refuse_explosions(text: str, where: str) -> None:
    """Counts nodes by events, an alias as all that its anchor holds, before anything is built."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, _Loader) if _may_explode(text) else ():
        if isinstance(event, yaml.AliasEvent):
            total += sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
        if total > MOST_NODES or len(open_nodes) > DEEPEST:
            raise BadInputError(f"{where}: its aliases or nesting stand for more than {MOST_NODES} values; write less")


def _may_explode(text: str) -> bool:
    """Aliases, or marks of nesting enough to overflow the stack of the reader in C."""
    return "*" in text or text.count("[") + text.count("{") > DEEPEST or STEEP.search(text) is not None
