"""Library calls written in YAML: one nested call expression, turned into a function without ``eval``.

``matmul(a, b, out=c)`` on NumPy is looked up once; launching it costs what the library's call costs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from roofexp.errors import BadInputError


def compile_call(call: str, library: Any, names: Mapping[str, Any], where: str) -> Callable[[], Any]:
    """A function of no arguments. Functions are dotted names inside ``library``; arguments are names (operands,
    scalars, dimensions), literals, arithmetic signs, or further calls.

    Raises BadInputError for anything else, naming what is unknown.
    """
    try:
        tree = ast.parse(call, mode="eval").body
    except SyntaxError as error:
        raise BadInputError(f"{where}: {call!r} is not a call ({error.msg})") from error
    if not isinstance(tree, ast.Call):
        raise BadInputError(f"{where}: {call!r} is not a call; write it like matmul(a, b, out=c)")
    return _call(tree, library, names, where)


def _call(node: ast.Call, library: Any, names: Mapping[str, Any], where: str) -> Callable[[], Any]:
    function = _function(node.func, library, where)
    positional = [_value(argument, library, names, where) for argument in node.args]
    keyword: dict[str, Any] = {}
    for entry in node.keywords:
        if entry.arg is None:
            raise BadInputError(f"{where}: ** is not allowed in a call")
        keyword[entry.arg] = _value(entry.value, library, names, where)
    if not any(isinstance(value, _Deferred) for value in [*positional, *keyword.values()]):
        return lambda: function(*positional, **keyword)
    return lambda: function(*[_now(v) for v in positional], **{key: _now(v) for key, v in keyword.items()})


class _Deferred:
    """An argument that is itself a call: made at every launch."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function


def _now(value: Any) -> Any:
    return value.function() if isinstance(value, _Deferred) else value


def _value(node: ast.expr, library: Any, names: Mapping[str, Any], where: str) -> Any:
    if isinstance(node, ast.Call):
        return _Deferred(_call(node, library, names, where))
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise BadInputError(f"{where}: unknown name {node.id!r}; known: {', '.join(sorted(names))}")
        return names[node.id]
    if isinstance(node, ast.Attribute):  # a constant of the library, such as float32
        return _function(node, library, where)
    if isinstance(node, (ast.Tuple, ast.List)):
        items = [_value(item, library, names, where) for item in node.elts]
        if any(isinstance(item, _Deferred) for item in items):
            raise BadInputError(f"{where}: a call inside a list is not allowed")
        return items if isinstance(node, ast.List) else tuple(items)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise BadInputError(f"{where}: {ast.unparse(node)!r} is neither a name, a literal nor a call") from error


def _function(node: ast.expr, library: Any, where: str) -> Any:
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise BadInputError(f"{where}: {ast.unparse(node)!r} is not a function's name")
    path.insert(0, node.id)
    found = library
    for part in path:
        # one leading underscore is how libraries mark functions that may change, two are the language's own
        if part.startswith("__") or not hasattr(found, part):
            name = getattr(library, "__name__", "the library")
            raise BadInputError(f"{where}: {name} has no function {'.'.join(path)!r}")
        found = getattr(found, part)
    return found
