"""The ridge that moves: where it stood, which kernels it passes, and the figure, on made-up sweeps of an H200."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pandas
import pytest
from made_h200 import HELD_HZ, duty_sweep, gemm, h200, with_sustained
from made_points import COLUMN, PAPER, SCREEN, point, roofs

from roofexp.figures.canvas.frame import prepared, with_flops
from roofexp.figures.canvas.marks import spread, within
from roofexp.figures.kinds.ridge_shift import draw_ridge_shift
from roofexp.figures.kinds.ridges import MOST_STAGES, crossings, moved, ridges
from roofexp.records.machine import RoofSet

STYLES = pytest.mark.parametrize("settings", [SCREEN, PAPER, COLUMN], ids=["screen", "paper", "column"])


def frame(rows: list[dict[str, Any]]) -> Any:
    return with_flops(prepared(pandas.DataFrame(rows)))


def threads() -> tuple[list[dict[str, Any]], list[RoofSet]]:
    """One CPU with one, two and four threads: bandwidth and compute grow, not by the same factor."""
    rows, sets = [], []
    for count, wide, fast in ((1, 0.30, 0.25), (2, 0.55, 0.50), (4, 0.90, 1.0)):
        base = roofs(f"cpu{count}")
        scaled = [
            msgspec.structs.replace(roof, rate=roof.rate * (fast if roof.kind == "compute" else wide))
            for roof in base.roofs
        ]
        machine = msgspec.structs.replace(base.machine, units=count)
        sets.append(msgspec.structs.replace(base, machine=machine, roofs=scaled))
        rows += [point(name, n, machine_id=f"cpu{count}") for name, n in (("gemm", 512), ("saxpy", 2**24))]
    return rows, sets


def test_each_held_clock_has_its_ridge_in_order() -> None:
    found = ridges(frame(duty_sweep()), [h200()])
    assert [ridge.number for ridge in found] == list(range(1, len(found) + 1))
    assert [ridge.compute_hz for ridge in found] == sorted(ridge.compute_hz for ridge in found)
    compute, bandwidth = h200().compute("bf16"), h200().bandwidth("dram")
    assert compute
    assert bandwidth
    for ridge in found:
        assert ridge.intensity == pytest.approx(compute.at(ridge.compute_hz) / bandwidth.rate)
    assert found[0].compute_hz == HELD_HZ[1.0]
    assert found[0].asked == "duty 1" or found[0].asked == "duty 1.0"
    assert "duty 0.3" in found[-1].asked  # clocks within one per cent share a ridge


def test_the_clock_is_that_of_points_past_the_ridge() -> None:
    found = ridges(frame(duty_sweep()), [h200()])
    assert max(ridge.compute_hz for ridge in found) < 1.7e9  # the matrix-vector product held 1.975 GHz


def test_burst_and_sustained_are_ridges_of_their_own() -> None:
    found = ridges(frame(duty_sweep()), [with_sustained()])
    assert {ridge.what for ridge in found} == {"held", "burst", "sustained"}
    low = next(ridge for ridge in found if ridge.what == "sustained")
    assert low.compute == pytest.approx(0.985 * 4057.08 * 132 * 1.40e9, rel=1e-3)


def test_many_clocks_are_put_together() -> None:
    rows = [gemm(8192, hz=(1.2 + 0.01 * i) * 1e9, best=0.95) for i in range(60)]
    found = ridges(frame(rows), [h200()])
    assert 2 <= len(found) <= MOST_STAGES


def test_kernels_between_the_ridges_change_side() -> None:
    rows = frame(duty_sweep((512, 8192)))
    found = ridges(rows, [h200()])
    names = [f"{row['kernel']} {row['size']}" for _, row in rows.iterrows()]
    sides = {each.name.split(".")[0]: (each.side, each.turns_at) for each in crossings(rows, found, names)}
    assert sides["gemm 512"][0] == "both"
    compute = h200().compute("bf16")
    bandwidth = h200().bandwidth("dram")
    assert compute
    assert bandwidth
    turn = 2 * 512 / 6 * bandwidth.rate / compute.rate * (compute.compute_hz or 0)
    assert sides["gemm 512"][1] == pytest.approx(turn, rel=0.01)
    assert sides["gemm 8192"] == ("compute", None)
    assert sides["gemv 4096"] == ("bandwidth", None)


def test_only_a_kernel_measured_on_both_sides_changes_its_side() -> None:
    """One that the ridges of others pass stayed on its side at every clock that it held itself."""
    low, high = gemm(8192, hz=1.36e9), gemm(8192, hz=1.8e9)
    compute, bandwidth = h200().compute("bf16"), h200().bandwidth("dram")
    assert compute
    assert bandwidth

    def between(hz: float) -> dict[str, Any]:
        row = gemm(520, hz=hz)
        return row | {"kernel": "gemm_update", "ridge_flop_per_byte": compute.at(hz) / bandwidth.rate}

    def headline(*rows: dict[str, Any]) -> str:
        figure = draw_ridge_shift(pandas.DataFrame([low, high, *rows]), [h200()], SCREEN)
        assert figure
        return str(figure.headline)

    passed = headline(between(1.75e9), between(1.8e9))
    assert ", past gemm_update" in passed
    assert "change" not in passed
    assert "gemm_update changes side" in headline(between(1.36e9), between(1.8e9))


def test_threads_take_the_place_of_clocks() -> None:
    rows, sets = threads()
    found = ridges(frame(rows), sets)
    assert [(ridge.number, ridge.stage) for ridge in found] == [(1, 1.0), (2, 2.0), (3, 4.0)]
    assert moved(found) == ["fp32"]
    figure = draw_ridge_shift(pandas.DataFrame(rows), sets, SCREEN)
    assert figure
    assert "between 1 thread and 4 threads" in figure.headline
    assert figure.table is not None
    assert set(figure.table["threads"].dropna()) == {"1", "2", "4"}


def test_kernels_counted_at_another_level_have_no_ridge_here() -> None:
    rows = [*duty_sweep((512, 8192)), gemm(256, hz=1.6e9, level="l2", clock_mode="duty")]
    found = ridges(frame(rows), [h200()])
    assert {ridge.level for ridge in found} == {"dram"}
    figure = draw_ridge_shift(pandas.DataFrame(rows), [h200()], SCREEN)
    assert figure
    note = next(text for text in figure.texts if text.get_label() == "footnote").get_text()
    assert "points whose traffic crosses another level (1)" in " ".join(note.split())


def test_one_ridge_that_stays_is_no_figure() -> None:
    rows = [gemm(n, hz=1.6e9) for n in (1024, 4096)]
    assert draw_ridge_shift(pandas.DataFrame(rows), [h200()], SCREEN) is None
    assert draw_ridge_shift(pandas.DataFrame(rows), [], SCREEN) is None


def jittery(*hz: float, flags: str | None = None, **changes: Any) -> list[dict[str, Any]]:
    return [gemm(8192, hz=each, best=0.95, flags=flags, **changes) for each in hz]


@pytest.mark.parametrize("flags", ["clock moved", "noisy; machine not quiet"])
def test_a_clock_that_only_jitters_moves_no_ridge(flags: str) -> None:
    assert draw_ridge_shift(pandas.DataFrame(jittery(1.5e9, 1.6e9, flags=flags)), [h200()], SCREEN) is None
    one_steady = [*jittery(1.5e9, flags=flags), *jittery(1.6e9)]
    assert draw_ridge_shift(pandas.DataFrame(one_steady), [h200()], SCREEN) is None
    (ridge,) = ridges(frame(one_steady), [h200()])
    assert ridge.compute_hz == 1.6e9
    two = pandas.DataFrame([*jittery(1.5e9, 1.6e9, flags=flags), *jittery(1.5e9, 1.6e9, precision="fp16", flags=flags)])
    figure = draw_ridge_shift(two, [h200()], SCREEN)  # two precisions have two ridges, and neither has moved
    assert figure
    assert "lies between" in figure.headline


def test_the_clock_of_a_cpu_moves_a_ridge_only_where_it_was_asked_to() -> None:
    cpu = msgspec.structs.replace(h200(), machine=msgspec.structs.replace(h200().machine, device="cpu"))
    assert draw_ridge_shift(pandas.DataFrame(jittery(3.04e9, 3.14e9)), [cpu], SCREEN) is None
    asked = [row | {"clock_asked": f"duty {row['compute_hz']:g}"} for row in jittery(3.04e9, 3.24e9)]
    assert draw_ridge_shift(pandas.DataFrame(asked), [cpu], SCREEN)


def test_clocks_that_were_held_or_asked_for_move_it() -> None:
    held = draw_ridge_shift(pandas.DataFrame(jittery(1.5e9, 1.6e9)), [h200()], SCREEN)
    assert held
    assert "between 1.5 GHz and 1.6 GHz" in held.headline
    rows = [
        row | {"clock_asked": f"locked {row['compute_hz'] / 1e6:.0f} MHz"}
        for row in jittery(1.5e9, 1.6e9, flags="clock moved", clock_mode="locked")
    ]
    assert draw_ridge_shift(pandas.DataFrame(rows), [h200()], SCREEN)


def test_several_precisions_are_a_figure_without_a_path() -> None:
    rows = [gemm(4096, precision, hz=1.6e9) for precision in ("fp64", "fp32", "bf16")]
    figure = draw_ridge_shift(pandas.DataFrame(rows), [h200()], SCREEN)
    assert figure
    assert figure.headline.startswith("The ridge lies between ")
    assert [each.get_label() for each in figure.axes if each.get_label().startswith("map")] == []


@STYLES
def test_words_stay_apart_and_files_are_written(tmp_path: Path, settings: Any) -> None:
    figure = draw_ridge_shift(pandas.DataFrame(duty_sweep()), [with_sustained()], settings)
    assert figure
    figure.draw_without_rendering()
    for axes in figure.axes:
        texts = [t for t in axes.texts if t.get_label() in ("roof-label", "kernel-label", "badge", "clock-label")]
        upright = [t for t in texts if t.get_rotation() in (0, 90)]
        for first, second in combinations(upright, 2):
            a, b = (each.get_window_extent().padded(-1) for each in (first, second))
            assert not a.overlaps(b), (first.get_text(), second.get_text())
    assert all(file.stat().st_size > 500 for file in figure.save(tmp_path / "ridge_shift"))


def test_table_has_ridges_and_both_clocks() -> None:
    figure = draw_ridge_shift(pandas.DataFrame(duty_sweep()), [with_sustained()], SCREEN)
    assert figure
    table = figure.table
    assert table is not None
    rows = table[table["kind"] == "ridge"]
    expected = rows["flops_per_s"] / rows["bandwidth_bytes_per_s"]
    assert rows["intensity_flop_per_byte"].tolist() == pytest.approx(expected.tolist())
    assert {"what", "clock_asked", "compute_hz", "nvml_sm_hz", "precision", "roof"} <= set(rows.columns)
    clocks = table[table["kind"] == "clock"]
    assert set(clocks["source"]) == {"cycle counter", "NVML"}
    assert "above the SMs' own cycle counters" in " ".join(
        next(t for t in figure.texts if t.get_label() == "footnote").get_text().split()
    )


def test_badges_keep_their_distance_and_their_order() -> None:
    found = spread([0.0, 0.1, 0.2, 5.0], 1.0)
    assert found == pytest.approx([-0.9, 0.1, 1.1, 5.0])
    assert within(found, 1.0, [4.0] * 4, [0.0] * 4) == pytest.approx([0.0, 1.0, 2.0, 4.0])
