"""Kernel names: the same kernel is spelt differently by ncu, nsys and the CUDA runtime."""

from __future__ import annotations

from collections.abc import Iterable

from roofexp.errors import BadInputError


def short_name(name: str) -> str:
    """The function's own name: without return type, namespaces, template arguments and parameters.

    ``void a::<unnamed>::saxpy<float>(int, float *)``, ``unnamed>::saxpy(int)`` and ``saxpy`` are all ``saxpy``.
    """
    text = name.strip().removesuffix(" [clone]")
    for anonymous in ("(anonymous namespace)::", "<unnamed>::", "unnamed>::", "_GLOBAL__N_1::"):
        text = text.replace(anonymous, "")
    bare = _outside_brackets(text)
    operator = bare.find("operator")
    if operator >= 0:
        return bare[operator:].strip()
    return bare.split("::")[-1].split(" ")[-1].strip() or name.strip()


def _outside_brackets(text: str) -> str:
    """The text up to its parameters, template arguments left out."""
    kept, depth = [], 0
    for letter in text:
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif letter == "(" and depth == 0:
            break
        elif depth == 0:
            kept.append(letter)
    return "".join(kept).strip()


def match_names(left: Iterable[str], right: Iterable[str]) -> dict[str, str]:
    """Pairs each name of ``left`` with the name of ``right`` that means the same kernel; never by position.

    The spelling itself decides, then the short name. Raises BadInputError, with both spellings, for a name that has
    no partner or more than one.
    """
    candidates = list(dict.fromkeys(right))
    pairs = {}
    for name in dict.fromkeys(left):
        exact = [other for other in candidates if other == name]
        found = exact or [other for other in candidates if short_name(other) == short_name(name)]
        if len(found) != 1:
            reason = "no kernel of that name" if not found else "several kernels of that name"
            others = ", ".join(repr(other) for other in found or candidates) or "none"
            raise BadInputError(f"kernel {name!r}: {reason} in the other report: {others}")
        pairs[name] = found[0]
    return pairs
