"""Counting a sweep, from the records on disk to the records on disk, under an ncu that is made by the test."""

from __future__ import annotations

import csv
import itertools
import json
import shutil
import time
from pathlib import Path

import pytest
import yaml

from roofexp.counters.counting import CountRequest, count_sweep
from roofexp.ncu import session
from roofexp.ncu.catalogue import request
from roofexp.run.summary import counting_lines
from tests.counted_sweep import make_sweep, points_of
from tests.fake_ncu import FakeNcu
from tests.kernel_cases import CONF

OFFERS = sorted({name.split(".")[0] for name in request("9.0", "diagnosis") if not name.startswith("launch__")})
SAXPY = "kernel=saxpy"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an ncu offers is asked anew in every test, and nothing is found on this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ROOFEXP_CACHE_DIR", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("roofexp.ncu.PLACES", ())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    jobs = [[SAXPY, f"size={size}"] for size in (1024, 2048, 4096, 8192)]
    return make_sweep(tmp_path_factory.mktemp("made") / "sweep", *jobs)


@pytest.fixture
def sweep(tmp_path: Path, made: Path) -> Path:
    return shutil.copytree(made, tmp_path / "sweep")


def fake(tmp_path: Path, **behave: object) -> FakeNcu:
    return FakeNcu(tmp_path / "bin", OFFERS, **behave)


def count(sweep: Path, ncu: FakeNcu | None, **override: object) -> list[str]:
    """What was said while counting."""
    said: list[str] = []
    given = {"ncu": str(ncu.path)} if ncu else {}
    count_sweep(sweep, CountRequest(override={**given, **override}, default="basic", again=True), say=said.append)
    return said


def test_every_point_gets_its_own_counters(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path)
    count(sweep, ncu)
    assert len(ncu.sessions) == 1
    for point in points_of(sweep):
        counted = point.counted
        assert counted is not None
        assert counted.unavailable is None
        assert counted.flops == point.work.flops == 2 * point.size
        assert counted.flops_ratio == 1
        assert counted.dram_bytes == point.work.dram_bytes
        assert (point.traffic.source, point.traffic.level) == ("counted", "dram")
        assert (counted.time_s, counted.sm_hz, counted.memory_hz) == pytest.approx((10e-6, 1.5e9, 3.2e9))
        assert point.timing.median_s == 20e-6  # the event time stays the point's own
        assert counted.fraction == pytest.approx(2 * point.placement.fraction, rel=1e-3)
        assert (counted.passes, counted.registers, counted.ncu_version) == (4, 32, "2025.3.1.0")
        assert [kernel.name for kernel in counted.kernels] == ["saxpy"]
        assert [flag.name for flag in point.flags] == ["profiled time"]  # half of the events'


def test_launches_are_found_by_name_and_not_by_order(sweep: Path, tmp_path: Path) -> None:
    count(sweep, fake(tmp_path, reversed=True))
    assert [point.counted.flops for point in points_of(sweep)] == [2 * 1024, 2 * 2048, 2 * 4096, 2 * 8192]


def test_nothing_is_left_to_defaults_of_ncu(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path)
    count(sweep, ncu)
    words = ncu.sessions[0]
    pairs = dict(itertools.pairwise(words))
    assert pairs["--config-file"] == "off"
    assert pairs["--profile-from-start"] == "off"
    assert pairs["--clock-control"] == "none"
    assert pairs["--cache-control"] == "all"
    assert pairs["--replay-mode"] == "kernel"
    assert pairs["--print-units"] == "base"
    assert "--nvtx" in words
    assert "--export" not in words
    assert "sm__ops_path_tensor_src_bf16_dst_fp32.sum" not in pairs["--metrics"]  # no fp32 point needs it


def test_one_session_for_each_cache_state(tmp_path: Path) -> None:
    jobs = [[SAXPY, f"size={size}", f"cache={state}"] for size in (1024, 2048) for state in ("cold", "hot")]
    sweep, ncu = make_sweep(tmp_path / "sweep", *jobs), fake(tmp_path)
    count(sweep, ncu, level="hierarchy")
    assert [words[words.index("--cache-control") + 1] for words in ncu.sessions] == ["all", "none"]
    by_state = {point.cache_state: point for point in points_of(sweep)}
    assert by_state["hot"].traffic.level == "l2"  # fits: what crossed L2 is what was counted there
    assert by_state["hot"].traffic.bytes == by_state["hot"].counted.l2_bytes
    assert by_state["cold"].intensity_at("l1") == pytest.approx(by_state["cold"].intensity_at("dram") / 2, rel=1e-3)


def test_an_op_of_several_kernels_is_their_sum(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "sweep", ["kernel=silu_then_mul", "size=4096"])
    count(sweep, fake(tmp_path))
    point = points_of(sweep)[0]
    assert [(kernel.name, kernel.launches) for kernel in point.counted.kernels] == [("silu", 1), ("mul", 1)]
    assert point.counted.flops == point.work.flops
    assert point.counted.dram_bytes == 2 * point.work.dram_bytes
    assert point.counted.time_s == pytest.approx(20e-6)
    assert [kernel.time_share for kernel in point.counted.kernels] == pytest.approx([0.5, 0.5])


def test_the_table_of_a_point_is_tidy(sweep: Path, tmp_path: Path) -> None:
    count(sweep, fake(tmp_path))
    rows = list(csv.DictReader((sweep / "1/counters.csv").open()))
    found = {row["metric"]: row for row in rows}
    assert {row["kernel"] for row in rows} == {"saxpy"}
    assert found["gpu__time_duration.sum"] | {"launch": ""} == {
        "launch": "", "kernel": "saxpy", "metric": "gpu__time_duration.sum", "value": "1e-05", "unit": "s",
    }  # fmt: skip


def test_counting_again_gives_the_same_records(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path, ratio=5, excess=3)

    def state() -> list[dict]:
        records = [json.loads(file.read_text()) for file in sorted(sweep.glob("*/point.json"))]
        return [record | {"counted": record["counted"] | {"counting_s": 0}} for record in records]

    count(sweep, ncu)
    first = state()
    count(sweep, ncu)
    assert state() == first
    assert any(flag["name"] == "issued FLOPs" for flag in first[0]["flags"])


def test_what_is_counted_is_not_counted_again_by_a_resumed_sweep(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path)
    wish = CountRequest(override={"ncu": str(ncu.path), "level": "basic"}, phase="sweep")
    assert count_sweep(sweep, wish, say=lambda line: None) == 4
    assert count_sweep(sweep, wish, say=lambda line: None) == 0
    assert len(ncu.sessions) == 1


def test_points_of_a_cpu_or_without_a_time_are_left_alone(sweep: Path, tmp_path: Path) -> None:
    for job, change in (("0", {"device": "cpu"}), ("1", {"status": "failed"})):
        file = sweep / job / "point.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
    count(sweep, fake(tmp_path))
    assert [point.counted is None for point in points_of(sweep)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("behave", "kind", "cure"),
    [
        ({"permission": True}, "permission", "NVreg_RestrictProfilingToAdminUsers=0"),
        ({"says": "cannot open /tmp/nsight-compute-lock: Permission denied"}, "lock", "TMPDIR"),
        ({"says": "==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "code": 9}, "library", "sandbox"),
        ({"says": "==ERROR== Profiling is not supported on device 0"}, "unsupported", "MIG"),
        ({"busy_at": 1024}, "busy", "dcgmi profile --pause"),
        ({"options": ["--nvtx"]}, "unknown option", "2021"),
    ],
)
def test_without_counters_the_cause_and_the_cure_are_said_once(tmp_path, sweep, behave, kind, cure) -> None:
    """NCU-08, NCU-10: the time stays, what is missing is missing and not 0, and ncu is not asked for every point."""
    ncu = fake(tmp_path, **behave)
    count(sweep, ncu)
    points = points_of(sweep)
    for point in points:
        assert point.status == "ok"
        assert point.timing.median_s == 20e-6
        assert point.traffic.source == "modelled"
        assert point.placement is not None
        assert point.counted.unavailable.startswith(f"{kind}: ")
        assert point.counted.flops is None
        assert point.counted.dram_bytes is None
    said = counting_lines(points)
    assert len(said) == 1
    assert said[0].startswith(f"counters none: {kind}: ")
    assert cure in said[0]
    assert said[0].endswith("their traffic is modelled")
    assert len(ncu.calls) <= 3  # version, metrics, one session
    assert not list(sweep.glob("*/counters.csv"))


def test_without_ncu(sweep: Path) -> None:
    count(sweep, None)
    assert all(point.counted.unavailable.startswith("missing: ncu was not found") for point in points_of(sweep))


def test_a_precision_that_the_kernel_has_lost_costs_no_other_point(sweep: Path, tmp_path: Path) -> None:
    """The kernel's YAML may have been shortened since the point was measured."""
    file = sweep / "2" / ".hydra" / "config.yaml"
    config = yaml.safe_load(file.read_text())
    config["kernel"]["precisions"] = ["fp64"]
    file.write_text(yaml.safe_dump(config))
    count(sweep, fake(tmp_path))
    points = points_of(sweep)
    assert [point.counted.unavailable is None for point in points] == [True, True, False, True]
    assert "is written for fp64" in points[2].counted.unavailable


def test_several_sessions_ask_once_for_what_none_can_have(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "sweep", *([SAXPY, "size=1024", f"cache={state}"] for state in ("cold", "hot")))
    ncu = fake(tmp_path, permission=True)
    count(sweep, ncu)
    assert len(ncu.sessions) == 1
    assert all(point.counted.unavailable.startswith("permission") for point in points_of(sweep))


def test_jobs_that_count_themselves_ask_once(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path, permission=True)
    wish = CountRequest(override={"ncu": str(ncu.path), "level": "auto", "phase": "job"}, phase="job")
    for job in range(4):
        count_sweep(sweep, wish, folders=[sweep / str(job)], say=lambda line: None)
    assert len(ncu.sessions) == 1
    assert all(point.counted.unavailable.startswith("permission") for point in points_of(sweep))


@pytest.mark.parametrize(
    ("behave", "kind", "telling"),
    [
        ({"faults_at": 4096}, "launch failed", "the kernel itself failed"),
        ({"crashes_at": 4096}, "crash", "Segmentation fault"),
        ({"slow_at": 4096}, "timeout", "within the point's time"),
        ({"cannot_build": 4096}, "refused", "does not compile"),
        ({"silent_at": 4096}, "no kernels", "no kernel was profiled"),
    ],
)
def test_a_point_that_dies_under_ncu_costs_no_other(tmp_path, sweep, behave, kind, telling) -> None:
    """The third of four: it is marked, the others are counted."""
    ncu = fake(tmp_path, **behave)
    count(sweep, ncu)
    points = points_of(sweep)
    assert [point.counted.unavailable is None for point in points] == [True, True, False, True]
    assert points[2].counted.unavailable.startswith(f"{kind}: ")
    assert telling in points[2].counted.unavailable
    assert [flag.name for flag in points[2].flags] == ["not counted"]
    assert points[2].traffic.source == "modelled"
    assert points[3].counted.flops == 2 * 8192
    assert len(ncu.sessions) <= 2


def test_rows_that_were_lost_with_the_session_are_counted_again(sweep: Path, tmp_path: Path) -> None:
    """An ncu that dies itself prints nothing of the launches before."""
    ncu = fake(tmp_path, crashes_at=4096)
    text = ncu.path.read_text()
    ncu.path.write_text(text.replace('print("Segmentation fault (core dumped)")', "rows.clear()"))
    count(sweep, ncu)
    assert [point.counted.unavailable is None for point in points_of(sweep)] == [True, True, False, True]
    assert len(ncu.sessions) == 2


def test_a_session_that_hangs_is_ended(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.3)
    start = time.monotonic()
    count(sweep, fake(tmp_path, hangs_at=4096), timeout_s=0.5)
    assert time.monotonic() - start < 30
    points = points_of(sweep)
    assert [point.counted.unavailable is None for point in points] == [True, True, False, True]
    assert points[2].counted.unavailable.startswith("timeout: ")


def test_an_op_that_launches_nothing(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path, no_kernels=True)
    count(sweep, ncu)
    assert all(point.counted.unavailable.startswith("no kernels: ") for point in points_of(sweep))
    assert len(ncu.sessions) == 1


def test_an_unknown_metric_is_left_out_and_what_needs_it_is_unknown(sweep: Path, tmp_path: Path) -> None:
    """NCU-12: an ncu that stops at it is asked again without; nothing is 0."""
    ncu = fake(tmp_path, refuses=["smsp__sass_thread_inst_executed_op_fadd_pred_on"])
    count(sweep, ncu)
    assert len(ncu.sessions) == 2
    for point in points_of(sweep):
        assert point.counted.flops is None
        assert point.counted.dram_bytes == point.work.dram_bytes
        missing = point.counted.missing["smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"]
        assert "refused" in missing
        assert any(flag.name == "flops missing" for flag in point.flags)


def test_without_dram_bytes_traffic_stays_modelled(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path, refuses=["dram__bytes_read", "dram__bytes_write"])
    count(sweep, ncu)
    assert len(ncu.sessions) == 3  # one name at a time, as ncu names them
    for point in points_of(sweep):
        assert point.counted.dram_bytes is None
        assert point.counted.flops == point.work.flops
        assert point.traffic.source == "modelled"


def test_an_ncu_that_refuses_everything_is_not_asked_for_ever(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path, refuses=["dram__bytes_total"])
    count(sweep, ncu, metrics=["dram__bytes_total.sum"])
    assert len(ncu.sessions) <= 1
    assert all("dram__bytes_total" in point.counted.unavailable for point in points_of(sweep))


def test_metrics_that_the_gpu_does_not_offer_are_not_asked_for(sweep: Path, tmp_path: Path) -> None:
    absent = "dram__bytes_write"
    ncu = FakeNcu(tmp_path / "bin", [name for name in OFFERS if name != absent])
    count(sweep, ncu)
    assert absent not in " ".join(ncu.sessions[0])
    for point in points_of(sweep):
        assert point.counted.dram_bytes is None
        assert point.counted.missing[f"{absent}.sum"] == "not offered by this ncu on this GPU"


def test_a_metric_that_is_dropped_without_a_word_is_unknown(sweep: Path, tmp_path: Path) -> None:
    """As ncu 2025.3.1 does it: exit code 0, and the column is absent."""
    count(sweep, fake(tmp_path, drops=["dram__bytes_write"]))
    assert all(point.counted.dram_bytes is None for point in points_of(sweep))
    assert all(point.counted.missing == {"dram__bytes_write.sum": "not in the report"} for point in points_of(sweep))


def test_values_that_are_not_numbers_are_unknown(sweep: Path, tmp_path: Path) -> None:
    count(sweep, fake(tmp_path, values="nan"))
    for point in points_of(sweep):
        assert (point.counted.flops, point.counted.dram_bytes, point.counted.time_s) == (None, None, None)
        assert any(flag.name == "counters missing" for flag in point.flags)
        assert point.traffic.source == "modelled"


def test_an_option_that_an_old_ncu_lacks_is_left_out(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path, options=["--print-nvtx-rename"])
    count(sweep, ncu)
    assert len(ncu.sessions) == 2
    assert all(point.counted.flops == 2 * point.size for point in points_of(sweep))


def test_another_gpu_is_not_joined_to_these_times(sweep: Path, tmp_path: Path) -> None:
    count(sweep, fake(tmp_path, machine="NVIDIA A100"))
    assert all("measured on NVIDIA H200, this GPU is NVIDIA A100" in p.counted.unavailable for p in points_of(sweep))


def test_what_ncu_offers_is_asked_once(sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path)
    count(sweep, ncu)
    count(sweep, ncu)
    assert sum("--query-metrics" in words for words in ncu.calls) == 1


def test_a_failed_recount_keeps_what_was_counted(sweep: Path, tmp_path: Path) -> None:
    count(sweep, fake(tmp_path))
    count(sweep, FakeNcu(tmp_path / "other", OFFERS, permission=True))
    assert all(point.counted.flops == 2 * point.size for point in points_of(sweep))


def test_cost_and_passes_are_told(sweep: Path, tmp_path: Path) -> None:
    said = count(sweep, fake(tmp_path, crashes_at=4096))
    assert said == ["counters: 4 points under ncu 2025.3.1.0"]
    lines = counting_lines(points_of(sweep))
    assert lines[0].startswith("counters 3 of 4 points: basic, 4 passes, ")
    assert lines[0].endswith("ncu 2025.3.1.0")
    assert lines[1].startswith("counters none for 1 of 4 points: crash: ")


def test_padding_is_recognised(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "sweep", ["kernel=gemm_tiled", "precision=bf16", "size=100"])
    count(sweep, fake(tmp_path, ratio=1.5))
    point = points_of(sweep)[0]
    assert point.counted.flops_ratio > 1.4
    assert any(flag.name == "issued FLOPs" and "padding" in flag.message for flag in point.flags)


def test_no_temporary_file_is_left(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    count(sweep, fake(tmp_path, crashes_at=4096))
    assert not list((tmp_path / "tmp").iterdir())


# the end of a sweep


def finished(folder: Path, capsys: pytest.CaptureFixture[str], ncu: FakeNcu | None = None) -> tuple[int, str]:
    """``ncu`` is named on the command line: a folder names no program that is run."""
    from roofexp.run.finish import finish
    from roofexp.run.process import PROCESS
    from roofexp.run.progress import Run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PROCESS, "counters", {"ncu": str(ncu.path)} if ncu else {})
        code = finish(Run(folder, {"sweep_id": "s1"}, 4))
    caught = capsys.readouterr()
    return code, caught.out + caught.err


def test_a_sweep_is_counted_before_its_table_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ncu = fake(tmp_path)
    words = [SAXPY, "counters=hierarchy", f"counters.ncu={ncu.path}"]
    folder = make_sweep(tmp_path / "sweep", [*words, "size=1024"], [*words, "size=2048"])
    code, said = finished(folder, capsys, ncu)
    assert code == 0, said
    assert "counters 2 of 2 points: hierarchy, 4 passes" in said
    rows = list(csv.DictReader((folder / "points.csv").open()))
    assert [row["traffic_source"] for row in rows] == ["counted", "counted"]


def test_a_sweep_without_permission_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ncu = fake(tmp_path, permission=True)
    words = [SAXPY, f"counters.ncu={ncu.path}"]  # the default level
    folder = make_sweep(tmp_path / "sweep", [*words, "size=1024"], [*words, "size=2048"])
    code, said = finished(folder, capsys, ncu)
    assert code == 0
    assert said.count("ERR_NVGPUCTRPERM") == 1
    assert "their traffic is modelled" in said


def test_ctrl_c_while_counting_leaves_a_sweep_to_resume(sweep, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("roofexp.counters.counting.count_sweep", interrupted)
    code, said = finished(sweep, capsys)
    assert code == 130
    assert "resume=" in said
    assert (sweep / "points.csv").is_file()


def test_a_mistake_in_counting_costs_no_result(sweep, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*arguments: object, **options: object) -> int:
        raise ZeroDivisionError("who wrote this")

    monkeypatch.setattr("roofexp.counters.counting.count_sweep", mistaken)
    code, said = finished(sweep, capsys)
    assert code == 0
    assert "who wrote this; traffic stays modelled" in said


# the command line


def test_an_ncu_that_is_not_there_is_refused_before_the_first_job(program, tmp_path: Path) -> None:
    """NCU-10 (a)."""
    fake(tmp_path)
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    done = program("kernel=gemm", "size=256,1024", "counters.ncu=/nonexistent/ncu", "-m", PATH=path)
    assert done.returncode == 2
    assert "counters.ncu=/nonexistent/ncu: no such program; found here: " in done.stderr
    assert "(2025.3.1.0)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "outputs").glob("*/*/*"))  # nothing half-written


def test_a_sweep_on_a_cpu_neither_looks_for_ncu_nor_speaks_of_it(program, sweep_folder, tmp_path: Path) -> None:
    ncu = fake(tmp_path)
    done = program("kernel=vadd", "size=1000", "counters=auto", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "counters" not in done.stdout + done.stderr
    assert not ncu.calls
    record = json.loads((sweep_folder() / "0/point.json").read_text())
    assert record["traffic"]["source"] == "modelled"
    assert record.get("counted") is None


def test_counting_a_folder_again(program, sweep: Path, tmp_path: Path) -> None:
    ncu = fake(tmp_path)
    done = program(str(sweep), "--level", "hierarchy", "--ncu", str(ncu.path), bare=True, module="roofexp.count")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "counters 4 of 4 points: hierarchy, 4 passes" in done.stdout
    rows = list(csv.DictReader((sweep / "points.csv").open()))
    assert [float(row["issued_flops"]) for row in rows] == [2 * 1024, 2 * 2048, 2 * 4096, 2 * 8192]
    assert {row["traffic_source"] for row in rows} == {"counted"}
    assert float(rows[0]["intensity_l1_flop_per_byte"]) < float(rows[0]["intensity_dram_flop_per_byte"])


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [(["nowhere"], "nowhere: no points"), (["sweep", "--ncu", "/nonexistent/ncu"], "no such program")],
)
def test_what_cannot_be_counted_is_refused_in_one_line(program, sweep, arguments, telling) -> None:
    done = program(*arguments, bare=True, module="roofexp.count")
    assert done.returncode == 2
    assert telling in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_configured_levels_compose() -> None:
    assert {file.stem for file in (CONF / "counters").glob("*.yaml")} == {
        "auto", "basic", "hierarchy", "diagnosis", "none",
    }  # fmt: skip
