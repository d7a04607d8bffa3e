"""The facts that tests/gpu/test_counters.py asks of a GPU, asked of the counters that an H200 gave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from roofexp.counters.join import counted_point, join
from roofexp.records.point import Point
from tests.counted_sweep import MACHINE, ROOFS, make_sweep, points_of
from tests.counting_facts import CASES, FACTS, Points, read_gathered
from tests.ncu_text import DATA
from tests.test_counting_records import PLACING

CAPTURE = DATA / "h200_counted_points.csv.gz"


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Points:
    launches = read_gathered(CAPTURE)
    folder: Path = tmp_path_factory.mktemp("made") / "sweep"
    made = points_of(make_sweep(folder, *(CASES[case] for case in launches), machine=MACHINE))
    points: dict[str, Point] = {}
    for point, (case, own) in zip(made, launches.items(), strict=True):
        asked = [name for name in own[0].metrics if not name.startswith("launch__")]
        counted = counted_point(point, own, asked)
        control = "none" if point.cache_state == "hot" else "all"
        points[case] = join(point, _controlled(counted, control), ROOFS, PLACING)
    return points


def _controlled(counted, cache_control: str):
    import msgspec

    return msgspec.structs.replace(counted, cache_control=cache_control)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_capture(captured: Points, fact: Callable[[Points], None]) -> None:
    fact(captured)
