"""``experiment=faults`` as a GPU left it: points with their counters, and the roofs that they were judged under.

``python -m tests.recorded_faults FOLDER`` packs a folder of the experiment in its place.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

import msgspec

from roofexp.machine import RoofSet
from roofexp.point import Point, read_points
from roofexp.sweep import read_roofs
from tests.ncu_text import DATA

FILE = DATA.parent / "h200_faults.json.xz"


class Recorded(msgspec.Struct, frozen=True):
    roofs: RoofSet
    points: list[Point]


def recorded_faults() -> Recorded:
    return msgspec.json.decode(lzma.decompress(FILE.read_bytes()), type=Recorded)


def pack(folder: Path) -> bytes:
    """The records without their verdicts, which the rules find anew."""
    points = [msgspec.structs.replace(point, diagnosis=None) for point in read_points(folder)]
    record = msgspec.to_builtins(Recorded(read_roofs(folder)[0], sorted(points, key=lambda point: point.job)))
    for point in record["points"]:
        point["overrides"] = [change for change in point["overrides"] if "/" not in change.split("=", 1)[-1]]
    return lzma.compress(json.dumps(record, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    FILE.write_bytes(pack(Path(sys.argv[1])))
