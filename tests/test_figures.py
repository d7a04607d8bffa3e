"""What must hold for whoever looks at a figure, on made-up points (made_points.py)."""

from __future__ import annotations

import functools
import logging
import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pandas
import pytest
from made_points import COLUMN, DRAM, FP32, HELD_HZ, LAUNCH_S, PAPER, SCREEN, many, point, roofs

from roofexp.config.schema import FiguresConfig
from roofexp.figures import draw_all
from roofexp.figures.canvas.style import text_width, wrapped
from roofexp.figures.kinds.crossover import crossing_size
from roofexp.figures.kinds.roofline import draw_roofline
from roofexp.figures.kinds.size_sweep import draw_size_sweep
from roofexp.records.machine import RoofSet
from roofexp.records.sweep_folder import write_machine
from roofexp.text.numbers import machine_short

SVG = "{http://www.w3.org/2000/svg}"
CROWDS = pytest.mark.parametrize("count", [1, 12, 300])
STYLES = pytest.mark.parametrize("settings", [SCREEN, PAPER, COLUMN], ids=["screen", "paper", "column"])


def drawn(rows: list[dict[str, Any]], settings: FiguresConfig = SCREEN, under: RoofSet | None = None) -> Any:
    return draw_roofline(pandas.DataFrame(rows), under or roofs(), settings)


@functools.cache
def crowd(count: int, width_mm: float) -> Any:
    """The figure of so many points, laid out as it will be written; drawn once for all tests of it."""
    figure = drawn(many(count), next(s for s in (SCREEN, PAPER, COLUMN) if s.width_mm == width_mm))
    figure.draw_without_rendering()
    return figure


def axes(figure: Any, label: str) -> Any:
    return next(each for each in figure.axes if each.get_label() == label)


def words(figure: Any, *labels: str) -> list[Any]:
    found = [text for each in figure.axes for text in each.texts if text.get_label() in labels]
    return found + [text for text in figure.texts if text.get_label() in labels]


def word(figure: Any, label: str) -> str:
    return " ".join(words(figure, label)[0].get_text().split())


def mark(figure: Any, gid: str) -> Any:
    return next(artist for each in figure.axes for artist in each.get_children() if artist.get_gid() == gid)


def corners(text: Any) -> Any:
    """The corners (4 x 2) of a text's box, turned as the text is, in pixels."""
    from matplotlib.transforms import Affine2D

    angle = text.get_rotation()
    x, y = text.get_transform().transform(text.get_position())
    text.set_rotation(0)
    box = text.get_window_extent()
    text.set_rotation(angle)
    return Affine2D().rotate_deg_around(x, y, angle).transform(box.corners()[[0, 1, 3, 2]])


def cover(a: Any, b: Any) -> bool:
    """Whether two rectangles share any area: none of their sides separates them."""
    for side in (*numpy.diff(a[:3], axis=0), *numpy.diff(b[:3], axis=0)):
        first, second = a @ side, b @ side
        if first.max() <= second.min() or second.max() <= first.min():
            return False
    return True


# Points and limits


def test_a_zero_hides_no_other_point_and_is_named() -> None:
    values = zip([0, 0.125, 2, 819.3], [0, 3.9e11, 5e12, 2.2e14], strict=True)
    rows = [
        {"kernel": f"k{i}", "size": 8 + i, "precision": "fp32", "intensity_flop_per_byte": a, "flops_per_s": rate}
        for i, (a, rate) in enumerate(values)
    ]
    figure = drawn(rows)
    plane = axes(figure, "plane")
    (left, right), (bottom, top) = plane.get_xlim(), plane.get_ylim()
    assert left > 0
    assert bottom > 0
    for i in (1, 2, 3):
        x, y = mark(figure, f"point-{i}").get_xydata()[0]
        assert left < x < right
        assert bottom < y < top
    assert "point-0" not in figure.hover
    assert "k0 8 fp32" in word(figure, "footnote")


@STYLES
def test_zeros_alone_still_make_a_figure_with_a_note(tmp_path: Path, settings: FiguresConfig) -> None:
    rows = [{"kernel": "k", "size": 8, "precision": "fp32", "intensity_flop_per_byte": 0, "flops_per_s": 0}]
    figure = drawn(rows, settings)
    assert "Not drawn" in word(figure, "footnote")
    assert (tmp_path / "zeros.png") in figure.save(tmp_path / "zeros")


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_what_is_no_positive_number_is_not_drawn_but_named(value: float) -> None:
    figure = drawn([point("gemm", 512), point("saxpy", 4096, flops_per_s=value, intensity_flop_per_byte=value)])
    assert list(hovers(figure)) == ["point-0"]
    assert "saxpy 4096 fp32" in word(figure, "footnote")


def test_failed_and_skipped_points_are_named() -> None:
    rows = [point("gemm", 512), {"kernel": "gemm", "size": 64, "precision": "fp32", "status": "failed"}]
    rows.append({"kernel": "gemv", "size": 32, "precision": "fp64", "status": "skipped"})
    note = word(drawn(rows), "footnote")
    assert "failed: gemm 64 fp32" in note
    assert "skipped: gemv 32 fp64" in note


@CROWDS
@STYLES
def test_decades_are_equal_and_every_point_and_ridge_lies_inside(count: int, settings: FiguresConfig) -> None:
    figure = crowd(count, settings.width_mm)
    plane = axes(figure, "plane")
    box = plane.get_window_extent()
    decade_x = box.width / math.log10(plane.get_xlim()[1] / plane.get_xlim()[0])
    decade_y = box.height / math.log10(plane.get_ylim()[1] / plane.get_ylim()[0])
    assert decade_x == pytest.approx(decade_y, rel=1e-6)
    assert plane.get_aspect() == 1.0
    for name in ("plane", "strip"):
        for each in [a for a in figure.axes if a.get_label() == name]:
            inside = each.get_window_extent().padded(0.5)
            for line in each.lines:
                if str(line.get_gid()).startswith("point-"):
                    assert inside.contains(*each.transData.transform(line.get_xydata()[0]))
    assert plane.get_xlim()[0] < FP32 / DRAM < plane.get_xlim()[1]


# Words


@CROWDS
@STYLES
def test_no_two_words_overlap_and_all_stay_in_their_axes(count: int, settings: FiguresConfig) -> None:
    figure = crowd(count, settings.width_mm)
    for each in figure.axes:
        texts = [t for t in each.texts if t.get_label() in ("point-label", "roof-label", "ridge-label")]
        boxes = [(text.get_text(), corners(text)) for text in texts]
        for (first, a), (second, b) in combinations(boxes, 2):
            assert not cover(a, b), f"{first!r} covers {second!r}"
        for text, box in boxes:
            room = each.get_window_extent().padded(1)
            assert all(room.contains(x, y) for x, y in box), text
    assert len(words(figure, "point-label")) <= settings.labels


@pytest.mark.parametrize("kernel", ["gemm", "silu_then_mul_in_two_passes_over_memory"])
@STYLES
def test_title_machine_and_footnote_stay_on_the_page(kernel: str, settings: FiguresConfig) -> None:
    figure = drawn([point(kernel, 256), point(kernel, 4096, flags="above a roof")], settings)
    figure.draw_without_rendering()
    for text in words(figure, "title", "machine", "footnote", "key"):
        extent = text.get_window_extent()
        assert figure.bbox.padded(1).contains(extent.x0, extent.y0), text.get_text()
        assert figure.bbox.padded(1).contains(extent.x1, extent.y1), text.get_text()


def test_words_say_what_to_see_where_and_from_what() -> None:
    figure = drawn([point("gemm", 128), point("gemm", 4096, flags="noisy; above a roof")])
    assert word(figure, "title").startswith("gemm: 90 % of the fp32 fma roof at size 4096, ")
    assert word(figure, "machine") == "Example CPU @ 3.20GHz · fp32 · clock held 3.2 GHz (observe) · cold caches"
    note = word(figure, "footnote")
    assert "measured on this machine on 2026-01-02" in note
    assert "modelled from each kernel's formulas" in note
    assert "Ringed: flagged (above a roof and noisy)" in note


def test_the_title_names_only_the_parameters_that_differ() -> None:
    figure = drawn([point("gemm", n, **{"param.repeats": n // 64, "param.unroll": 8}) for n in (128, 4096)])
    title = word(figure, "title").replace("\n", " ")
    assert "repeats=64" in title
    assert "unroll" not in title


def test_roofs_that_were_not_measured_are_not_called_measured() -> None:
    import msgspec

    note = word(drawn([point("gemm", 512)], under=msgspec.structs.replace(roofs(), measured="")), "footnote")
    assert "by arithmetic, not measured" in note


def test_points_without_roofs_are_drawn_and_the_note_says_so() -> None:
    figure = draw_roofline(pandas.DataFrame([point("gemm", 512)]), None, SCREEN)
    assert list(figure.hover) == ["point-0"]
    assert "No roofs were measured" in word(figure, "footnote")


def test_a_number_stays_on_the_line_of_its_unit() -> None:
    text = "clock held 3.4 GHz and 92 % of 38 GB/s"
    for width in range(20, 200, 5):
        lines = wrapped(text, width, 8).split("\n")
        assert " ".join(lines) == text
        assert not [line for line in lines if line.startswith(("GHz", "%", "GB/s"))]
    assert all(text_width(line, 8) <= 100 for line in wrapped("one two three four five six", 100, 8).split("\n"))


# Roofs


def roof_ends(figure: Any, name: str) -> pandas.DataFrame:
    table = figure.table
    return table[(table["kind"] == "roof") & (table["name"] == name)]


def test_bandwidth_stands_at_45_degrees_and_reaches_past_the_points() -> None:
    figure = drawn([point("saxpy", 2**20), point("gemm", 2048)])
    plane = axes(figure, "plane")
    ends = roof_ends(figure, "dram")[["intensity_flop_per_byte", "flops_per_s"]].to_numpy(float)
    (x0, y0), (x1, y1) = plane.transData.transform(ends)
    assert math.degrees(math.atan2(y1 - y0, x1 - x0)) == pytest.approx(45, abs=0.01)
    assert ends[0, 0] < point("saxpy", 2**20)["intensity_flop_per_byte"] / 2
    assert ends[:, 1] == pytest.approx(ends[:, 0] * DRAM)
    flat = roof_ends(figure, "fp32 fma")
    assert flat["intensity_flop_per_byte"].max() > 2 * point("gemm", 2048)["intensity_flop_per_byte"]


def test_every_roof_ceiling_and_ridge_of_the_precisions_present_is_on_the_line_itself() -> None:
    figure = drawn([point("gemm", n) for n in (256, 1024, 4096)])
    written = {text.get_text() for text in words(figure, "roof-label")}
    assert written == {
        "fp32 fma 400 GFLOP/s, 97 % of limit",
        "fp32 no FMA 200 GFLOP/s",
        "fp32 one thread 100 GFLOP/s",
        "DRAM 40 GB/s",
        "L3 160 GB/s",
        "L2 400 GB/s",
        "L1 800 GB/s",
    }
    assert [text.get_text() for text in words(figure, "ridge-label")] == ["fp32 ridge 10 FLOP/B"]
    diagonal = next(text for text in words(figure, "roof-label") if text.get_text().startswith("DRAM"))
    assert diagonal.get_rotation() == pytest.approx(45, abs=0.01)


def test_compute_roof_is_drawn_at_the_clock_that_the_points_held() -> None:
    figure = drawn([point("gemm", 2048, compute_hz=HELD_HZ / 2)])
    assert roof_ends(figure, "fp32 fma")["flops_per_s"].unique() == pytest.approx([FP32 / 2])
    assert roof_ends(figure, "dram")["flops_per_s"].max() == pytest.approx(FP32 / 2)
    assert "1.6 GHz" in word(figure, "machine")


def test_compute_roof_stands_at_the_clock_of_points_past_the_ridge() -> None:
    slow, fast = HELD_HZ / 2, HELD_HZ
    figure = drawn(
        [point("saxpy", 2**20 + n, compute_hz=fast) for n in range(3)] + [point("gemm", 2048, compute_hz=slow)]
    )
    assert roof_ends(figure, "fp32 fma")["flops_per_s"].unique() == pytest.approx([FP32 / 2])


def test_clocks_apart_give_a_band() -> None:
    figure = drawn([point("gemm", n, compute_hz=hz) for n, hz in ((512, 1.6e9), (1024, 2.4e9), (2048, 3.2e9))])
    ends = roof_ends(figure, "fp32 fma")
    assert ends["flops_per_s_low"].max() == pytest.approx(FP32 / 2)
    assert ends["flops_per_s_high"].max() == pytest.approx(FP32)
    assert "bands over all clocks held" in word(figure, "footnote")
    assert "1.6 – 3.2 GHz" in word(figure, "machine")


# Kernels without FLOPs


def test_copy_stands_in_bytes_per_second_beside_the_plane_at_no_intensity() -> None:
    row = point("copy", 2**24)
    figure = drawn([row, point("gemm", 1024)])
    strip, plane = axes(figure, "strip"), axes(figure, "plane")
    assert mark(figure, "point-0") in strip.get_children()
    assert mark(figure, "point-0").get_ydata()[0] == row["bytes_per_s"]
    assert strip.get_ylabel() == "B/s"
    assert strip.get_window_extent().x1 == pytest.approx(plane.get_window_extent().x0)
    level = strip.transData.transform((0, DRAM))[1]
    diagonal = plane.transData.transform((plane.get_xlim()[0], plane.get_xlim()[0] * DRAM))[1]
    assert level == pytest.approx(diagonal, abs=0.01)


def test_only_copies_make_a_figure_too() -> None:
    figure = drawn([point("copy", 2**n) for n in (8, 16, 24)])
    assert sorted(hovers(figure)) == ["point-0", "point-1", "point-2"]


# Marks


def test_colour_is_the_kernel_shape_the_precision_hollow_modelled_and_rings_are_flags() -> None:
    rows = [point("gemm", 512), point("gemm", 512, "fp64", traffic_source="counted"), point("gemv", 512, flags="noisy")]
    figure = drawn(rows)
    first, second, third = (mark(figure, f"point-{i}") for i in range(3))
    assert first.get_markeredgecolor() == second.get_markeredgecolor() != third.get_markeredgecolor()
    assert first.get_marker() == third.get_marker() != second.get_marker()
    assert second.get_markerfacecolor() == second.get_markeredgecolor()
    assert first.get_markerfacecolor() == "white"
    rings = [a.get_gid() for a in axes(figure, "plane").get_children() if str(a.get_gid()).startswith("ring-")]
    assert rings == ["ring-point-2"]
    assert [text.get_text() for text in words(figure, "key")] == [
        "gemm",
        "gemv",
        "fp64",
        "fp32",
        "counted",
        "modelled",
        "flagged",
    ]


# Files


def hovers(figure: Any) -> dict[str, str]:
    return {gid: text for gid, text in figure.hover.items() if gid.startswith("point-")}


@pytest.mark.parametrize("count", [1, 60])
def test_svg_names_every_point_and_keeps_text_as_text(tmp_path: Path, count: int) -> None:
    rows = many(count)
    drawn(rows).save(tmp_path / "figure")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    for i, row in enumerate(rows):
        groups = [element for element in root.iter(f"{SVG}g") if element.get("id") == f"point-{i}"]
        assert len(groups) == 1
        titles = groups[0].findall(f"{SVG}title")
        assert len(titles) == 1
        assert titles[0].text is not None
        assert titles[0].text.startswith(f"{row['kernel']} {row['size']} {row['precision']}")
        assert row["cause"] in titles[0].text
    texts = {element.text for element in root.iter(f"{SVG}text")}
    assert "Arithmetic intensity (FLOP/B)" in texts
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_files_are_the_same_when_drawn_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        drawn(many(12), PAPER).save(tmp_path / name / "figure")
    for kind in ("svg", "png", "csv", "pdf"):
        first, second = ((tmp_path / name / f"figure.{kind}").read_bytes() for name in ("a", "b"))
        assert first == second, kind


def test_csv_has_what_is_drawn_and_a_unit_in_every_column(tmp_path: Path) -> None:
    rows = [*many(12), {"kernel": "gemm", "size": 64, "precision": "fp32", "status": "failed"}]
    drawn(rows).save(tmp_path / "figure")
    table = pandas.read_csv(tmp_path / "figure.csv")
    points = table[table["kind"] == "point"]
    assert len(points) == 12
    rates = points["flops_per_s"].fillna(points["bytes_per_s"])
    assert sorted(rates) == pytest.approx(sorted(row["flops_per_s"] or row["bytes_per_s"] for row in rows[:12]))
    assert {"dram", "l3", "l2", "l1", "fp32 fma", "fp64 fma"} <= set(table["name"])
    numbers = table.dropna(axis=1, how="all").select_dtypes(numpy.number).columns.drop(["size", "fraction", "job"])
    endings = ("_per_s", "_per_byte", "_hz", "_low", "_high")
    assert [name for name in numbers if not name.endswith(endings)] == []


def test_paper_is_as_wide_as_asked_with_fonts_that_stay_text(tmp_path: Path) -> None:
    drawn(many(3), COLUMN).save(tmp_path / "figure")
    pdf = (tmp_path / "figure.pdf").read_bytes()
    assert b"/Type3" not in pdf
    assert b"/FontFile2" in pdf
    width, _ = png_size(tmp_path / "figure.png")
    assert width == pytest.approx(88 / 25.4 * 300, abs=1)


def png_size(file: Path) -> tuple[int, int]:
    header = file.read_bytes()[16:24]
    return int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")


@pytest.mark.parametrize("backend", ["TkAgg", "nonsense"])
def test_figures_are_written_without_a_display(tmp_path: Path, backend: str) -> None:
    pandas.DataFrame([point("gemm", 512), point("gemm", 2048)]).to_csv(tmp_path / "points.csv")
    script = (
        "import sys, pandas; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from made_points import SCREEN, roofs; from roofexp.figures import draw_all\n"
        "folder = Path(sys.argv[1])\n"
        "print(*draw_all(folder, pandas.read_csv(folder / 'points.csv'), [roofs()], SCREEN), sep='\\n')"
    )
    environment = {**os.environ, "DISPLAY": "localhost:64.0", "MPLBACKEND": backend}
    here = Path(__file__).parent
    command = [sys.executable, "-c", script, str(tmp_path), str(here)]
    done = subprocess.run(command, env=environment, cwd=here.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    written = [Path(line) for line in done.stdout.split()]
    assert {file.name for file in written} == {
        f"{stem}.{kind}" for stem in ("roofline_example", "size_sweep") for kind in ("png", "svg", "csv")
    }
    assert all(file.stat().st_size > 500 for file in written)


def test_importing_figures_is_cheap() -> None:
    code = "import sys, roofexp.figures; print(*{'matplotlib', 'seaborn', 'pandas', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


# All figures of a sweep


def test_one_figure_that_cannot_be_drawn_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr("roofexp.figures.kinds.roofline.draw_roofline", broken)
    frame = pandas.DataFrame([point("gemm", 512), point("gemm", 2048)])
    with caplog.at_level(logging.WARNING):
        written = draw_all(tmp_path, frame, [roofs()], SCREEN)
    assert {file.name for file in written} == {"size_sweep.png", "size_sweep.svg", "size_sweep.csv"}
    assert "roofline_example" in caplog.text
    assert "no ink" in caplog.text


def test_without_roofs_the_figure_has_the_machines_name(tmp_path: Path) -> None:
    write_machine(tmp_path, msgspec.structs.replace(roofs().machine, machine_id="cpu-0123abcd"))
    rows = [point("gemm", 512, machine_id="cpu-0123abcd", roof=None, fraction=None, bound=None)]
    written = draw_all(tmp_path, pandas.DataFrame(rows), [], SCREEN)
    assert [file.name for file in written if file.suffix == ".svg"] == ["roofline_example.svg"]
    drawn = next(file for file in written if file.suffix == ".svg").read_text()
    assert "Example CPU @ 3.20GHz" in drawn
    assert "cpu-0123abcd" not in drawn


def test_each_machine_and_clock_mode_has_its_own_figure(tmp_path: Path) -> None:
    rows = [
        point("gemm", 512),
        point("gemm", 512, clock_mode="duty"),
        point("gemm", 512, machine_id="beef"),
        {"kernel": "gemm", "size": 64, "precision": "fp8", "status": "skipped", "clock_mode": "observe"},
    ]
    written = draw_all(tmp_path, pandas.DataFrame(rows), [roofs(), roofs("beef", name="NVIDIA H200")], SCREEN)
    assert {file.stem for file in written} == {
        "roofline_example_observe",
        "roofline_example_duty",
        "roofline_nvidia_h200_observe",
    }
    assert all(file.parent == tmp_path / "figures" for file in written)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H200", "nvidia_h200"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "intel_xeon"),
        ("AMD EPYC 7763 64-Core Processor", "amd_epyc_7763"),
        ("", "machine"),
    ],
)
def test_machine_names_are_fit_for_files(name: str, short: str) -> None:
    assert machine_short(name) == short


# Size sweep


def swept(rows: list[dict[str, Any]], settings: FiguresConfig = SCREEN, **options: Any) -> Any:
    return draw_size_sweep(pandas.DataFrame(rows), roofs(), settings, **options)


def panels(figure: Any) -> list[Any]:
    return [each for each in figure.axes if each.get_label().startswith("panel ")]


def test_one_size_makes_no_size_sweep() -> None:
    assert swept([point("gemm", 512), point("gemv", 1024)]) is None


def test_crossing_of_a_power_law_is_exact() -> None:
    sizes = [2.0**n for n in range(4, 12)]
    shares = [1e-6 * size**1.7 for size in sizes]
    expected = (0.3 / 1e-6) ** (1 / 1.7)
    assert crossing_size(sizes, shares, 0.3) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([0.5, 0.6, 0.9], None), ([0.01, 0.02, 0.03], None), ([0.1, math.nan, 0.9], pytest.approx(20, rel=0.01))],
    ids=["never below", "never above", "one missing"],
)
def test_crossing_where_there_is_none_or_a_gap(shares: list[float], expected: Any) -> None:
    sizes = [10.0, 15.0, 40.0]
    if expected is not None:
        expected = pytest.approx(10 * 4 ** (math.log(3) / math.log(9)))
    assert crossing_size(sizes, shares, 0.3) == expected


def test_size_sweep_names_the_size_at_which_latency_ends() -> None:
    sizes = [8, 16, 32, 64, 128, 256, 512, 1024]
    figure = swept([point("gemm", n) for n in sizes])
    table = figure.table
    crossing = table[table["kind"] == "crossover"]["size"].item()
    shares = {n: point("gemm", n)["fraction"] for n in sizes}
    assert max(n for n in sizes if shares[n] < 0.3) < crossing < min(n for n in sizes if shares[n] >= 0.3)
    assert f"latency-bound below size {float(f'{crossing:.1e}'):.0f}" in word(figure, "title")
    panel = figure.axes[0]
    shaded = next(a for a in panel.patches if a.get_label() == "latency-bound")
    assert shaded.get_extents().x1 == pytest.approx(panel.transData.transform((crossing, 1))[0], abs=0.5)


def test_the_title_of_one_kernels_precisions_names_it_once() -> None:
    rows = [point("gemm", n, precision) for n in (8, 16, 32, 64, 128, 256, 512, 1024) for precision in ("fp64", "fp32")]
    figure = swept(rows)
    ends = figure.table[figure.table["kind"] == "crossover"].set_index("panel")["size"]
    low, high = (f"{ends[name]:.0f}" for name in ("gemm fp64", "gemm fp32"))
    assert figure.headline == f"gemm is latency-bound below size {low} in fp64 and {high} in fp32"
    several = swept([*rows, *(point("gemv", n) for n in (64, 512, 4096))])
    assert several.headline.startswith(f"Latency-bound below size {low} (gemm fp64), {high} (gemm fp32)")


def test_the_share_that_counts_as_latency_bound_can_be_chosen() -> None:
    rows = [point("gemm", n) for n in (8, 32, 128, 512)]
    low, high = (
        swept(rows, latency_share=share).table.query("kind == 'crossover'")["size"].item() for share in (0.1, 0.6)
    )
    assert low < high


def test_three_bounds_stand_over_every_size() -> None:
    table = swept([point("gemm", n) for n in (16, 256, 4096)]).table
    points = table[table["kind"] == "point"].set_index("size")
    for n in (16, 256, 4096):
        row = point("gemm", n)
        assert points.loc[n, "launch_per_s"] == pytest.approx(row["flops"] / LAUNCH_S)
        assert points.loc[n, "bandwidth_per_s"] == pytest.approx(row["intensity_flop_per_byte"] * DRAM)
        assert points.loc[n, "compute_per_s"] == pytest.approx(FP32)
        assert points.loc[n, "roof_per_s"] == pytest.approx(row["attainable_per_s"])
        assert points.loc[n, "rate_low_per_s"] < points.loc[n, "rate_per_s"] < points.loc[n, "rate_high_per_s"]


def test_the_bounds_are_in_sight_or_named_as_above() -> None:
    seen = swept([point("gemm", n) for n in (256, 1024)])
    top = seen.axes[0].get_ylim()[1]
    points = seen.table.query("kind == 'point'")
    assert points["launch_per_s"].min() < top
    assert points["bandwidth_per_s"].min() < top
    far = swept([point("gemm", n) for n in (4096, 8192)])
    assert "Above the figure for gemm fp32: launch" in word(far, "footnote")


def test_copy_is_swept_in_bytes_per_second() -> None:
    figure = swept([point("copy", 2**n) for n in (8, 14, 20, 26)])
    assert figure.axes[0].get_ylabel() == "B/s"
    points = figure.table.query("kind == 'point'")
    assert points["bandwidth_per_s"].unique() == pytest.approx([DRAM])
    assert points["compute_per_s"].isna().all()


def test_kernels_and_precisions_have_panels_and_those_without_room_are_named() -> None:
    rows = [point(kernel, n, p) for kernel in ("gemm", "gemv", "copy") for p in ("fp32", "fp64") for n in (64, 512)]
    assert len(panels(swept(rows))) == 6
    narrow = swept(rows, COLUMN)
    assert len(panels(narrow)) == 4
    assert "Without room: copy fp32 and copy fp64" in word(narrow, "footnote")


def test_series_of_one_kernel_share_a_panel_by_name() -> None:
    rows = [point("gemm", n, best=t / 40, **{"param.tile": t}) for t in (8, 16, 32) for n in (64, 256, 1024)]
    figure = swept(rows)
    assert len(panels(figure)) == 1
    assert {text.get_text() for text in words(figure, "point-label")} == {"tile=8", "tile=16", "tile=32"}


@STYLES
def test_words_of_a_size_sweep_do_not_overlap(settings: FiguresConfig) -> None:
    figure = swept([point(k, 2**n, p) for k in ("gemm", "saxpy") for p in ("fp32", "fp64") for n in range(3, 12)])
    figure.draw_without_rendering()
    for each in figure.axes:
        boxes = [(text.get_text(), corners(text)) for text in each.texts]
        assert boxes
        for (first, a), (second, b) in combinations(boxes, 2):
            assert not cover(a, b), f"{first!r} covers {second!r}"


def test_size_sweep_svg_names_every_point(tmp_path: Path) -> None:
    rows = [point("gemm", n) for n in (64, 256, 1024)]
    swept(rows).save(tmp_path / "sweep")
    root = ElementTree.parse(tmp_path / "sweep.svg").getroot()
    named = [g.get("id") for g in root.iter(f"{SVG}g") if g.find(f"{SVG}title") is not None]
    assert [gid for gid in named if str(gid).startswith("point-")] == ["point-0", "point-1", "point-2"]
