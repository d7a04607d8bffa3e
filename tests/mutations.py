"""Files as a damaged disk or a stranger's hand leaves them: bytes flipped, cut and repeated; values dropped, retyped,
nested and blown up."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

VALUES: list[Any] = [
    None, True, 0, -1, 0.0, -1.5, 1e-308, 5e-324, 1e308, 2**63, -(2**63) - 1, 10**40, float("nan"), float("inf"), "",
    "x", "nan", "-", "k\x00\x1b[31m\ufffe", "$\\undefinedmacro{$", "\u202eevil", "<script>", "=1+1", "../../x", "/",
    "a" * 5000, "${oc.env:HOME}", "${missing}", [], {}, [[]], [None], {"": 0}, {"x": {"x": 1}}, [1e400], "2020-01-01",
    "\n\n",
]  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with a key or an index of it."""
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [place for key, child in children for place in ((value, key), *places(child))]


def mutated_value(value: Any, random: Random) -> Any:
    """Plain data with one to three nodes changed."""
    value = json.loads(json.dumps(value))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        spots = places(value)
        if not spots:
            return random.choice(VALUES)
        holder, key = random.choice(spots)
        kind = random.randrange(10)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = nested(random.choice((3, 90, 110, 400)))
        elif kind == 2 and isinstance(holder, list):
            holder.insert(key, holder[key])
        elif kind == 2:
            holder[random.choice((f"{key}2", "", "x\x00", "$", "__class__"))] = holder[key]
        elif kind == 3:
            holder[key] = [holder[key]]
        elif kind == 4:
            holder[key] = str(holder[key])
        elif kind == 5 and isinstance(holder[key], (int, float)):
            holder[key] = holder[key] * random.choice((-1, 0, 1e9, 1e-9, 1e200, 1e-200))
        else:
            holder[key] = random.choice(VALUES)
    return value


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """Bytes with one to eight places changed."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        start = random.randrange(len(changed) + 1)
        end = min(len(changed), start + random.choice((1, 1, 4, 40)))
        kind = random.randrange(6)
        if kind == 0:
            del changed[start:]
        elif kind == 1:
            del changed[start:end]
        elif kind == 2:
            changed[start:start] = changed[start:end] * random.choice((1, 50))
        elif kind == 3:
            changed[start:end] = random.choice(
                (b"\x00", b"\xff", b"\n", b"[" * 2000, b"{", b"9" * 400, b"- ", b'"', b",")
            )
        else:
            for place in range(start, end):
                changed[place] ^= 1 << random.randrange(8)
    return bytes(changed)


def mutated_table(data: bytes, random: Random) -> bytes:
    """CSV with a cell, a row or a column changed."""
    rows = [line.split(",") for line in data.decode().splitlines()]
    for _ in range(random.choice((1, 1, 3))):
        row = random.choice(rows)
        place = random.randrange(len(row))
        kind = random.randrange(6)
        if kind == 0:
            del row[place]
        elif kind == 1:
            row.insert(place, row[place])
        elif kind == 2:
            rows.insert(random.randrange(len(rows)), list(row))
        elif kind == 3 and len(rows) > 1:
            rows.remove(row)
        else:
            row[place] = str(random.choice(VALUES)).replace("\n", " ")
        rows = [row for row in rows if row] or [[""]]
    return "\n".join(",".join(row) for row in rows).encode(errors="surrogatepass")


def structured(load: Callable[[bytes], Any], dump: Callable[[Any], bytes]) -> Callable[[bytes, Random], bytes]:
    """A mutation of what ``load`` reads and ``dump`` writes, one in four of its bytes instead."""

    def mutated(data: bytes, random: Random) -> bytes:
        if random.randrange(4) == 0:
            return mutated_bytes(data, random)
        return dump(mutated_value(load(data), random))

    return mutated
