"""MLflow mirrors the files: what a user finds there, and what happens when the store cannot be used."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from roofexp.commands import run_command
from roofexp.commands.track import outputs_folder
from roofexp.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.records.point import Check, Clock, Flag, Placement, Point, Timing, Traffic, Work, write_point
from roofexp.tracking import SafeTracker, Tracker, open_store, store
from roofexp.tracking.client import _create_database, _revisions_of_mlflow
from roofexp.tracking.run import build_content
from roofexp.tracking.store import TrackingError, TrackingInputError

ROOT = Path(__file__).parents[1]
SWEEP = {
    "sweep_id": "sweep-1",
    "name": "gemm",
    "command": "python -m roofexp kernel=gemm size=256,1024 -m",
    "overrides": ["kernel=gemm", "size=256,1024"],
    "started": "2026-03-01T12:00:00+00:00",
    "finished": "2026-03-01T12:01:00+00:00",
    "git_commit": "0123456789abcdef",
    "git_dirty": True,
    "versions": {"roofexp": "0.1.0"},
    "experiment": "roofexp",
}


def make_point(job: int = 0, **changes: Any) -> Point:
    values: dict[str, Any] = {
        "point_id": f"point-{job}",
        "sweep_id": "sweep-1",
        "job": job,
        "overrides": [f"size={256 * 4**job}", "kernel.params.tile=16"],
        "status": "ok",
        "kernel": "gemm",
        "implementation": "numpy",
        "size": 256 * 4**job,
        "shape": {"m": 256 * 4**job},
        "params": {"tile": 16},
        "scalars": {"a": 2.0},
        "precision": "fp32",
        "clock_mode": "observe",
        "cache_state": "cold",
        "fill": "normal",
        "device": "cpu",
        "machine_id": "abc123",
        "config_hash": "c0ffee",
        "work": Work(flops=2_000_000, dram_bytes=1_000_000, working_set_bytes=1_000_000),
        "check": Check(error=1e-7, tolerance=1e-5),
        "timing": Timing(
            median_s=2e-3,
            p5_s=1.9e-3,
            p95_s=2.2e-3,
            low_s=1.99e-3,
            high_s=2.01e-3,
            samples=120,
            launches_per_sample=1,
            warmup_s=0.1,
            floor_s=None,
            method="perf_counter",
        ),
        "clock": Clock(compute_hz=3.0e9, source="chain"),
        "traffic": Traffic(level="dram", bytes=1_000_000, source="modelled"),
        "placement": Placement(
            bound="compute-bound",
            intensity_flop_per_byte=2.0,
            attainable_per_s=1.25e9,
            fraction=0.8,
            roof="fp32 fma",
            roof_fractions={"dram": 0.02, "fp32 fma": 0.8},
            ridge_flop_per_byte=1.5,
            cause="80% of the fp32 fma roof",
            next_move="improve the instruction mix",
        ),
        "flags": [Flag("noisy", "p95 is 10 % above p5")],
        "created": f"2026-03-01T12:00:{10 + job % 50:02d}+00:00",
        "measuring_s": 3.0,
    }
    return Point(**(values | changes))


def make_sweep(outputs: Path, points: list[Point], sweep: dict[str, Any] | None = None) -> Path:
    """A sweep's folder as a finished sweep leaves it."""
    folder = outputs / "gemm" / "2026-03-01_12-00-00"
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    (folder / "sweep.yaml").write_text(yaml.safe_dump(SWEEP if sweep is None else sweep))
    (folder / "points.csv").write_text("kernel,size,time_s\ngemm,256,0.002\n")
    (folder / "machine-abc123.json").write_text('{"machine_id": "abc123", "device": "cpu", "name": "Test CPU"}')
    (folder / "roofs.json").write_text("[]")
    (folder / "figures" / "roofline.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    for point in points:
        own = folder / str(point.job)
        (own / ".hydra").mkdir(parents=True, exist_ok=True)
        (own / ".hydra" / "config.yaml").write_text("size: 256\n")
        (own / "samples.csv").write_text("sample,time_s\n0,0.002\n")
        write_point(own, point)
    return folder


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh database; making one takes seconds, copying it does not."""
    database = tmp_path_factory.mktemp("store") / "mlflow.db"
    _create_database(database)
    return database


@pytest.fixture
def outputs(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / "my outputs"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    return folder


def open_sqlite(outputs: Path, experiment: str = "roofexp") -> Tracker:
    return open_store("sqlite", None, experiment, outputs)


def runs_of(tracker: Tracker, kind: str) -> list[Any]:
    """The runs that a user sees, by start and name."""
    condition = f"tags.`roofexp.kind` = '{kind}'"
    found = tracker.runs.client.search_runs([tracker.runs.experiment_id], condition, max_results=5000)
    return sorted(found, key=lambda run: (run.info.start_time, run.info.run_name))


def artifacts_of(tracker: Tracker, run: Any, folder: str | None = None) -> set[str]:
    return {file.path for file in tracker.runs.client.list_artifacts(run.info.run_id, folder)}


def snapshot(tracker: Tracker) -> list[Any]:
    """All that the store holds: any write between two of them shows."""
    with contextlib.closing(sqlite3.connect(tracker.runs.address.database)) as connection:
        tables = ("runs", "tags", "params", "metrics", "latest_metrics", "experiments")
        return [sorted(map(repr, connection.execute(f"select * from {table}"))) for table in tables]


# what a user finds in MLflow


def test_importing_the_program_does_not_import_mlflow() -> None:
    code = "import sys, roofexp.tracking, roofexp.commands.track; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_point_is_a_child_with_params_metrics_verdict_and_files(outputs: Path) -> None:
    tracker = open_sqlite(outputs)
    tracker.mirror(make_sweep(outputs, [make_point()]))
    (parent,), (child,) = runs_of(tracker, "sweep"), runs_of(tracker, "point")
    assert child.info.run_name == "gemm-256-fp32-tile16"
    assert child.info.status == "FINISHED"
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.params == {
        "kernel": "gemm",
        "implementation": "numpy",
        "size": "256",
        "precision": "fp32",
        "clock_mode": "observe",
        "cache_state": "cold",
        "fill": "normal",
        "device": "cpu",
        "machine": "Test CPU",
        "params.tile": "16",
        "scalars.a": "2.0",
    }
    assert child.data.metrics == {
        "perf/flops_per_s": 1e9,
        "mem/dram_bytes_per_s": 5e8,
        "ai/dram_flop_per_byte": 2.0,
        "mem/bytes_per_s": 5e8,
        "ai/flop_per_byte": 2.0,
        "time/event_median_s": 2e-3,
        "time/p5_s": 1.9e-3,
        "time/p95_s": 2.2e-3,
        "time/samples": 120,
        "clock/core_hz": 3e9,
        "roof/fraction": 0.8,
        "roof/attainable_per_s": 1.25e9,
        "roof/ridge_flop_per_byte": 1.5,
        "roof_fraction/dram": 0.02,
        "roof_fraction/fp32 fma": 0.8,
        "check/error": 1e-7,
        "work/flops": 2e6,
        "work/dram_bytes": 1e6,
    }
    tags = child.data.tags
    assert tags["roofexp.bound"] == "compute-bound"
    assert tags["roofexp.next_move"] == "improve the instruction mix"
    assert tags["roofexp.flags"] == "noisy: p95 is 10 % above p5"
    assert (tags["roofexp.git_commit"], tags["roofexp.git_dirty"]) == ("0123456789abcdef", "true")
    assert (tags["roofexp.version"], tags["roofexp.device_name"]) == ("0.1.0", "Test CPU")
    assert tags["mlflow.note.content"] == (
        "gemm 256 fp32 on Test CPU: **compute-bound** at 1 GFLOP/s: 80% of the fp32 fma roof. "
        "Next: improve the instruction mix. Flagged: noisy (p95 is 10 % above p5)."
    )
    assert not [key for key in tags if key.startswith("roofexp.missing")]
    assert artifacts_of(tracker, child) == {"point.json", "samples.csv", ".hydra"}
    assert child.info.end_time - child.info.start_time == 3000


def test_a_sweep_is_a_parent_with_files_counts_and_times(outputs: Path) -> None:
    tracker = open_sqlite(outputs)
    points = [
        make_point(0),
        make_point(1, status="failed", reason="error 0.5 above 1e-5", reason_kind="wrong result", timing=None),
        make_point(2, status="skipped", reason="fp8 on numpy", timing=None, placement=None, check=None),
    ]
    tracker.mirror(make_sweep(outputs, points))
    (parent,) = runs_of(tracker, "sweep")
    assert parent.info.run_name == "gemm size=256,1024"
    assert parent.info.status == "FAILED"
    assert (parent.info.start_time, parent.info.end_time) == (1772366400000, 1772366460000)
    assert artifacts_of(tracker, parent) == {"sweep.yaml", "points.csv", "roofs.json", "figures"}
    assert artifacts_of(tracker, parent, "figures") == {"figures/roofline.svg"}
    metrics = parent.data.metrics
    assert [metrics[f"points/{key}"] for key in ("total", "ok", "failed", "skipped", "flagged")] == [3, 1, 1, 1, 3]
    assert metrics["best/roof_fraction"] == 0.8
    assert "error 0.5 above 1e-5" in parent.data.tags["mlflow.note.content"]
    assert parent.data.params["size"] == "256,1024"
    _, failed, skipped = runs_of(tracker, "point")
    assert (failed.info.status, failed.data.tags["roofexp.reason_kind"]) == ("FAILED", "wrong result")
    assert "perf/flops_per_s" not in failed.data.metrics
    assert (skipped.info.status, skipped.data.tags["roofexp.status"]) == ("FINISHED", "skipped")


def test_artifacts_of_the_default_store_lie_in_outputs(outputs: Path) -> None:
    tracker = open_sqlite(outputs)
    tracker.mirror(make_sweep(outputs, [make_point()]))
    (child,) = runs_of(tracker, "point")
    assert (outputs / "artifacts" / child.info.run_id / "artifacts" / "point.json").is_file()


@pytest.mark.parametrize(
    ("changes", "group", "reason"),
    [
        ({"traffic": Traffic(level="dram", bytes=0, source="counted"), "placement": None}, "ai", "no DRAM traffic"),
        ({"traffic": None, "placement": None}, "ai", "not known"),
        ({"clock": None}, "clock", "could not be read"),
        ({"check": Check(error=math.nan, tolerance=1e-5)}, "check", "nan"),
        ({"placement": None}, "roof", "not placed"),
        ({"work": Work(flops=0, dram_bytes=10, working_set_bytes=10)}, "perf", "without FLOPs"),
    ],
)
def test_a_number_that_does_not_exist_is_left_out_and_a_tag_says_why(
    outputs: Path, changes: dict[str, Any], group: str, reason: str
) -> None:
    tracker = open_sqlite(outputs)
    tracker.start_sweep(SWEEP)
    tracker.log_point(make_point(**changes), outputs)
    (child,) = runs_of(tracker, "point")
    assert reason in child.data.tags[f"roofexp.missing.{group}"]
    assert all(math.isfinite(value) and abs(value) < 1e300 for value in child.data.metrics.values())
    assert not [key for key in child.data.metrics if key.startswith(f"{group}/")]


def test_infinite_intensity_is_undefined_and_zero_stays_zero(outputs: Path) -> None:
    placement = make_point().placement
    assert placement
    infinite = msgspec.structs.replace(placement, intensity_flop_per_byte=math.inf)
    zero = msgspec.structs.replace(placement, intensity_flop_per_byte=0.0)
    nothing_moved = Traffic(level="dram", bytes=0, source="counted")
    tracker = open_sqlite(outputs)
    tracker.start_sweep(SWEEP)
    tracker.log_point(make_point(0, placement=infinite, traffic=nothing_moved), outputs)
    tracker.log_point(make_point(1, placement=zero), outputs)
    first, second = runs_of(tracker, "point")
    assert first.data.tags["roofexp.missing.ai"] == "undefined: no DRAM traffic"
    assert "ai/dram_flop_per_byte" not in first.data.metrics
    assert first.data.metrics["mem/dram_bytes_per_s"] == 0.0
    assert second.data.metrics["ai/dram_flop_per_byte"] == 0.0


def test_long_values_are_cut_with_a_mark_and_kept_whole_as_artifact(outputs: Path) -> None:
    kernel, override = "k" * 7000, "size=" + "8" * 8000
    tracker = open_sqlite(outputs)
    tracker.mirror(make_sweep(outputs, [make_point(kernel=kernel, overrides=[override])]))
    (child,) = runs_of(tracker, "point")
    assert child.info.status == "FINISHED"
    assert child.data.params["kernel"].endswith("…[cut, 7000]")
    assert child.data.tags["roofexp.overrides"].endswith("…[cut, 8005]")
    assert child.data.params["precision"] == "fp32"
    whole = tracker.runs.client.download_artifacts(child.info.run_id, "long_values.json", str(outputs))
    texts = json.loads(Path(whole).read_text())
    assert (texts["params/kernel"], texts["tags/roofexp.overrides"]) == (kernel, override)


def test_keys_that_mlflow_refuses_are_renamed_and_stay_apart(outputs: Path) -> None:
    params = {"a[0]": 1, "a(0)": 2, "../up": 3, "long" * 100: 4, "µ": 5, "": 6, "list": [1, 2]}
    tracker = open_sqlite(outputs)
    tracker.start_sweep(SWEEP)
    tracker.log_point(make_point(params=params), outputs)
    (child,) = runs_of(tracker, "point")
    logged = {key: value for key, value in child.data.params.items() if key.startswith("params.")}
    assert sorted(logged.values()) == sorted(["1", "2", "3", "4", "5", "6", "[1, 2]"])
    originals = {key.removeprefix("original/"): text for key, text in child.data.tags.items() if "original/" in key}
    square = next(name for name, original in originals.items() if original == "params.a[0]")
    assert (logged[square], square[:12]) == ("1", "params.a_0__")
    assert {"params.a[0]", "params.a(0)"} <= set(originals.values())


def test_a_metric_has_the_same_name_in_every_run() -> None:
    both = build_content("run", "FINISHED", (0, 1), {}, {"rate[dram]": 1.0, "rate(dram)": 2.0, "rate_dram_": 3.0}, {})
    alone = build_content("run", "FINISHED", (0, 1), {}, {"rate(dram)": 2.0}, {})
    assert sorted(both.metrics.values()) == [1.0, 2.0, 3.0]
    assert both.metrics["rate_dram_"] == 3.0
    ((name, value),) = alone.metrics.items()
    assert both.metrics[name] == value == 2.0
    assert both.tags[f"original/{name}"] == alone.tags[f"original/{name}"] == "rate(dram)"
    long = build_content("run", "FINISHED", (0, 1), {}, {"x" * 400: 1.0}, {})
    assert all(len(key) <= 250 for key in (*long.metrics, *long.tags))
    assert list(long.tags.values()) == ["x" * 400]


# mirroring again


def test_mirroring_twice_changes_nothing(outputs: Path) -> None:
    folder = make_sweep(outputs, [make_point(0), make_point(1)])
    first = open_sqlite(outputs).mirror(folder)
    before = snapshot(open_sqlite(outputs))
    second = open_sqlite(outputs).mirror(folder)
    assert (first.new, second.new, second.renewed, second.unchanged) == (2, 0, 0, 2)
    assert snapshot(open_sqlite(outputs)) == before


def comparable(run: Any) -> dict[str, Any]:
    """A run without what is its own in every store: ids."""
    tags = {key: text for key, text in run.data.tags.items() if key != "mlflow.parentRunId"}
    times = (run.info.start_time, run.info.end_time)
    return {"times": times, "status": run.info.status, "params": run.data.params, "metrics": run.data.metrics} | tags


def test_live_tracking_and_mirroring_later_give_the_same_runs(outputs: Path) -> None:
    folder = make_sweep(outputs, [make_point(0), make_point(1)])
    live, later = open_sqlite(outputs, "live"), open_sqlite(outputs, "later")
    live.start_sweep(SWEEP)
    assert runs_of(live, "sweep")[0].info.status == "RUNNING"
    for point in (make_point(0), make_point(1)):
        live.log_point(point, folder / str(point.job))
    assert live.mirror(folder).unchanged == 2
    later.mirror(folder)
    for kind in ("sweep", "point"):
        assert list(map(comparable, runs_of(live, kind))) == list(map(comparable, runs_of(later, kind)))
    assert artifacts_of(live, runs_of(live, "point")[0]) == artifacts_of(later, runs_of(later, "point")[0])


def test_a_partly_mirrored_sweep_is_completed(outputs: Path) -> None:
    """The process died while it wrote the second of three points."""
    folder = make_sweep(outputs, [make_point(job) for job in range(3)])
    died = open_sqlite(outputs)
    died.start_sweep(SWEEP)
    died.log_point(make_point(0), folder / "0")
    died.log_point(make_point(1), folder / "1")
    died.runs.reopen(runs_of(died, "point")[1].info.run_id)
    done = open_sqlite(outputs).mirror(folder)
    assert (done.new, done.renewed, done.unchanged) == (1, 1, 1)
    assert [run.info.status for run in runs_of(died, "point")] == ["FINISHED"] * 3
    assert [run.info.status for run in runs_of(died, "sweep")] == ["FINISHED"]


def test_a_point_measured_again_replaces_its_run(outputs: Path) -> None:
    folder = make_sweep(outputs, [make_point(0), make_point(1)])
    open_sqlite(outputs).mirror(folder)
    again = make_point(1, point_id="another", status="failed", timing=None, placement=None, reason="hung")
    make_sweep(outputs, [again])
    done = open_sqlite(outputs).mirror(folder)
    assert (done.new, done.renewed, done.unchanged) == (0, 1, 1)
    tracker = open_sqlite(outputs)
    assert [run.info.status for run in runs_of(tracker, "point")] == ["FINISHED", "FAILED"]
    (parent,) = runs_of(tracker, "sweep")
    assert (parent.data.metrics["points/failed"], parent.info.status) == (1, "FAILED")


def test_what_was_spent_on_tracking_does_not_make_a_point_new(outputs: Path) -> None:
    folder = make_sweep(outputs, [make_point(0)])
    open_sqlite(outputs).mirror(folder)
    write_point(folder / "0", make_point(0, overhead_s=0.2))
    assert open_sqlite(outputs).mirror(folder).unchanged == 1


def test_doubled_runs_are_removed(outputs: Path) -> None:
    """Two processes mirrored the same sweep at once."""
    folder = make_sweep(outputs, [make_point(0)])
    one, other = open_sqlite(outputs), open_sqlite(outputs)
    one.start_sweep(SWEEP)
    other.start_sweep(SWEEP)
    assert len(runs_of(one, "sweep")) == 1
    one.log_point(make_point(0), folder / "0")
    other.log_point(make_point(0), folder / "0")
    assert len(runs_of(one, "point")) == 2
    open_sqlite(outputs).mirror(folder)
    assert len(runs_of(one, "point")) == 1


def test_a_new_figure_renews_the_parent_alone(outputs: Path) -> None:
    folder = make_sweep(outputs, [make_point(0)])
    open_sqlite(outputs).mirror(folder)
    (folder / "figures" / "size_sweep.png").write_bytes(b"\x89PNG")
    tracker = open_sqlite(outputs)
    assert tracker.mirror(folder).unchanged == 1
    (parent,) = runs_of(tracker, "sweep")
    assert "figures/size_sweep.png" in artifacts_of(tracker, parent, "figures")


@pytest.mark.parametrize("missing", ["sweep.yaml", "roofs.json", "points.csv", "figures", "0/.hydra", "0/samples.csv"])
def test_a_killed_sweep_lacks_files_and_is_mirrored_all_the_same(outputs: Path, missing: str) -> None:
    folder = make_sweep(outputs, [make_point(0)])
    path = folder / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    tracker = open_sqlite(outputs)
    assert tracker.mirror(folder).new == 1
    assert [run.info.status for run in runs_of(tracker, "sweep")] == ["FINISHED"]


def test_a_sweep_that_never_ended_is_killed(outputs: Path) -> None:
    folder = make_sweep(outputs, [make_point(0)], {key: SWEEP[key] for key in SWEEP if key != "finished"})
    tracker = open_sqlite(outputs)
    tracker.mirror(folder)
    assert runs_of(tracker, "sweep")[0].info.status == "KILLED"


def test_a_point_that_cannot_be_read_costs_no_other(outputs: Path) -> None:
    folder = make_sweep(outputs, [make_point(0), make_point(1)])
    (folder / "0" / "point.json").write_text('{"version": 1, "point_')
    assert open_sqlite(outputs).mirror(folder).new == 1


def test_leftovers_of_this_process_are_closed(outputs: Path) -> None:
    tracker = open_sqlite(outputs)
    tracker.start_sweep(SWEEP)
    tracker.close_leftovers()
    assert [run.info.status for run in runs_of(tracker, "sweep")] == ["KILLED"]


def test_many_points_fit_in_several_pages_of_a_search(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofexp.tracking.client.RUNS_AT_ONCE", 2)
    folder = make_sweep(outputs, [make_point(job, size=job + 1) for job in range(5)])
    open_sqlite(outputs).mirror(folder)
    assert open_sqlite(outputs).mirror(folder).unchanged == 5


def test_a_point_takes_little_of_a_sweep_s_time(outputs: Path) -> None:
    """1000 points mirror in about 50 s on an idle machine; processor time, since this one may be busy."""
    folder = make_sweep(outputs, [make_point(job, size=job + 1) for job in range(40)])
    tracker = open_sqlite(outputs)
    start = time.process_time()
    tracker.mirror(folder)
    assert (time.process_time() - start) / 40 < 0.1


# several processes, and what stands in the environment

PARALLEL = """
import multiprocessing, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_tracking import make_point, SWEEP
from roofexp.tracking import open_store
from roofexp.tracking.client import import_mlflow

def log(job):
    tracker = open_store("sqlite", None, "roofexp", Path(sys.argv[2]))
    tracker.start_sweep(SWEEP)
    tracker.log_point(make_point(job, size=job + 1, params={f"d{i}": i for i in range(20)}), Path(sys.argv[2]))

import_mlflow()  # once, not eight times: what is tried here is the store
jobs = [multiprocessing.get_context("fork").Process(target=log, args=(job,)) for job in range(8)]
for job in jobs:
    job.start()
for job in jobs:
    job.join()
sys.exit(sum(job.exitcode != 0 for job in jobs))
"""


def test_eight_processes_at_once_on_a_store_that_does_not_exist_yet(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    environment = {key: text for key, text in os.environ.items() if not key.startswith("MLFLOW")}
    command = [sys.executable, "-c", PARALLEL, str(Path(__file__).parent), str(outputs)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr + done.stdout, "opening a store says nothing"
    tracker = open_sqlite(outputs)
    assert len(runs_of(tracker, "sweep")) == 1
    children = runs_of(tracker, "point")
    assert [run.info.status for run in children] == ["FINISHED"] * 8
    assert {len(run.data.metrics) for run in children} == {18}
    assert {len([key for key in run.data.params if key.startswith("params.")]) for run in children} == {20}


def test_an_inherited_run_id_is_ignored(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = open_sqlite(outputs)
    old = tracker.runs.client.create_run(tracker.runs.experiment_id, run_name="older")
    tracker.runs.client.set_terminated(old.info.run_id)
    before = tracker.runs.client.get_run(old.info.run_id).to_dictionary()
    monkeypatch.setenv("MLFLOW_RUN_ID", old.info.run_id)
    open_sqlite(outputs).mirror(make_sweep(outputs, [make_point(0)]))
    assert tracker.runs.client.get_run(old.info.run_id).to_dictionary() == before
    assert len(runs_of(tracker, "point")) == 1


def test_an_explicit_uri_wins_over_the_environment_and_that_over_the_default(
    outputs: Path, empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("named.db", "environment.db"):
        shutil.copy(empty_store, tmp_path / name)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/environment.db")
    assert open_sqlite(outputs).uri.endswith("environment.db")
    named = open_store("sqlite", f"sqlite:///{tmp_path}/named.db", "roofexp", outputs)
    assert named.uri.endswith("named.db")


def test_a_relative_database_stays_where_it_was_named(
    outputs: Path, empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(empty_store, tmp_path / "mine.db")
    monkeypatch.chdir(tmp_path)
    tracker = open_store("sqlite", "sqlite:///mine.db", "roofexp", outputs)
    monkeypatch.chdir(outputs)
    tracker.start_sweep(SWEEP)
    assert not (outputs / "mine.db").exists()
    assert len(runs_of(tracker, "sweep")) == 1


def test_the_database_of_a_killed_creation_never_lies_in_outputs(tmp_path: Path) -> None:
    """A process that is killed while it creates the store leaves no half database for the next one."""
    code = (
        "import os, sys; from pathlib import Path; import roofexp.tracking.client as client\n"
        "client.write_atomically = lambda path, data: os._exit(9)\n"
        "client._prepare_database(Path(sys.argv[1]))"
    )
    database = tmp_path / "mlflow.db"
    killed = subprocess.run([sys.executable, "-c", code, str(database)], check=False, cwd=ROOT)
    assert killed.returncode == 9
    assert not database.exists()
    assert open_store("sqlite", f"sqlite:///{database}", "roofexp", tmp_path).uri.endswith("mlflow.db")


# stores that cannot be used: one line, before anything is measured


def refusal(kind: str, uri: str | None, outputs: Path, experiment: str = "roofexp") -> TrackingError:
    start = time.perf_counter()
    with pytest.raises(TrackingError) as caught:
        open_store(kind, uri, experiment, outputs)
    assert time.perf_counter() - start < 8
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_deleted_experiment_is_named_with_both_ways_out(outputs: Path) -> None:
    tracker = open_sqlite(outputs, "gone")
    tracker.runs.client.delete_experiment(tracker.runs.experiment_id)
    error = refusal("sqlite", None, outputs, "gone")
    assert isinstance(error, BadInputError)
    assert "tracking.experiment=gone" in str(error)
    assert f"restore --experiment-id {tracker.runs.experiment_id}" in str(error)
    assert "another name" in str(error)


def test_a_store_that_was_moved_is_named(outputs: Path) -> None:
    open_sqlite(outputs).mirror(make_sweep(outputs, [make_point(0)]))
    moved = outputs.rename(outputs.with_name("elsewhere"))
    assert f"belong in {outputs}/artifacts" in str(refusal("sqlite", None, moved))
    assert not outputs.exists()


def test_a_folder_that_does_not_exist_is_refused(outputs: Path) -> None:
    error = refusal("sqlite", "sqlite:////nonexistent/dir/m.db", outputs)
    assert isinstance(error, BadInputError)
    assert "/nonexistent/dir: no such folder" in str(error)
    assert "tracking=none" in str(error)
    assert not Path("/nonexistent").exists()


def test_looking_at_a_store_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store.check_address(store.resolve_store("sqlite", None, tmp_path / "outputs"))
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("not a folder")
    assert "a file, not a folder" in str(refusal("sqlite", None, tmp_path / "outputs"))


def test_a_folder_in_the_place_of_the_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").mkdir()
    assert "a folder, not a database" in str(refusal("sqlite", None, tmp_path))


def checked_as(preparation: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """The error of the checks in a process of its own, which ``preparation`` has put into a corner."""
    code = (
        "import sys; from pathlib import Path; from roofexp.tracking.store import *\n"
        f"{preparation}\n"
        "folder = Path(sys.argv[1])\n"
        "try:\n    check_folder(folder / 'mlflow.db'); check_database(folder / 'mlflow.db')\n"
        "except TrackingError as error:\n    print(type(error).__name__, error)"
    )
    command = [*options.pop("prefix", []), sys.executable, "-c", code, str(folder)]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, **options)


def test_a_folder_without_the_right_to_write_is_refused(outputs: Path) -> None:
    """As another user when the tests run as root, for whom every folder is writable."""
    outputs.chmod(0o555)
    preparation = ""
    if os.geteuid() == 0:
        for parent in outputs.parents[:-1]:
            parent.chmod(parent.stat().st_mode | 0o055)
        preparation = "import os; os.setgid(65534); os.setuid(65534)"
    done = checked_as(preparation, outputs)
    outputs.chmod(0o755)
    assert done.stdout.startswith("TrackingInputError"), done.stderr
    assert "Permission denied" in done.stdout


def tiny_disk(options: str) -> list[str]:
    """A command prefix that gives its command a file system of its own in the folder ``$last``."""
    script = f'mount -t tmpfs -o {options} tmpfs "${{@: -1}}" && exec "$@"'
    return ["unshare", "-m", "bash", "-c", script, "bash"]


def test_a_full_disk_and_a_read_only_one_are_told_apart(outputs: Path) -> None:
    if subprocess.run([*tiny_disk("size=64k"), "ls", str(outputs)], capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    full = checked_as("", outputs, prefix=tiny_disk("size=32k"))
    assert full.stdout.startswith("TrackingError"), full.stderr
    assert "full" in full.stdout
    nearly = checked_as("", outputs, prefix=tiny_disk("size=1m"))
    assert "only 1 MB are free" in nearly.stdout
    fixed = checked_as("", outputs, prefix=tiny_disk("ro"))
    assert fixed.stdout.startswith("TrackingInputError"), fixed.stderr
    assert "Read-only" in fixed.stdout


def test_the_database_of_another_program_is_refused_and_left_alone(outputs: Path) -> None:
    database = outputs / "mlflow.db"
    database.unlink()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.executescript("create table songs (title text); create table alembic_version (version_num text)")
    before = database.read_bytes()
    error = refusal("sqlite", None, outputs)
    assert isinstance(error, BadInputError)
    assert "another program (tables: alembic_version, songs)" in str(error)
    assert database.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(outputs: Path) -> None:
    (outputs / "mlflow.db").write_text("a diary of some length, not a database\n")
    assert "not an SQLite database" in str(refusal("sqlite", None, outputs))
    assert (outputs / "mlflow.db").read_text().startswith("a diary")


def test_a_damaged_database_is_said_to_be_damaged(outputs: Path) -> None:
    database = outputs / "mlflow.db"
    database.write_bytes(database.read_bytes()[:100] + b"\xff" * 200_000)
    assert "damaged" in str(refusal("sqlite", None, outputs))


def set_revision(database: Path, revision: str) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("update alembic_version set version_num = ?", (revision,))


def test_an_older_schema_is_not_migrated_unasked(outputs: Path) -> None:
    set_revision(outputs / "mlflow.db", _revisions_of_mlflow()[1][1])
    before = (outputs / "mlflow.db").read_bytes()
    error = refusal("sqlite", None, outputs)
    assert not isinstance(error, BadInputError), "measuring goes on"
    assert "mlflow db upgrade sqlite:///" in str(error)
    assert "tracking.uri=" in str(error)
    assert (outputs / "mlflow.db").read_bytes() == before


def test_a_newer_schema_asks_for_a_newer_mlflow(outputs: Path) -> None:
    set_revision(outputs / "mlflow.db", "ffffffffffff")
    assert "newer MLflow" in str(refusal("sqlite", None, outputs))


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_locked_database_is_said_to_be_locked(outputs: Path, lock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.PROBE_S <= 5
    monkeypatch.setattr(store, "PROBE_S", 0.5)
    with contextlib.closing(sqlite3.connect(outputs / "mlflow.db", isolation_level=None)) as other:
        other.execute(lock)
        error = refusal("sqlite", None, outputs)
    assert "locked" in str(error)
    assert not isinstance(error, BadInputError)


def test_a_lock_that_comes_later_is_waited_for(outputs: Path) -> None:
    """SQLite's own patience of 5 s is not enough beside a slow writer."""
    tracker = open_sqlite(outputs)
    code = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); time.sleep(5.5); c.execute('ROLLBACK')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(outputs / "mlflow.db")], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "locked\n"
        tracker.start_sweep(SWEEP)
    assert len(runs_of(tracker, "sweep")) == 1


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_a_server_that_is_down_is_said_to_be_down(tmp_path: Path, scheme: str) -> None:
    error = refusal("server", f"{scheme}://user:secret@127.0.0.1:{free_port()}", tmp_path)
    assert not isinstance(error, BadInputError)
    assert "refused" in str(error)
    assert "secret" not in str(error)


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PROBE_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert "timed out" in str(refusal("server", f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path))


@pytest.mark.parametrize("uri", ["mlruns", "file:///tmp/mlruns", "sqlite://", "http://"])
def test_an_address_that_is_no_store_is_refused(tmp_path: Path, uri: str) -> None:
    error = refusal("server", uri, tmp_path)
    assert isinstance(error, TrackingInputError)
    assert uri in str(error)
    assert "http://host:5000" in str(error)


def test_a_server_without_a_name_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert "MLFLOW_TRACKING_URI" in str(refusal("server", None, tmp_path))


def rename_params(outputs: Path, old: str, new: str) -> None:
    with contextlib.closing(sqlite3.connect(outputs / "mlflow.db")) as connection:
        connection.execute(f"alter table {old} rename to {new}")


def test_a_store_that_fails_stops_no_measurement(outputs: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = make_sweep(outputs, [make_point(0)])
    safe = SafeTracker(open_sqlite(outputs), folder)
    safe.start_sweep(SWEEP)
    rename_params(outputs, "params", "lost")
    safe.log_point(make_point(0), folder / "0")
    safe.log_point(make_point(1), folder / "1")
    safe.finish_sweep(folder)
    safe.close_leftovers()
    (record,) = caplog.records
    assert f"python -m roofexp.track {folder}" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_a_store_that_comes_back_is_completed_at_the_end(outputs: Path) -> None:
    folder = make_sweep(outputs, [make_point(0), make_point(1)])
    tracker = open_sqlite(outputs)
    safe = SafeTracker(tracker, folder)
    safe.start_sweep(SWEEP)
    rename_params(outputs, "params", "lost")
    safe.log_point(make_point(0), folder / "0")
    rename_params(outputs, "lost", "params")
    safe.log_point(make_point(1), folder / "1")
    safe.finish_sweep(folder)
    assert [run.info.status for run in runs_of(tracker, "point")] == ["FINISHED"] * 2
    assert [run.info.status for run in runs_of(tracker, "sweep")] == ["FINISHED"]


@pytest.mark.parametrize("where", ["create", "upload", "end"])
def test_a_signal_within_the_mirroring_of_a_point_leaves_no_run_open(
    outputs: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder = make_sweep(outputs, [make_point(0), make_point(1)])
    tracker = open_sqlite(outputs)
    safe = SafeTracker(tracker, folder)
    safe.start_sweep(SWEEP)
    safe.log_point(make_point(0), folder / "0")
    original = getattr(tracker.runs, where)

    def interrupted(*arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(tracker.runs, where, original)
        if where != "end":
            original(*arguments, **named)  # the store has it, and nobody here knows
        raise KeyboardInterrupt

    monkeypatch.setattr(tracker.runs, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        safe.log_point(make_point(1), folder / "1")
    safe.finish_sweep(folder, "KILLED")
    assert [run.info.status for run in runs_of(tracker, "point")] == ["FINISHED"] * 2
    assert [run.info.status for run in runs_of(tracker, "sweep")] == ["KILLED"]


def test_without_a_store_tracking_does_nothing(tmp_path: Path) -> None:
    safe = SafeTracker(None, tmp_path)
    safe.start_sweep(SWEEP)
    safe.log_point(make_point(0), tmp_path)
    safe.finish_sweep(tmp_path)
    safe.close_leftovers()
    assert not list(tmp_path.iterdir())


# python -m roofexp.track


def test_track_mirrors_into_the_outputs_that_hold_the_sweep(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_sweep(outputs, [make_point(0), make_point(1)], SWEEP | {"experiment": "mine"})
    assert run_command("track", [str(folder)]) == EXIT_OK
    assert "2 points in MLflow (2 new, 0 renewed, 0 unchanged)" in capsys.readouterr().out
    assert run_command("track", [str(folder)]) == EXIT_OK
    printed = capsys.readouterr().out
    assert "2 unchanged" in printed
    assert f"mlflow ui --backend-store-uri {shlex.quote(f'sqlite:///{outputs}/mlflow.db')}" in printed
    assert len(runs_of(open_sqlite(outputs, "mine"), "point")) == 2


def test_track_refuses_a_folder_without_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("track", [str(tmp_path)]) == EXIT_BAD_INPUT
    assert "no sweep in it" in capsys.readouterr().err
    assert run_command("track", [str(tmp_path / "nowhere")]) == EXIT_BAD_INPUT
    assert "no such folder" in capsys.readouterr().err


def test_track_says_that_a_server_is_down(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_sweep(outputs, [make_point(0)])
    assert run_command("track", [str(folder), "--uri", f"http://127.0.0.1:{free_port()}"]) == EXIT_POINT_FAILED
    assert capsys.readouterr().err.count("\n") == 1


def test_outputs_is_found_above_a_sweep(tmp_path: Path) -> None:
    sweep = tmp_path / "outputs" / "reference" / "h200" / "quick"
    sweep.mkdir(parents=True)
    assert outputs_folder(sweep) == tmp_path / "outputs"
    assert outputs_folder(tmp_path / "data" / "gemm" / "now") == tmp_path / "data"
    (tmp_path / "outputs" / "reference" / "mlflow.db").touch()
    assert outputs_folder(sweep) == tmp_path / "outputs" / "reference"


# a real server


@pytest.fixture
def server(tmp_path: Path, empty_store: Path) -> Iterator[str]:
    shutil.copy(empty_store, tmp_path / "server.db")
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/server.db",
        "--artifacts-destination",
        str(tmp_path / "a"),
    ]
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    try:
        wait_for(f"http://127.0.0.1:{port}", process, tmp_path / "server.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(TrackingError):
            return store.check_server(uri)
        time.sleep(0.3)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


def test_a_sweep_is_mirrored_to_a_real_server(server: str, tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "outputs", [make_point(0, overrides=["x=" + "y" * 9000]), make_point(1)])
    tracker = open_store("server", server, "roofexp", tmp_path / "outputs")
    assert tracker.ui_command == server
    assert tracker.mirror(folder).new == 2
    again = open_store("server", server, "roofexp", tmp_path / "outputs")
    assert again.mirror(folder).unchanged == 2
    (parent,), (child, _) = runs_of(tracker, "sweep"), runs_of(tracker, "point")
    assert (parent.info.status, child.info.status) == ("FINISHED", "FINISHED")
    assert child.data.metrics["perf/flops_per_s"] == 1e9
    assert artifacts_of(tracker, child) == {"point.json", "samples.csv", ".hydra", "long_values.json"}
    assert "figures/roofline.svg" in artifacts_of(tracker, parent, "figures")
    tracker.runs.client.delete_experiment(tracker.runs.experiment_id)
    assert "deleted" in str(refusal("server", server, tmp_path))
