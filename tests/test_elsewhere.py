"""``machine=b200``: points of a sweep under the limits of a published card."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest

from roofexp.errors import BadInputError
from roofexp.figures.kinds.other_card import write_elsewhere
from roofexp.placing.limits import load_machine_limits
from roofexp.placing.other_card import card_from, place_elsewhere, roofs_of_card
from roofexp.records.point import Counted, Point, Traffic
from roofexp.run.finish import figure_settings, stored_configuration
from tests.counted_sweep import make_sweep, points_of

B200 = load_machine_limits("b200")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    jobs = [
        ["kernel=gemm", "precision=bf16", "size=8192", "machine=b200"],
        ["kernel=gemm", "precision=bf16", "size=512", "machine=b200"],
        ["kernel=saxpy", "precision=fp32", "machine=b200"],
        ["kernel=copy", "precision=fp32", "machine=b200"],
    ]
    return make_sweep(tmp_path_factory.mktemp("elsewhere") / "made", *jobs)


def test_a_product_past_the_ridge_is_bound_by_arithmetic_there_too(sweep: Path) -> None:
    gemm, small, saxpy, copy = (place_elsewhere(point, B200) for point in points_of(sweep))
    assert gemm.bound == "compute"
    assert gemm.attainable == B200.peak_flops_per_s("bf16_tensor")
    assert gemm.time_s == pytest.approx(2 * 8192**3 / (148 * 8192 * 1.856e9))
    assert gemm.ridge == pytest.approx(148 * 8192 * 1.856e9 / 7.7e12)
    assert small.bound == "bandwidth"  # 171 FLOP/B, below the ridge of 292
    assert saxpy.bound == "bandwidth"
    assert saxpy.attainable == pytest.approx(7.7e12 * 2 / 12)
    assert saxpy.time_s == pytest.approx(12 * saxpy.point.shape["n"] / 7.7e12)
    assert copy.attainable == 7.7e12
    assert copy.intensity is None
    assert copy.speedup == pytest.approx(20e-6 * 7.7e12 / (8 * copy.point.shape["n"]))


def test_traffic_that_stayed_in_a_cache_is_not_taken_for_that_of_dram(sweep: Path) -> None:
    point = points_of(sweep)[2]
    hot = msgspec.structs.replace(point, traffic=Traffic(level="l2", bytes=1000, source="modelled"))
    assert place_elsewhere(hot, B200).time_s is None
    assert "only DRAM limits" in place_elsewhere(hot, B200).note
    counted = msgspec.structs.replace(hot, counted=Counted(dram_bytes=77_000))
    assert place_elsewhere(counted, B200).bytes == 77_000


def test_a_rate_that_nobody_published_is_no_guess(sweep: Path) -> None:
    point = points_of(sweep)[0]
    odd = msgspec.structs.replace(point, precision="int32")
    assert place_elsewhere(odd, B200).note == "no int32 rate of the card is published"
    assert [roof.name for roof in roofs_of_card(B200, ["int32", "fp32"]).roofs] == ["dram", "fp32 limit"]


def test_the_option_leaves_a_table_and_a_figure(sweep: Path) -> None:
    stored = stored_configuration(sweep)
    card = card_from(stored.machine)
    assert card == B200
    written = write_elsewhere(sweep, points_of(sweep), card, figure_settings(stored))
    assert {file.name for file in written} >= {"machine_b200.csv", "machine_b200.png", "machine_b200.svg"}
    rows = list(csv.DictReader((sweep / "machine_b200.csv").open()))
    assert [row["bound_at_best"] for row in rows] == ["compute", "bandwidth", "bandwidth", "bandwidth"]
    assert all(row["time_here_s"] == "2e-05" for row in rows)
    text = (sweep / "figures/machine_b200.svg").read_text()
    assert "clock held" not in text
    assert "published limits, dense, at its boost clock" in text
    assert "not measured" in text


def test_no_machine_no_files_and_bad_ones_are_named() -> None:
    assert card_from(None) is None
    assert card_from("h200").name == "NVIDIA H200"  # type: ignore[union-attr]
    with pytest.raises(BadInputError, match="machine:"):
        card_from({"name": "mine"})


def test_points_without_a_time_leave_nothing(sweep: Path, tmp_path: Path) -> None:
    failed: list[Point] = [msgspec.structs.replace(point, status="failed") for point in points_of(sweep)]
    assert write_elsewhere(tmp_path, failed, B200, None) == []
