"""Two sweeps compared: nothing is found where nothing changed, what changed is found, and a clock is no code."""

from __future__ import annotations

import csv
import json
import math
import random
from pathlib import Path

import msgspec
import pytest

from roofexp.commands import run_command
from roofexp.commands.compare import share
from roofexp.compare.comparison import compare
from roofexp.compare.difference import Thresholds
from roofexp.compare.matching import match
from roofexp.compare.significance import (
    autocorrelation_time,
    change,
    combined,
    estimate,
    estimate_from_interval,
    holm,
    repeatability,
)
from roofexp.compare.table import closing, heading
from roofexp.errors import BadInputError
from roofexp.records.point import Clock
from tests.compared_sweeps import again, failed, flagged, made, quiet, recorded, side, sweep_of, written

TRIES = 20


def test_two_sweeps_of_the_same_thing_differ_in_nothing_20_times_over() -> None:
    series = recorded()
    for number in range(TRIES):
        draw = random.Random(number)
        runs = [
            side(name, [renumbered(point, i) for i, (point, _) in enumerate(series)],
                 {i: again(times, draw) for i, (_, times) in enumerate(series)})
            for name in ("first", "second")
        ]  # fmt: skip
        found = compare(*runs, Thresholds())
        assert [each.label for each in found.changed] == []
        assert len(found.differences) == len(series)


def test_the_two_halves_of_every_recorded_run_differ_in_nothing() -> None:
    """No resampling here: what the machine really did in between, drifts and changes of state included."""
    series = recorded()
    points = [renumbered(point, i) for i, (point, _) in enumerate(series)]
    first = {i: times[: len(times) // 2] for i, (_, times) in enumerate(series)}
    second = {i: times[len(times) // 2 :] for i, (_, times) in enumerate(series)}
    assert compare(side("first", points, first), side("second", points, second), Thresholds()).changed == []


def test_a_planted_slowdown_of_three_percent_is_found_20_times_of_20() -> None:
    """On every long recorded series whose median is known as well as the runner wants to know it."""
    series = [(point, times) for point, times in recorded() if known_well(times)]
    assert len(series) >= 8
    for point, times in series:
        for number in range(TRIES):
            draw = random.Random(number)
            slowed = [1.03 * value for value in again(times, draw)]
            found = compare(
                side("before", [renumbered(point, 0)], {0: again(times, draw)}),
                side("after", [renumbered(point, 0)], {0: slowed}),
                Thresholds(),
            )
            assert found.differences[0].verdict == "slower", (point.label, point.cache_state, number)


def known_well(times: list[float]) -> bool:
    """The runner stops at 0.5 % for half the 95 % interval: twice this error."""
    return len(times) >= 100 and estimate(times).error < 0.0025


def renumbered(point, job: int):
    """With a size of its own, so that series of one configuration stay apart."""
    return msgspec.structs.replace(point, job=job, size=1000 + job, shape={})


def test_the_error_of_a_median_is_that_of_its_bootstrap() -> None:
    times = quiet(1.0, 41, noise=0.02)
    draw = random.Random(7)
    medians = sorted(sorted(draw.choices(times, k=41))[20] for _ in range(4000))
    centre = sum(medians) / len(medians)
    scatter = math.sqrt(sum((value - centre) ** 2 for value in medians) / len(medians))
    assert estimate(times).error * estimate(times).median_s == pytest.approx(
        scatter * math.sqrt(41 / estimate(times).independent), rel=0.05
    )


def test_correlated_samples_say_less() -> None:
    draw = random.Random(3)
    independent = [draw.random() for _ in range(400)]
    drifting = [i / 400 + 0.1 * draw.random() for i in range(400)]
    assert autocorrelation_time([float(value < 0.5) for value in independent]) < 2
    assert autocorrelation_time([float(value < 0.55) for value in drifting]) > 50
    assert estimate([1 + value for value in drifting]).independent < 10


def test_equal_samples_and_coarse_timers_have_an_error_all_the_same() -> None:
    assert estimate([2.0] * 10).error == 0
    coarse = estimate([10.0, 10.5] * 5 + [10.0] * 10)
    assert coarse.error >= 0.5 / math.sqrt(12) / 10.5
    assert change(estimate([2.0] * 5), estimate([2.0] * 5), 0.01).p_value == 1
    assert change(estimate([2.0] * 5), estimate([3.0] * 5), 0.01).p_value == 0


def test_one_sample_proves_nothing() -> None:
    assert change(estimate([1.0]), estimate([5.0]), 0.01).p_value == 1
    found = compare(sweep_of("a", [("gemm", [1.0], {})]), sweep_of("b", [("gemm", [5.0], {})]), Thresholds())
    assert found.differences[0].verdict == "unresolved"
    json.loads(msgspec.json.encode(found))
    assert math.isfinite(found.differences[0].high)


def test_holm_rejects_step_by_step() -> None:
    assert holm([0.001, 0.2, 0.004, 0.03], 0.05) == [True, False, True, False]
    assert holm([], 0.05) == []


def test_without_samples_the_recorded_interval_is_taken() -> None:
    assert estimate_from_interval(1.0, 0.99, 1.01, 30).error == pytest.approx(0.02 / 3.92)
    found = compare(side("a", [made("gemm", quiet(1.0))]), side("b", [made("gemm", quiet(1.2, seed=2))]), Thresholds())
    assert found.differences[0].verdict == "slower"


def test_repeated_runs_measure_the_floor() -> None:
    runs = [("gemm", quiet(time_s, seed=i), {}) for i, time_s in enumerate((1.0, 1.04, 0.99))]
    found = compare(sweep_of("a", runs), sweep_of("b", [("gemm", quiet(1.03, seed=9), {})]), Thresholds())
    assert found.measured_floor == pytest.approx(0.05, abs=0.01)
    assert found.differences[0].verdict == "unresolved"
    assert found.differences[0].a.runs == 3
    assert "measured from repeated runs" in closing(found)[-1]
    assert repeatability([[estimate([1.0] * 5)]]) is None
    assert combined([estimate(quiet(1.0)), estimate(quiet(1.1))]).error > 0.04


def test_further_sweeps_of_the_same_thing_measure_the_floor() -> None:
    a, b = sweep_of("a", [("gemm", quiet(1.0), {})]), sweep_of("b", [("gemm", quiet(1.03, seed=2), {})])
    assert compare(a, b, Thresholds()).differences[0].verdict == "slower"
    repeat = sweep_of("again", [("gemm", quiet(1.05, seed=3), {})])
    found = compare(a, b, Thresholds(), repeats=[repeat])
    assert found.differences[0].verdict != "slower"
    assert found.floor == pytest.approx(0.05, abs=0.005)


def at_clock(ghz: float, cycles: float, seed: int) -> tuple[str, list[float], dict]:
    """A GEMM on its roof that takes so many cycles (in 1e9), at that clock."""
    return "gemm", quiet(cycles / ghz * 0.0023, seed=seed), {"hz": ghz * 1e9}


def test_a_fallen_clock_is_no_slower_code() -> None:
    found = compare(sweep_of("a", [at_clock(1.98, 2.0, 1)]), sweep_of("b", [at_clock(1.74, 2.0, 2)]), Thresholds())
    only = found.differences[0]
    assert only.verdict == "slower by the clock"
    assert only.cycles_ratio == pytest.approx(1.0, abs=0.003)
    assert only.message.startswith("slower in time, equal in cycles")
    assert only.message.endswith("the clock fell from 1.98 GHz to 1.74 GHz")
    assert found.changed == []


def test_a_risen_clock_hides_no_slower_code() -> None:
    found = compare(sweep_of("a", [at_clock(1.74, 2.0, 1)]), sweep_of("b", [at_clock(1.98, 2.276, 2)]), Thresholds())
    assert found.differences[0].verdict == "slower in cycles"
    assert "equal in time" in found.differences[0].message
    assert found.changed


def test_slower_code_at_a_fallen_clock_is_slower_code() -> None:
    found = compare(sweep_of("a", [at_clock(1.98, 2.0, 1)]), sweep_of("b", [at_clock(1.94, 2.2, 2)]), Thresholds())
    assert found.differences[0].verdict == "slower"
    assert "in cycles +" in found.differences[0].message


def test_a_clock_explains_nothing_where_memory_binds() -> None:
    a, b = sweep_of("a", [("dot", quiet(3e-4), {"hz": 1.98e9})]), sweep_of("b", [("dot", quiet(3.3e-4), {"hz": 1.8e9})])
    assert compare(a, b, Thresholds()).differences[0].verdict == "slower"
    assert compare(a, b, Thresholds()).differences[0].cycles_ratio is None


def test_disturbed_points_need_more() -> None:
    a, b = sweep_of("a", [("gemm", quiet(1.0), {})]), sweep_of("b", [("gemm", quiet(1.04, seed=2), {})])
    assert compare(a, b, Thresholds()).differences[0].verdict == "slower"
    b.points[0] = flagged(b.points[0], "machine not quiet")
    found = compare(a, b, Thresholds())
    assert found.differences[0].verdict == "unresolved"
    assert any("were disturbed" in note for note in found.notes)


def test_what_moved_all_at_once_is_said() -> None:
    kernels = [("gemm", {}), ("dot", {}), ("copy", {}), ("gemm", {"cache_state": "hot"})]
    a = sweep_of("a", [(kernel, quiet(1.0), changes) for kernel, changes in kernels])
    b = sweep_of("b", [(kernel, quiet(1.06, seed=2), changes) for kernel, changes in kernels])
    assert any("moved the same way" in note for note in compare(a, b, Thresholds()).notes)


@pytest.mark.parametrize(
    ("changes", "telling"),
    [
        ({"precision": "bf16"}, ["precision: A fp32, B bf16", "--across precision"]),
        ({"cache_state": "hot"}, ["cache: A cold, B hot", "--across cache"]),
        ({"fill": "zeros"}, ["fill: A normal, B zeros"]),
        ({"machine_id": "gpu-other"}, ["machine: A gpu-0123456789, B gpu-other"]),
        ({"clock_mode": "locked", "clock": Clock(compute_hz=1e9, asked="1000 MHz")}, ["clock", "locked (1000 MHz)"]),
        ({"cache_state": "hot", "precision": "bf16"}, ["--across precision,cache"]),
        ({"kernel": "dot"}, ["no point of A has its like in B", "gemm 4096 fp32", "--across kernel"]),
    ],
)
def test_what_is_not_comparable_is_refused(changes: dict, telling: list[str]) -> None:
    other = msgspec.structs.replace(made("gemm", quiet(1.0)), **changes)
    with pytest.raises(BadInputError) as refused:
        match([made("gemm", quiet(1.0))], [other])
    assert "\n" not in str(refused.value)
    for text in telling:
        assert text in str(refused.value)


def test_what_is_not_comparable_is_compared_when_told_to() -> None:
    other = made("gemm", quiet(0.9), precision="bf16", cache_state="hot")
    found = match([made("gemm", quiet(1.0))], [other], ["precision", "cache"])
    assert len(found.pairs) == 1
    b = side("b", [other])
    only = compare(side("a", [made("gemm", quiet(1.0))]), b, Thresholds(), ["precision", "cache"]).differences[0]
    assert only.differs == {"precision": ["fp32", "bf16"], "cache": ["cold", "hot"]}


def test_several_with_several_is_a_guess() -> None:
    a = [made("gemm", quiet(1.0), i, params={"tile": i}) for i in range(2)]
    b = [made("gemm", quiet(1.0), i, params={"tile": i + 2}) for i in range(2)]
    with pytest.raises(BadInputError, match="which is to be compared with which"):
        match(a, b, ["params"])
    assert len(match(a, b[:1], ["params"]).pairs) == 2


def test_one_sweep_compared_with_itself_across_kernels() -> None:
    points = [made("gemm", quiet(1.0), 0), made("dot", quiet(2.0), 1)]
    with pytest.raises(BadInputError, match="A and B are one sweep"):
        match(points, points, itself=True)
    pairs = match(points, points, ["kernel"], itself=True).pairs
    assert [(pair.a[0].kernel, pair.b[0].kernel) for pair in pairs] == [("gemm", "dot")]


def test_what_has_no_partner_is_listed() -> None:
    a = side("a", [made("gemm", quiet(1.0), 0), made("dot", quiet(1.0), 1), made("copy", quiet(1.0), 2)])
    b = side("b", [made("gemm", quiet(1.0), 5), failed("dot", 6), made("copy", quiet(1.0), 7, cache_state="hot")])
    found = compare(a, b, Thresholds())
    assert [each.label for each in found.only_a] == ["dot 4096 fp32", "copy 4096 fp32"]
    assert found.only_b[0].reason == "failed: wrong result"
    assert any("1 more would have a partner by --across cache" in note for note in found.notes)
    assert any("only in B: dot 4096 fp32 (failed: wrong result)" in line for line in closing(found))
    assert heading(found)[0].startswith("A  a")


def test_a_sweep_without_a_measured_point_is_refused() -> None:
    with pytest.raises(BadInputError, match="B has no measured point"):
        match([made("gemm", quiet(1.0))], [failed("gemm", 0)])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    kernels = ("gemm", "dot", "copy")
    a = sweep_of("a", [(kernel, quiet(0.003), {}) for kernel in kernels])
    slower = {"gemm": 1.0, "dot": 1.4, "copy": 0.8}
    b = sweep_of("b", [(kernel, quiet(0.003 * slower[kernel], seed=2), {}) for kernel in kernels])
    return written(tmp_path / "monday", a), written(tmp_path / "tuesday", b)


def test_the_command_says_and_writes_what_it_found(folders: tuple[Path, Path], capsys) -> None:
    a, b = folders
    assert run_command("compare", [str(a), str(b)]) == 0
    said = capsys.readouterr().out
    assert "1 slower, 1 faster, 1 unchanged of 3" in said
    assert said.index("dot 4096 fp32") < said.index("copy 4096 fp32")
    assert "Holm" in said
    output = b / "comparison_monday"
    assert json.loads((output / "comparison.json").read_text())["a"] == "monday"
    rows = list(csv.DictReader((output / "comparison.csv").open()))
    assert {row["kernel"]: row["verdict"] for row in rows} == {"gemm": "unchanged", "dot": "slower", "copy": "faster"}
    svg = (output / "comparison_roofline.svg").read_text()
    assert "dot 4096 fp32" in svg
    assert "<title>" in svg
    drawn = list(csv.DictReader((output / "comparison_roofline.csv").open()))
    assert {row["end"] for row in drawn if row["kind"] == "arrow"} == {"A", "B"}
    assert sum(row["kind"] == "change" for row in drawn) == 3


def test_exit_codes(folders: tuple[Path, Path], tmp_path: Path, capsys) -> None:
    a, b = map(str, folders)
    assert run_command("compare", [a, b, "--no-files", "--fail-on-slower", "50%"]) == 0
    assert run_command("compare", [a, b, "--no-files", "--fail-on-slower", "3 %"]) == 1
    assert run_command("compare", [a, str(tmp_path / "nowhere"), "--no-files"]) == 2
    assert run_command("compare", [a, b, "--across", "nothing", "--no-files"]) == 2
    (tmp_path / "empty").mkdir()
    assert run_command("compare", [a, str(tmp_path / "empty")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-3].startswith("roofexp.compare:")
    assert "no such folder" in said[-3]
    assert "allowed: machine, precision" in said[-2]
    assert "no points in it" in said[-1]


def test_json_goes_where_it_is_sent(folders: tuple[Path, Path], tmp_path: Path, capsys) -> None:
    a, b = map(str, folders)
    assert run_command("compare", [a, b, "--json", "-", "--no-files"]) == 0
    assert len(json.loads(capsys.readouterr().out)["differences"]) == 3
    assert run_command("compare", [a, b, "--csv", str(tmp_path / "new/table.csv"), "--no-files"]) == 0
    assert len((tmp_path / "new/table.csv").read_text().splitlines()) == 4


def test_shares_are_written_as_people_write_them() -> None:
    assert share("3%") == share("3 %") == share("0.03") == pytest.approx(0.03)


def test_runs_are_found_by_their_mlflow_id(folders: tuple[Path, Path], tmp_path: Path, monkeypatch, capsys) -> None:
    """A sweep's run, and the run of a point for its sweep; their folders are not among the outputs."""
    from roofexp.tracking import open_store

    (tmp_path / "store").mkdir()
    uri = f"sqlite:///{tmp_path}/store/mlflow.db"
    tracker = open_store("sqlite", uri, "roofexp", tmp_path / "store")
    tracker.mirror(folders[0])
    first = tracker.runs.search({"roofexp.sweep_id": "monday", "roofexp.kind": "sweep"})[0].info.run_id
    second = tracker.runs.search({"roofexp.sweep_id": "monday", "roofexp.kind": "point"})[0].info.run_id
    monkeypatch.chdir(tmp_path)
    assert run_command("compare", [first, second, "--uri", uri, "--no-files"]) == 0
    assert "3 unchanged of 3" in capsys.readouterr().out
    assert run_command("compare", ["0" * 32, str(folders[1]), "--uri", uri]) == 2
    assert "not in sqlite" in capsys.readouterr().err
