"""A sweep from its command to its files, as a user meets it."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from roofexp.errors import BadInputError
from roofexp.run.claim import claim_folder
from tests.conftest import QUICK, ROOT, python_path


def records(folder: Path) -> list[dict]:
    files = sorted(folder.glob("*/point.json"), key=lambda file: int(file.parent.name))
    return [json.loads(file.read_text()) for file in files]


def test_a_sweep_writes_everything_that_it_measured(program, sweep_folder) -> None:
    done = program("kernel=vadd", "cache=cold", "figures=screen", "size=1000,100000", "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = sweep_folder()
    assert [file.name for file in folder.glob("figures/roofline_*.svg")]
    for record in records(folder):
        assert record["status"] == "ok"
        assert record["check"]["error"] <= record["check"]["tolerance"]
        assert record["timing"]["p5_s"] <= record["timing"]["median_s"] <= record["timing"]["p95_s"]
        assert record["clock"]["compute_hz"] > 1e8
        samples = list(csv.DictReader((folder / f"{record['job']}/samples.csv").open()))
        assert len(samples) == record["timing"]["samples"]
        assert (folder / f"{record['job']}/.hydra/overrides.yaml").is_file()
    rows = list(csv.DictReader((folder / "points.csv").open()))
    assert [row["size"] for row in rows] == ["1000", "100000"]
    assert all(float(row["time_s"]) > 0 for row in rows)
    sweep = yaml.safe_load((folder / "sweep.yaml").read_text())
    assert sweep["overrides"][-1] == "size=1000,100000"
    assert sweep["machines"]


def test_a_sweep_names_no_host_and_no_path(program, sweep_folder, tmp_path: Path) -> None:
    program("kernel=vadd", "size=1000", "-m")
    for file in [sweep_folder() / "sweep.yaml", sweep_folder() / "0/point.json", sweep_folder() / "points.csv"]:
        assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", file.read_text())
        assert str(tmp_path) not in file.read_text()


def test_a_plain_run_lies_as_a_sweep_of_one_does(program, sweep_folder) -> None:
    program("kernel=vadd", "size=1000")
    plain = sweep_folder()
    assert (plain / "0/point.json").is_file()
    assert (plain / "points.csv").is_file()
    time.sleep(1)
    program("kernel=vadd", "size=1000", "-m")
    assert {path.name for path in sweep_folder().iterdir()} == {path.name for path in plain.iterdir()} | {
        "multirun.yaml"
    }


def test_one_store_wherever_jobs_run(program, tmp_path: Path) -> None:
    program("kernel=vadd", "size=1000,2000", "hydra.job.chdir=true", "-m")
    assert len(list((tmp_path / "outputs").glob("vadd/*/*/point.json"))) == 2
    assert not list(tmp_path.glob("outputs/**/outputs"))


def test_values_that_follow_one_another_make_no_grid(program, sweep_folder) -> None:
    program("kernel=gemm", "size=16,32", "kernel.shape.k=${size}", "-m")
    assert [record["shape"]["k"] for record in records(sweep_folder())] == [16, 32]
    assert len((sweep_folder() / "points.csv").read_text().splitlines()) == 3


def test_users_bring_kernels_without_touching_the_program(program, tmp_path: Path, sweep_folder) -> None:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernels").mkdir()
    (tmp_path / "mine/kernel/double.yaml").write_text(
        "name: double\nsize: 1000\nshape: {n: '${size}'}\noperands:\n  x: {shape: [n], role: in}\n"
        "  y: {shape: [n], role: out}\nwork: {flops: n, bytes: 2*n*itemsize}\nreference: 2*x\n"
        "precisions: [fp32]\ncpu: {function: 'double.py:double'}\n"
    )
    (tmp_path / "mine/kernels/double.py").write_text("def double(x, y):\n    y[:] = 2 * x\n")
    done = program("--config-dir", "mine", "kernel=double")
    assert done.returncode == 0, done.stdout + done.stderr
    assert records(sweep_folder())[0]["work"]["flops"] == 1000


FAULTS = [
    ("y[:] = 3 * x", "wrong result", "off by"),
    ("y[: len(y) // 2] = 2 * x[: len(y) // 2]", "wrong result", "unwritten"),
    ("y[:] = float('nan')", "wrong result", "NaN"),
    ("os.kill(os.getpid(), 11)", "crash", "SIGSEGV"),
    ("os.kill(os.getpid(), 9)", "out of memory", "memory"),
    ("raise MemoryError('no more')", "out of memory", "no more"),
    ("raise RuntimeError('broken')", "error", "broken"),
]
HANG = ("time.sleep(600)", "timeout", "time")


def write_faults(folder: Path, faults: list[tuple[str, str, str]]) -> None:
    """A kernel that is right at even sizes and has its n-th fault at size 2 n + 1."""
    (folder / "kernel").mkdir(parents=True)
    (folder / "kernels").mkdir()
    (folder / "kernel/bad.yaml").write_text(
        "name: bad\nsize: 1000\nshape: {n: '${size}'}\noperands:\n  x: {shape: [n], role: in}\n"
        "  y: {shape: [n], role: out}\nwork: {flops: n, bytes: 2*n*itemsize}\nreference: 2*x\n"
        "precisions: [fp32]\ncpu: {function: 'bad.py:bad'}\n"
    )
    lines = ["import os, time", "def bad(x, y):", "    y[:] = 2 * x", "    if len(x) % 2: y[:] = float('nan')"]
    lines += [f"    if len(x) == {2 * number + 1}: {body}" for number, (body, _, _) in enumerate(faults)]
    (folder / "kernels/bad.py").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(("faults", "settings"), [(FAULTS, []), ([HANG], ["timing.timeout_s=10"])])
def test_a_bad_kernel_costs_its_own_point_only(program, tmp_path: Path, sweep_folder, faults, settings) -> None:
    write_faults(tmp_path / "mine", faults)
    sizes = f"size=range(1,{2 * len(faults) + 1})"
    done = program("--config-dir", "mine", "kernel=bad", sizes, *settings, "-m")
    found = records(sweep_folder())
    assert [record["status"] for record in found] == ["failed", "ok"] * len(faults), done.stdout + done.stderr
    for record, (body, kind, telling) in zip(found[::2], faults, strict=True):
        assert record["reason_kind"] == kind, body
        assert telling in record["reason"]
        assert record.get("timing") is None
    assert done.returncode == 1


def test_resume_measures_only_what_is_missing(program, sweep_folder, tmp_path: Path, cache_folder: Path) -> None:
    sizes = ",".join(str(1000 + step) for step in range(12))
    words = [
        *QUICK,
        "kernel=vadd",
        f"size={sizes}",
        "timing.min_samples=5",
        "timing.budget_s=0.3",
        "timing.target=1e-9",
        "-m",
    ]
    running = subprocess.Popen(
        [sys.executable, "-m", "roofexp", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache_folder)},
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("outputs/*/*/*/point.json"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    folder = sweep_folder()
    kept = {record["job"]: record["point_id"] for record in records(folder)}
    assert 4 <= len(kept) < 12
    done = program(f"resume={folder.relative_to(tmp_path)}", bare=True)
    assert done.returncode == 0, done.stdout + done.stderr
    after = records(folder)
    assert [record["job"] for record in after] == list(range(12))
    assert all(record["point_id"] == kept[record["job"]] for record in after if record["job"] in kept)
    assert [record["size"] for record in after] == [1000 + step for step in range(12)]
    assert len((folder / "points.csv").read_text().splitlines()) == 13


def test_ctrl_c_keeps_what_was_measured(sweep_folder, tmp_path: Path, cache_folder: Path) -> None:
    words = [*QUICK, "kernel=vadd", "size=range(1000,1050)", "timing.budget_s=0.3", "timing.target=1e-9", "-m"]
    running = subprocess.Popen(
        [sys.executable, "-m", "roofexp", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache_folder)},
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("outputs/*/*/*/point.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    assert "resume=" in errors
    assert (sweep_folder() / "points.csv").is_file()


def test_joblib_processes_share_one_sweep(program, sweep_folder) -> None:
    done = program("kernel=vadd", "size=1000,2000,3000", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record["status"] for record in records(sweep_folder())] == ["ok"] * 3
    assert len({record["sweep_id"] for record in records(sweep_folder())}) == 1
    assert "3 ok" in done.stdout


def test_no_gpu_is_said_and_a_gpu_that_was_named_is_not_replaced(program, tmp_path: Path) -> None:
    from roofexp.devices.cuda.machine import why_no_cuda

    if why_no_cuda(0) is None:
        pytest.skip("this machine has a GPU")
    named = program("kernel=vadd", "size=1000", "device=cuda", "counters=basic")
    assert named.returncode == 2
    assert "goes on" not in named.stdout  # without ncu too: nothing goes on
    assert "device=cuda: " in named.stderr
    assert not list(tmp_path.glob("outputs/*/*/sweep.yaml"))  # else the next one, in the same second, would be refused
    auto = program("kernel=vadd", "size=1001", "device=auto")
    assert auto.returncode == 0
    assert "device: " in auto.stdout


def test_sweeps_that_start_in_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "gemm" / "2026-12-01_10-00-00"
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: claim_folder(folder, None), range(8)))
    names = sorted(claimed.name for claimed, _ in claims)
    assert len(set(names)) == 8
    assert names[0] == folder.name
    assert all(lock.is_locked for _, lock in claims)


def test_a_folder_that_is_worked_in_is_not_resumed(tmp_path: Path) -> None:
    folder, lock = claim_folder(tmp_path / "2026-12-01_10-00-00", None)
    with pytest.raises(BadInputError, match="another process is measuring this sweep"):
        claim_folder(folder, folder.resolve())
    lock.release()
    assert claim_folder(folder, folder.resolve())[0] == folder


def test_a_folder_that_the_user_names_may_hold_other_things_but_no_sweep(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("kept")
    claimed, lock = claim_folder(tmp_path / "mine", None)
    assert claimed == tmp_path / "mine"
    lock.release()
    (claimed / "sweep.yaml").write_text("sweep_id: a")
    with pytest.raises(BadInputError, match="already contains a sweep; continue it with resume="):
        claim_folder(tmp_path / "mine", None)


def test_more_cores_than_there_are_are_skipped(program, sweep_folder) -> None:
    done = program("kernel=vadd", "size=1000", "device=cpu:1,cpu:4096", "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    one, many = records(sweep_folder())
    assert (one["status"], many["status"], many["device"]) == ("ok", "skipped", "cpu")
    assert many["reason"].startswith("device=cpu:4096 asks for 4096 cores, ")
    assert "1 ok, 1 skipped" in done.stdout


def test_a_sweep_outlives_the_reader_of_its_output(sweep_folder, tmp_path: Path, cache_folder: Path) -> None:
    command = " ".join([sys.executable, "-m", "roofexp", *QUICK, "kernel=vadd", "'size=1000,2000,4000'", "-m"])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | head -1"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache_folder)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert len((sweep_folder() / "points.csv").read_text().splitlines()) == 4


FULL_DISK = """
import errno, os
sync, left = os.fsync, 10
def fsync(file):
    global left
    left -= 1
    if left < 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    sync(file)
os.fsync = fsync
"""


def test_a_full_disk_keeps_what_was_measured(program, sweep_folder, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/sitecustomize.py").write_text(FULL_DISK)
    full = os.pathsep.join([str(tmp_path / "full"), python_path()])
    done = program("kernel=vadd", "size=range(1000,1008)", "-m", PYTHONPATH=full)
    folder = sweep_folder()
    kept = {record["job"]: record["point_id"] for record in records(folder)}
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(rf"{folder.relative_to(tmp_path)}/{len(kept)}/\w+\.\w+: No space left on device", done.stderr)
    assert f"stopped: {len(kept)} points are kept; continue with resume={folder.relative_to(tmp_path)}" in done.stderr
    assert 0 < len(kept) < 8
    done = program(f"resume={folder.relative_to(tmp_path)}", bare=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record["job"] for record in records(folder)] == list(range(8))
    assert all(record["point_id"] == kept[record["job"]] for record in records(folder) if record["job"] in kept)
    assert len((folder / "points.csv").read_text().splitlines()) == 9
