"""The size at which a kernel leaves its launch behind, on made-up times whose crossover is known."""

from __future__ import annotations

import math

import numpy
import pandas
import pytest
from made_h200 import h200, size_sweep
from made_points import SCREEN

from roofexp.figures.canvas.frame import prepared
from roofexp.figures.kinds.crossover import Crossover, fit_crossover, regions, size_at, with_bounds
from roofexp.figures.kinds.size_sweep import draw_size_sweep

SIZES = [64.0 * 2**i for i in range(9)]
BOUNDS = [2 * n**3 / 8e14 for n in SIZES]
FLOOR, SLOWDOWN = 5e-6, 1.15
TRUTH = (FLOOR / SLOWDOWN * 8e14 / 2) ** (1 / 3)


def times(noise: float, seed: int = 0) -> list[float]:
    spread = numpy.random.default_rng(seed).normal(0, noise, len(SIZES)) if noise else numpy.zeros(len(SIZES))
    return [(FLOOR + SLOWDOWN * bound) * math.exp(error) for bound, error in zip(BOUNDS, spread, strict=True)]


def fitted(noise: float, seed: int = 0) -> Crossover:
    found = fit_crossover(SIZES, times(noise, seed), BOUNDS)
    assert found
    return found


def test_fit_of_exact_times_gives_back_the_truth() -> None:
    found = fitted(0.0)
    assert found.size == pytest.approx(TRUTH, rel=0.01)
    assert found.floor_s == pytest.approx(FLOOR, rel=0.02)
    assert found.slowdown == pytest.approx(SLOWDOWN, rel=0.01)
    assert found.high / found.low < 1.02
    assert found.scatter < 0.01


def test_interval_holds_the_truth_about_as_often_as_it_says_and_widens_with_noise() -> None:
    found = [fitted(0.05, seed) for seed in range(40)]
    assert sum(each.low <= TRUTH <= each.high for each in found) >= 33
    widths = [
        numpy.median([fitted(noise, seed).high / fitted(noise, seed).low for seed in range(5)]) for noise in (0.01, 0.1)
    ]
    assert widths[0] < widths[1]


def test_the_same_times_give_the_same_interval() -> None:
    assert fitted(0.05) == fitted(0.05)


@pytest.mark.parametrize(
    "shown",
    [slice(0, 4), slice(0, 3), slice(6, 9)],
    ids=["too few", "launch alone", "roofs alone"],
)
def test_no_crossover_where_one_part_was_not_seen(shown: slice) -> None:
    assert fit_crossover(SIZES[shown], times(0.01)[shown], BOUNDS[shown]) is None


def test_launches_alone_have_no_crossover_however_many() -> None:
    sizes = [2.0**n for n in range(8)]
    assert fit_crossover(sizes, [5e-6] * 8, [1e-12 * n**3 for n in sizes]) is None


def test_what_is_not_known_is_left_out_of_the_fit() -> None:
    broken = times(0.0)
    broken[3] = math.nan
    found = fit_crossover(SIZES, broken, BOUNDS)
    assert found
    assert found.size == pytest.approx(TRUTH, rel=0.01)


def test_size_at_is_exact_on_a_power_law_and_beyond_its_ends() -> None:
    sizes, values = [10.0, 20.0, 40.0], [100.0, 400.0, 1600.0]
    for size in (5.0, 15.0, 30.0, 80.0):
        assert size_at(sizes, values, size**2) == pytest.approx(size)


def test_regions_follow_each_other() -> None:
    rows = prepared(pandas.DataFrame(size_sweep()))
    rows = with_bounds(rows, h200()).sort_values("size")
    found = regions(rows, 100.0)
    assert [region.binds for region in found] == ["latency", "bandwidth", "compute"]
    assert found[0].end == found[1].start == 100
    ridge = found[1].end
    assert ridge == found[2].start
    assert ridge == pytest.approx(3 * 870e12 / 4.6e12, rel=0.1)
    assert [region.binds for region in regions(rows, 1000.0)] == ["latency", "compute"]


def test_figure_shows_times_fit_interval_and_slow_clocks() -> None:
    figure = draw_size_sweep(pandas.DataFrame(size_sweep()), h200(), SCREEN)
    assert figure
    assert [each.get_label() for each in figure.axes] == ["panel gemm bf16", "times gemm bf16"]
    table = figure.table
    assert table is not None
    end = table[table["kind"] == "crossover"].iloc[0]
    assert end["size_low"] <= end["size"] <= end["size_high"]
    assert end["fitted_floor_s"] == pytest.approx(2e-6, rel=0.05)
    assert len(table[table["kind"] == "fit"]) == 17
    assert f"size {end['size']:.0f} (95 %" in figure.headline
    rates = figure.axes[0]
    assert {text.get_text() for text in rates.texts if text.get_label() == "region-label"} == {"latency", "compute"}
    slow = next(line for line in rates.lines if line.get_label() == "slow")
    assert (numpy.asarray(slow.get_xdata()) > 3000).all()


def test_many_panels_leave_the_times_to_the_table() -> None:
    rows = [row | {"kernel": f"gemm_{i}"} for i in range(8) for row in size_sweep(sizes=(64, 256, 1024))]
    figure = draw_size_sweep(pandas.DataFrame(rows), h200(), SCREEN)
    assert figure
    assert not [each for each in figure.axes if each.get_label().startswith("times")]
    assert figure.table is not None
    assert figure.table["time_s"].notna().any()
