"""Energy, levels of memory, working sets and the knee: what each figure shows and when it is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pandas
import pytest
from made_h200 import counted, duty_sweep, energy_sweep, fill_sweep, gemm, h200, intensity_trace, staircase, tile_sweep
from made_points import COLUMN, PAPER, SCREEN, many

from roofexp.figures import draw_all
from roofexp.figures.canvas.frame import Labels, prepared
from roofexp.figures.canvas.marks import worth_naming
from roofexp.figures.kinds.energy import arch_line, draw_energy
from roofexp.figures.kinds.hierarchy import MOST_POINTS, draw_hierarchy, tile_marks
from roofexp.figures.kinds.roofline import draw_roofline
from roofexp.figures.kinds.staircase import draw_staircase
from roofexp.text.numbers import percent

STYLES = pytest.mark.parametrize("settings", [SCREEN, PAPER, COLUMN], ids=["screen", "paper", "column"])


def words(figure: Any, label: str) -> list[str]:
    texts = [text for axes in figure.axes for text in axes.texts] + figure.texts
    return [" ".join(text.get_text().split()) for text in texts if text.get_label() == label]


def kinds(figure: Any) -> set[str]:
    return set(figure.table["kind"])


# Energy


def test_arch_is_the_lowest_above_all_points() -> None:
    intensities = [0.5, 2.0, 8.0, 32.0, 128.0]
    exact = [1 / (1e-12 + 100e-12 / x) for x in intensities]
    found = arch_line([*intensities, 8.0], [*exact, 0.3 * exact[2]])
    assert found
    assert found.a == pytest.approx(1e-12)
    assert found.b == pytest.approx(100e-12)
    noisy = [rate * factor for rate, factor in zip(exact, (1.0, 0.7, 0.95, 0.8, 1.0), strict=True)]
    above = arch_line(intensities, noisy)
    assert above
    assert all(above.flop_per_j(x) >= 0.999999 * y for x, y in zip(intensities, noisy, strict=True))


@pytest.mark.parametrize("intensities", [[1.0, 100.0], [1.0, 2.0, 4.0]], ids=["two points", "half a decade"])
def test_arch_needs_points_and_a_decade(intensities: list[float]) -> None:
    assert arch_line(intensities, [1e12] * len(intensities)) is None


def test_energy_shows_joules_copies_power_and_its_limit() -> None:
    rows = energy_sweep()
    figure = draw_energy(pandas.DataFrame(rows), h200(), SCREEN)
    assert figure
    assert [axes.get_label() for axes in figure.axes] == ["plane", "power", "strip"]
    table = figure.table
    assert table is not None
    points = table[table["kind"] == "point"]
    expected = [row["flops"] / row["energy_per_launch_j"] for row in rows if row["flops"]]
    assert sorted(points["flop_per_j"].dropna()) == pytest.approx(sorted(expected))
    copy = rows[0]
    assert points["byte_per_j"].dropna().tolist() == pytest.approx(
        [copy["traffic_bytes"] / copy["energy_per_launch_j"]]
    )
    assert table[table["kind"] == "power limit"]["power_w"].tolist() == [700.0]
    assert "arch bf16" in kinds(figure)
    assert "with what the device takes when idle" in words(figure, "footnote")[0]


def test_without_energy_there_is_no_figure() -> None:
    assert draw_energy(pandas.DataFrame([gemm(4096)]), h200(), SCREEN) is None


@STYLES
def test_fills_are_compared_by_bars(tmp_path: Path, settings: Any) -> None:
    figure = draw_energy(pandas.DataFrame(fill_sweep()), h200(), settings)
    assert figure
    assert figure.headline.startswith("gemm 8192 ")
    assert "zeros take 36 % less energy" in figure.headline
    assert {"zeros", "uniform", "normal"} <= set(words(figure, "fill-label"))
    assert "699 W" in words(figure, "value")
    figure.save(tmp_path / "energy")


def test_points_at_several_duties_are_told_apart() -> None:
    frame = prepared(pandas.DataFrame(duty_sweep((8192,))))
    names = {" ".join(Labels(frame).words(row)) for _, row in frame.iterrows()}
    assert len(names) == len(frame)
    assert "gemv duty 0.5" in names
    assert frame["duty"].tolist() == [float(asked.split()[1]) for asked in frame["clock_asked"]]


def test_only_parameters_that_vary_are_named() -> None:
    rows = [gemm(4096) | {"param.k": k, "param.nontemporal_bytes": 33554432} for k in (1, 2)]
    frame = prepared(pandas.DataFrame(rows))
    assert frame["varying_params"].tolist() == ["k=1", "k=2"]
    assert "nontemporal_bytes" in frame["params"][0]


def test_of_points_in_one_place_one_is_named() -> None:
    frame = prepared(pandas.DataFrame([gemm(4096, fill=fill) for fill in ("normal", "zeros")] + [gemm(512)]))
    assert len(worth_naming(frame, 12)) == 2


# Levels of memory


def test_each_point_stands_once_per_level() -> None:
    figure = draw_hierarchy(pandas.DataFrame(tile_sweep()), h200(), SCREEN)
    assert figure
    table = figure.table
    assert table is not None
    points = table[table["kind"] == "point"]
    assert len(points) == 4 * 4
    tile = points[(points["params"] == "tile=8") & (points["level"] == "l1")].iloc[0]
    assert tile["intensity_flop_per_byte"] == pytest.approx(2.0)
    roof = h200().bandwidth("l1")
    assert roof
    assert tile["level_fraction"] == pytest.approx(tile["flops_per_s"] / 2 / roof.at(1.98e9))
    assert figure.headline == "gemm_tiled, tile 8 to 32: intensity × 4 at L1, × 3.4 at L2 and × 1 at DRAM"
    assert "point-0-l1" in figure.hover
    assert "2 FLOP/B" in figure.hover["point-0-l1"]


def test_tile_marks_follow_from_edge_and_width() -> None:
    frame = prepared(pandas.DataFrame(tile_sweep()))
    touched, read = tile_marks(frame)
    assert (touched.formula, read.formula) == ("T/6", "T/4")
    assert touched.intensities == {8: pytest.approx(8 / 6), 16: pytest.approx(16 / 6), 32: pytest.approx(32 / 6)}
    assert read.intensities[32] == 8
    half = prepared(pandas.DataFrame([row | {"precision": "fp16"} for row in tile_sweep()]))
    assert [each.formula for each in tile_marks(half)] == ["T/3", "T/2"]
    assert tile_marks(prepared(pandas.DataFrame([gemm(512)]))) == []


def test_one_level_makes_no_hierarchy() -> None:
    rows = [counted(gemm(4096), dram=1e8), gemm(512)]
    assert draw_hierarchy(pandas.DataFrame(rows), h200(), SCREEN) is None


def test_a_crowd_is_thinned_and_the_note_says_so(tmp_path: Path) -> None:
    rows = [counted(gemm(256 + i, best=0.2 + i / 500), dram=1e8 + i, l2=4e8, l1=1e9) for i in range(300)]
    figure = draw_hierarchy(pandas.DataFrame(rows), h200(), SCREEN)
    assert figure
    drawn = figure.table
    assert drawn is not None
    count = drawn[drawn["kind"] == "point"]["name"].nunique()
    assert count <= MOST_POINTS
    assert f"Not drawn: {300 - count} of 300 points" in words(figure, "footnote")[0]


def test_the_nearest_roof_may_be_that_of_the_arithmetic() -> None:
    computing = counted(gemm(8192, best=0.98), dram=4e8, l2=2e9, l1=8e9)
    figure = draw_hierarchy(pandas.DataFrame([computing]), h200(), SCREEN)
    assert figure
    roof = h200().compute("bf16")
    assert roof
    share = percent(computing["flops_per_s"] / roof.at(computing["compute_hz"]))
    assert figure.headline == f"gemm, the fastest, is nearest to the compute roof: {share} of it"
    wide = h200().bandwidth("l2")
    assert wide
    half = gemm(8192, best=0.5)
    for l2_share, telling in (
        (0.9, "nearest to the roof of L2: 90 % of it"),
        (0.52, "nearest to the roofs of L2 and of compute: 52 % and 50 % of them"),
    ):
        bytes_at_l2 = l2_share * wide.at(half["compute_hz"]) * half["time_s"]
        figure = draw_hierarchy(pandas.DataFrame([counted({**half}, dram=4e8, l2=bytes_at_l2)]), h200(), SCREEN)
        assert figure
        assert figure.headline == f"gemm, the fastest, is {telling}"


# Working sets


@STYLES
def test_staircase_has_series_capacities_and_roofs(tmp_path: Path, settings: Any) -> None:
    rows = staircase()
    figure = draw_staircase(pandas.DataFrame(rows), h200(), settings)
    assert figure
    table = figure.table
    assert table is not None
    assert set(table[table["kind"] == "point"]["series"]) == {"copy hot", "copy cold"}
    assert set(table[table["kind"] == "capacity"]["name"]) == {"l1", "l2"}
    assert "dram" in set(table[table["kind"] == "roof"]["name"])
    drawn = table[table["kind"] == "point"]["bytes_per_s"]
    assert sorted(drawn) == pytest.approx(sorted(row["useful_bytes"] / row["time_s"] for row in rows))
    assert "fits in L2" in figure.headline
    figure.save(tmp_path / "staircase")


def test_the_staircases_title_is_of_the_fastest_series() -> None:
    rows = staircase()
    hot = [row for row in rows if row["cache_state"] == "hot"]
    once = [row | {"param.repeats": 1, "time_s": row["time_s"] * 3} for row in hot]
    many = [row | {"param.repeats": 20} for row in hot]
    figure = draw_staircase(pandas.DataFrame([*once, *many]), h200(), SCREEN)
    assert figure
    assert "repeats=20" in figure.headline


def test_staircase_needs_six_sizes_on_both_sides_of_a_cache() -> None:
    small = [row for row in staircase() if row["working_set_bytes"] < 2e7]
    assert draw_staircase(pandas.DataFrame(small), h200(), SCREEN) is None
    assert draw_staircase(pandas.DataFrame(staircase()[::12]), h200(), SCREEN) is None
    assert draw_staircase(pandas.DataFrame([gemm(2**n) for n in range(6, 15)]), h200(), SCREEN) is None
    assert draw_staircase(pandas.DataFrame(staircase()), None, SCREEN) is None


# The knee


@pytest.mark.parametrize("softness", [3.0, 40.0])
def test_knee_is_measured_against_the_ideal_corner(softness: float) -> None:
    figure = draw_roofline(pandas.DataFrame(intensity_trace(softness=softness)), h200(), SCREEN)
    table = figure.table
    assert table is not None
    knee = table[table["kind"] == "knee"].iloc[0]
    truth = 0.97 * 2 ** (-1 / softness) * knee["flops_per_s"]  # both parts take the same time at the ridge
    assert knee["flops_per_s_low"] < truth < knee["flops_per_s_high"]
    assert knee["flops_per_s_high"] < 0.98 * knee["flops_per_s"]
    assert figure.headline.startswith("intensity passes the ridge ")


def test_knee_needs_points_on_both_sides_of_the_ridge() -> None:
    figure = draw_roofline(pandas.DataFrame(intensity_trace()[:6]), h200(), SCREEN)
    assert "knee" not in kinds(figure)


# All of them


def test_each_figure_is_drawn_where_the_points_have_it(tmp_path: Path) -> None:
    written = draw_all(tmp_path, pandas.DataFrame(duty_sweep((8192,))), [h200()], SCREEN)
    assert {file.stem for file in written} == {"roofline_nvidia_h200", "ridge_shift", "energy"}
    written = draw_all(tmp_path, pandas.DataFrame(tile_sweep()), [h200()], SCREEN)
    assert {file.stem for file in written} == {"roofline_nvidia_h200", "hierarchy"}


def test_figures_of_one_page_share_no_ids_but_those_of_points(tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        draw_roofline(pandas.DataFrame([gemm(4096)]), h200(), SCREEN).save(tmp_path / name)
        root = ElementTree.parse(tmp_path / f"{name}.svg").getroot()
        found.append({element.get("id", "") for element in root.iter() if element.get("id")})
    assert all(name.startswith(("point-", "roof-")) for name in found[0] & found[1])


def test_names_of_a_crowd_are_left_to_the_mouse() -> None:
    figure = draw_roofline(pandas.DataFrame(many(40)), None, SCREEN)
    assert "At most 12 of 40 points are named here" in words(figure, "footnote")[0]
