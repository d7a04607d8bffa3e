"""Points that differ in size alone, and the lines through them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from roofexp.figures.boxes import Segment
from roofexp.figures.frame import OTHERS
from roofexp.figures.labels import Ground

if TYPE_CHECKING:
    from pandas import DataFrame

    Path = list[tuple[float, float]]


class Series(NamedTuple):
    """Points that differ in size alone, ascending; ``name`` says what sets them apart in their panel."""

    name: str
    rows: DataFrame


def series_of(rows: DataFrame) -> list[Series]:
    varying = [name for name in OTHERS if rows[name].nunique() > 1]
    if not varying:
        return [Series("", rows.sort_values("size", kind="stable"))]
    return [
        Series(" ".join(str(word) for word in key if word), group.sort_values("size", kind="stable"))
        for key, group in rows.groupby(varying, sort=False)
    ]


def path_of(rows: DataFrame, name: str) -> Path:
    known = rows[rows[name] > 0]
    return list(zip(known["size"].tolist(), known[name].tolist(), strict=True))


def pieces_of(ground: Ground, path: Path) -> list[Segment]:
    """The visible straight parts of a path, with neighbours of the same slope joined."""
    pieces: list[Segment] = []
    for first, last in itertools.pairwise(path):
        piece = ground.segment((first[0], last[0]), (first[1], last[1]))
        if piece.length == 0:
            continue
        if pieces and abs(pieces[-1].angle - piece.angle) < 1.5:
            pieces[-1] = pieces[-1]._replace(x1=piece.x1, y1=piece.y1)
        else:
            pieces.append(piece)
    return pieces
