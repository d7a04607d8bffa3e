"""A sweep measured again: what agrees, what has a cause, what differs, and what a person is told."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roofexp.commands import run_command
from roofexp.commands.reproduce import read_side
from roofexp.compare.agreement import Agreement, PlacedSweep, Tolerance, agreement, agreement_line, describe
from roofexp.config.plain import plain
from roofexp.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.records.archive import pack, read_configs, read_sweep_points
from roofexp.records.point import Flag, write_point
from roofexp.run.resume import typed_config
from tests.conftest import QUICK
from tests.counted_sweep import make_sweep

JOBS = (["kernel=vadd"], ["kernel=gemm", "precision=bf16", "size=4096"], ["kernel=softmax", "precision=bf16"])


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sweep(tmp_path_factory.mktemp("original") / "sweep", *JOBS)


@pytest.fixture(scope="module")
def side(original: Path) -> PlacedSweep:
    return read_side(original)


def changed(side: PlacedSweep, job: int = 0, factor: float = 1.0, **changes: Any) -> PlacedSweep:
    """The same sweep with one point that came out ``factor`` times as fast."""
    point = side.points[job]
    assert point.placement
    assert point.placement.fraction
    assert point.timing
    values: dict[str, Any] = {
        "placement": msgspec.structs.replace(point.placement, fraction=point.placement.fraction * factor),
        "timing": msgspec.structs.replace(point.timing, median_s=point.timing.median_s / factor),
    }
    new = msgspec.structs.replace(point, **(values | changes))
    return msgspec.structs.replace(side, points={**side.points, job: new})


def compared(old: PlacedSweep, new: PlacedSweep, **tolerance: float) -> Agreement:
    return agreement(old, new, old.points, Tolerance(**tolerance))


def test_the_same_sweep_agrees(side: PlacedSweep) -> None:
    result = compared(side, side)
    assert result.holds
    assert [row.verdict for row in result.rows] == ["agrees"] * 3
    assert (result.median, result.worst) == (0, 0)
    assert all(row.basis == "fraction" and row.time_difference == 0 for row in result.rows)


def test_a_point_that_came_out_differently_differs(side: PlacedSweep) -> None:
    result = compared(side, changed(side, factor=0.9))
    assert not result.holds
    assert result.rows[0].verdict == "differs"
    assert result.rows[0].difference == pytest.approx(-0.1)
    assert result.rows[0].time_difference == pytest.approx(1 / 0.9 - 1)
    assert compared(side, changed(side, factor=0.9), point=0.2).holds
    assert compared(side, changed(side, factor=0.96)).holds


@pytest.mark.parametrize("name", ["noisy", "throttled", "clock moved", "drifting"])
def test_a_flag_explains_a_difference(side: PlacedSweep, name: str) -> None:
    result = compared(side, changed(side, factor=0.9, flags=[Flag(name, "why")]))
    assert result.rows[0].verdict == "explained"
    assert result.rows[0].note == f"{name} now"
    assert result.holds


def test_other_flags_explain_nothing(side: PlacedSweep) -> None:
    assert compared(side, changed(side, factor=0.9, flags=[Flag("above a roof", "why")])).rows[0].verdict == "differs"


def test_flags_do_not_excuse_the_median(side: PlacedSweep) -> None:
    noisy = [Flag("noisy", "why")]
    new = changed(changed(side, 0, 0.9, flags=noisy), 1, 0.9, flags=noisy)
    assert {row.verdict for row in compared(side, new).rows} == {"explained", "agrees"}
    assert not compared(side, new).holds
    assert compared(side, new, median=0.2).holds


def test_another_machine_is_compared_by_fractions_alone(side: PlacedSweep) -> None:
    slower = changed(side, 0, 0.5, machine_id="gpu-other", placement=side.points[0].placement)
    row = compared(side, slower).rows[0]
    assert (row.verdict, row.basis, row.time_difference) == ("agrees", "fraction", None)


def test_without_roofs_times_are_compared_on_the_same_machine_only(side: PlacedSweep) -> None:
    assert compared(side, changed(side, factor=0.9, placement=None)).rows[0].basis == "time"
    row = compared(side, changed(side, factor=0.9, placement=None, machine_id="gpu-other")).rows[0]
    assert (row.verdict, row.note) == ("not compared", "no roof to compare with; bound by dram then, None now")


def test_counted_and_modelled_traffic_are_compared_by_the_formula(side: PlacedSweep) -> None:
    point = side.points[0]
    assert point.traffic
    assert point.placement
    assert point.placement.fraction
    counted = msgspec.structs.replace(point.traffic, source="counted", bytes=2 * point.traffic.bytes)
    placement = msgspec.structs.replace(point.placement, fraction=2 * point.placement.fraction)
    row = compared(side, changed(side, traffic=counted, placement=placement)).rows[0]
    assert row.difference == pytest.approx(0)
    assert "formula" in row.note


@pytest.mark.parametrize(("status", "verdict"), [("skipped", "not compared"), ("failed", "failed")])
def test_what_was_not_measured_is_said(side: PlacedSweep, status: str, verdict: str) -> None:
    new = changed(side, status=status, reason="does not fit", timing=None, placement=None)
    result = compared(side, new)
    assert (result.rows[0].verdict, result.rows[0].note) == (verdict, f"{status} now: does not fit")
    assert result.holds == (status == "skipped")
    assert f"1 {verdict}" in agreement_line(result)
    assert compared(new, side).rows[0].note == f"{status} then: does not fit"


def test_nothing_compared_is_no_success(side: PlacedSweep) -> None:
    empty = msgspec.structs.replace(side, points={})
    result = compared(side, empty)
    assert not result.holds
    assert agreement_line(result) == "nothing could be compared: 3 not compared"


def test_points_are_told_apart(side: PlacedSweep) -> None:
    point = msgspec.structs.replace(side.points[0], overrides=["case=x", "kernel.params.k=8", "precision=fp32"])
    assert describe(point) == f"{point.label} kernel.params.k=8"


def test_comparing_without_measuring(original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = Path(shutil.copytree(original, tmp_path / "again"))
    assert run_command("reproduce", [str(original), "--measured", str(again)]) == EXIT_OK
    assert "reproduced: 3 agree; median difference 0 %" in capsys.readouterr().out
    rows = list(csv.DictReader((again / "reproduced.csv").open()))
    assert [row["verdict"] for row in rows] == ["agrees"] * 3
    point = read_sweep_points(again)[1]
    assert point.placement
    slow = msgspec.structs.replace(point.placement, fraction=0.5 * (point.placement.fraction or 0))
    write_point(again / "1", msgspec.structs.replace(point, placement=slow))
    assert run_command("reproduce", [str(original), "--measured", str(again)]) == EXIT_POINT_FAILED
    assert run_command("reproduce", [str(original), "--measured", str(again), "--only", "vadd"]) == EXIT_OK


def test_inputs_that_cannot_be_used(original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([str(tmp_path / "nowhere")], [str(original), "--only", "gemv"], [str(original), "--only", "("]):
        assert run_command("reproduce", words) == EXIT_BAD_INPUT
        assert capsys.readouterr().err.count("\n") == 1
    bare = Path(shutil.copytree(original, tmp_path / "bare"))
    (bare / "0/.hydra/config.yaml").unlink()
    assert run_command("reproduce", [str(bare)]) == EXIT_BAD_INPUT
    assert "no stored configuration for 1 points, e.g. vadd" in capsys.readouterr().err


def test_a_stored_configuration_comes_back_as_it_was(original: Path) -> None:
    for config in read_configs(original).values():
        again = plain(typed_config(config, "job 0"))
        assert again | {"tracking": config["tracking"]} == config


def test_a_configuration_of_another_version_is_refused(original: Path) -> None:
    config = read_configs(original)[0] | {"quantum": True}
    with pytest.raises(BadInputError, match=r"job 7: its stored configuration does not fit this version: .*quantum"):
        typed_config(config, "job 7")


def test_a_sweep_is_measured_again_from_its_packed_files(program: Any, sweep_folder: Any, tmp_path: Path) -> None:
    jobs = [[*QUICK, f"kernel={kernel}", "size=1000", "cache=hot"] for kernel in ("copy", "vadd", "softmax_torch")]
    made, packed = make_sweep(tmp_path / "made", *jobs), tmp_path / "published"
    packed.mkdir()
    pack(made, packed)
    done = program("published", "--only", "vadd|torch", bare=True, module="roofexp.reproduce")
    again = sweep_folder()
    assert again.parent.name == "made", done.stdout + done.stderr
    old, (new, skipped) = read_sweep_points(made)[1], read_sweep_points(again)
    assert (new.status, skipped.status) == ("ok", "skipped")
    assert (new.job, new.config_hash, new.work) == (old.job, old.config_hash, old.work)
    assert "1 failed" not in done.stdout
    assert "skipped now: " in done.stdout
    assert done.returncode == EXIT_POINT_FAILED, "no roofs and another machine: nothing can be compared"
    verdicts = [row["verdict"] for row in csv.DictReader((again / "reproduced.csv").open())]
    assert verdicts == ["not compared", "not compared"]
    assert (again / "points.csv").is_file()
