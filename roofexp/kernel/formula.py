"""Arithmetic formulas from YAML, evaluated safely.

A formula sees only the names it is given and a few functions; it can neither import nor reach attributes, which would
be a way to methods that write files.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from roofexp.config.numbers import LARGEST
from roofexp.errors import BadInputError

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
}

REFUSED = (ast.Attribute, ast.JoinedStr, ast.FormattedValue)  # methods, and texts of any length


def evaluate(
    formula: str | int | float,
    names: Mapping[str, Any],
    where: str,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """The value of ``formula``. ``where`` names file and key for the error line.

    Raises BadInputError for a syntax error, an unknown name or function, or a value that arithmetic refuses.
    """
    if isinstance(formula, (int, float)):
        return formula
    if not isinstance(formula, str):
        raise BadInputError(f"{where}: a formula is a text or a number, not {type(formula).__name__}")
    # imported here: the help text of the program must not wait for it
    from simpleeval import (
        EvalWithCompoundTypes,
        FeatureNotAvailable,
        FunctionNotDefined,
        InvalidExpression,
        NameNotDefined,
        safe_add,
        safe_mult,
        safe_power,
    )

    known = dict(ARITHMETIC if functions is None else functions)
    evaluator = EvalWithCompoundTypes(names=dict(names), functions=known)
    evaluator.operators = evaluator.operators | {
        ast.Add: _also_for_arrays(operator.add, safe_add),
        ast.Mult: _also_for_arrays(operator.mul, safe_mult),
        ast.Pow: _also_for_arrays(operator.pow, safe_power),
        ast.Mod: _remainder,
    }
    for node in REFUSED:
        evaluator.nodes.pop(node, None)
    try:
        return evaluator.eval(formula)
    except NameNotDefined as error:
        raise BadInputError(f"{where}: unknown name {error.name!r} in {formula!r}; known: {_list(names)}") from error
    except FunctionNotDefined as error:
        raise BadInputError(
            f"{where}: unknown function {error.func_name!r} in {formula!r}; known: {_list(known)}"
        ) from error
    except (FeatureNotAvailable, InvalidExpression, SyntaxError) as error:
        reason = getattr(error, "msg", None) or str(error)
        if "Attribute is not available" in reason:
            reason = f"attributes and methods are not allowed; functions: {_list(known)}"
        raise BadInputError(f"{where}: {formula!r} is not a formula ({reason})") from error
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadInputError(
            f"{where}: {formula!r} cannot be computed ({reason}); allowed: arithmetic on {_list(names)}"
        ) from error


def evaluate_count(formula: str | int | float, names: Mapping[str, Any], where: str) -> int:
    """A formula that must give a whole number of at least zero (FLOPs, bytes, dimensions)."""
    value = evaluate(formula, names, where)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -math.inf < value < math.inf:
        raise BadInputError(f"{where}: {formula!r} gives {value!r}; a number is needed")
    if abs(value) > LARGEST:
        raise BadInputError(f"{where}: {formula!r} gives more than 2^63; what is counted must be less")
    if value < 0 or value != int(value):
        raise BadInputError(f"{where}: {formula!r} gives {value!r}; a whole number of at least 0 is needed")
    return int(value)


def _also_for_arrays(plain: Callable[[Any, Any], Any], guarded: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The guards are against texts and numbers that grow without end, and take an array for a long text."""

    def operate(a: Any, b: Any) -> Any:
        return plain(a, b) if hasattr(a, "dtype") or hasattr(b, "dtype") else guarded(a, b)

    return operate


def _remainder(a: Any, b: Any) -> Any:
    if isinstance(a, str):
        raise TypeError("% of a text")
    return a % b


def _list(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "none"
