"""Experiments as a GPU left them: points with their counters, and the roofs that they were judged under.

``python -m tests.recorded_faults FOLDER [NAME]`` packs a folder of the experiment in its place; NAME is ``faults``
unless said, or ``llm_kernels``.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

import msgspec

from roofexp.commands.diagnose import judged
from roofexp.counters.report_placing import placing_settings
from roofexp.records.archive import read_sweep_points
from roofexp.records.machine import RoofSet
from roofexp.records.point import Point
from roofexp.records.sweep_folder import read_roofs
from tests.ncu_text import DATA


class Recorded(msgspec.Struct, frozen=True):
    roofs: RoofSet
    points: list[Point]


def file_of(name: str) -> Path:
    return DATA.parent / f"h200_{name}.json.xz"


def recorded(name: str) -> Recorded:
    return msgspec.json.decode(lzma.decompress(file_of(name).read_bytes()), type=Recorded)


def judged_anew(name: str) -> list[Point]:
    """The recorded points under the program's own thresholds and rules."""
    found = recorded(name)
    return [judged(point, [found.roofs], placing_settings()) for point in found.points]


def pack(folder: Path) -> bytes:
    """The records without their verdicts, which the rules find anew."""
    points = [msgspec.structs.replace(point, diagnosis=None) for point in read_sweep_points(folder)]
    record = msgspec.to_builtins(Recorded(read_roofs(folder)[0], sorted(points, key=lambda point: point.job)))
    for point in record["points"]:
        point["overrides"] = [change for change in point["overrides"] if "/" not in change.split("=", 1)[-1]]
    return lzma.compress(json.dumps(record, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    file_of(sys.argv[2] if len(sys.argv) > 2 else "faults").write_bytes(pack(Path(sys.argv[1])))
