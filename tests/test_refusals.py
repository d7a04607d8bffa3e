"""Bad input gets one clear line, the right exit code, and costs no other point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofexp.config.explain import nearest


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (["size=abc"], ["size", "'abc'", "Integer"]),
        (["size=1,abc", "-m"], ["size", "'abc'", "Integer"]),
        (["kernel=nope"], ["kernel=nope", "saxpy", "gemm"]),
        (["kernel=saxpi"], ["did you mean saxpy"]),
        (["kernel=gem"], ["did you mean gemm?"]),
        (["precision=fp99"], ["precision=fp99", "fp64"]),
        (["fill=bogus"], ["fill", "normal, uniform, zeros"]),
        (["sise=3"], ["sise", "did you mean size"]),
        (["timing=soak", "timing.seconds=-3"], ["timing.seconds=-3", "more than 0"]),
        (["timing.budget_s=-1"], ["timing.budget_s=-1", "0 or more"]),
        (["timing.timeout_s=nan"], ["timing.timeout_s=nan", "more than 0"]),
        (["placing.on_roof=9"], ["placing.on_roof=9", "at most 1"]),
        (["timing.buget_s=3"], ["timing.buget_s", "did you mean budget_s"]),
        (["+timing.buget_s=3"], ["timing.buget_s", "did you mean budget_s"]),
        (["size=8,16"], ["size=8,16", "add -m"]),
        (["gemm"], ["gemm", "kernel=gemm"]),
        (["device=gpu"], ["device=gpu", "cpu, cpu:<cores>, cuda"]),
        (["resume=nowhere"], ["resume=nowhere", "sweep.yaml"]),
        (["outputs=/proc/nowhere"], ["/proc/nowhere", "cannot be written"]),
        (["experiment=nope"], ["experiment=nope", "quick"]),
        (["--config-dir", "nowhere"], ["nowhere"]),
    ],
)
def test_refused_before_any_job(program, tmp_path: Path, arguments: list[str], telling: list[str]) -> None:
    done = program(*arguments)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    for word in telling:
        assert word in lines[0]
    assert not list(tmp_path.glob("outputs/*/*/*/point.json"))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gem", "gemm"),
        ("gemm_t", "gemm_tiled"),
        ("gemv_", "gemv"),
        ("saxpi", "saxpy"),
        ("sofmax", "softmax"),
        ("axpy", "saxpy"),
        ("s", None),
        ("quicksort", None),
    ],
)
def test_the_nearest_name_completes_what_was_typed(typed: str, meant: str | None) -> None:
    assert nearest(typed, ["gemm_tiled", "gemv", "gemm", "saxpy", "softmax", "stencil"]) == meant


CANNOT_BE_BUILT = [
    ("size: 0", "size=0"),
    ("size: -4", "size=-4"),
    ("work: {flops: 2*q}", "unknown name 'q'"),
    ("size: 8\nshape: {n: size/3}", "whole number"),
    ("cpu: {function: 'stream/nope.py:f'}", "stream/nope.py"),
    ("cpu: {function: 'stream/saxpy.py:nope'}", "no function 'nope'"),
    ("cpu: {function: 'broken.py:saxpy'}", "broken.py(2): invalid syntax"),
    ("operands: {x: {role: input}}", "in, out, inout"),
    ("reference: a*x + z", "unknown name 'z'"),
]


def test_a_point_that_cannot_be_built_fails_with_its_reason(program, tmp_path: Path, sweep_folder) -> None:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernels").mkdir()
    (tmp_path / "mine/kernels/broken.py").write_text("def saxpy(x, y, a):\n    y[:] = a * x +\n")
    for number, (mistake, _) in enumerate(CANNOT_BE_BUILT):
        size = "" if mistake.startswith("size") else "size: 64\n"
        text = f"defaults: [saxpy, _self_]\nname: bad{number}\n{size}{mistake}\n"
        (tmp_path / f"mine/kernel/bad{number}.yaml").write_text(text)
    names = ",".join(f"bad{number}" for number in range(len(CANNOT_BE_BUILT)))
    done = program("--config-dir", "mine", f"kernel={names}", "-m")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    for number, (mistake, telling) in enumerate(CANNOT_BE_BUILT):
        record = json.loads((sweep_folder() / f"{number}/point.json").read_text())
        assert record["status"] == "failed", mistake
        assert telling in record["reason"]
        assert record["reason"] in done.stdout


def test_bad_sizes_cost_no_other_point(program, sweep_folder) -> None:
    done = program("kernel=saxpy", "size=256,-1,1024", "-m")
    records = [json.loads((sweep_folder() / f"{job}/point.json").read_text()) for job in range(3)]
    assert [record["status"] for record in records] == ["ok", "failed", "ok"]
    assert records[1]["overrides"][-1] == "size=-1"
    assert "2 ok, 1 failed" in done.stdout
    assert "size=-1" in done.stdout
    assert done.returncode == 1


def test_fail_fast_stops_at_the_first_failure(program, sweep_folder) -> None:
    done = program("kernel=saxpy", "size=256,-1,1024", "fail_fast=true", "-m")
    assert [path.parent.name for path in sorted(sweep_folder().glob("*/point.json"))] == ["0", "1"]
    assert done.returncode == 1


def test_what_the_cpu_cannot_do_is_skipped_with_the_reason(program, sweep_folder) -> None:
    done = program("kernel=gemm", "size=16", "precision=bf16,fp32", "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((sweep_folder() / "0/point.json").read_text())
    assert record["status"] == "skipped"
    assert "bf16" in record["reason"]
    assert "1 ok, 1 skipped" in done.stdout


def test_a_precision_that_the_kernel_is_not_written_for(program) -> None:
    done = program("kernel=saxpy", "size=16", "precision=fp8")
    assert "fp8" in done.stdout
    assert "written for fp64, fp32" in done.stdout


def test_what_does_not_fit_is_skipped_before_it_is_allocated(program, sweep_folder) -> None:
    done = program("kernel=gemm", "size=64,1000000,128", "-m")
    records = [json.loads((sweep_folder() / f"{job}/point.json").read_text()) for job in range(3)]
    assert [record["status"] for record in records] == ["ok", "skipped", "ok"]
    assert "does not fit: needs" in records[1]["reason"]
    assert "are free" in records[1]["reason"]
    assert done.returncode == 0


def test_a_key_twice_in_a_yaml(program, tmp_path: Path) -> None:
    folder = tmp_path / "my_conf/kernel"
    folder.mkdir(parents=True)
    (folder / "twice.yaml").write_text("name: twice\nsize: 4\nsize: 8\n")
    done = program("--config-dir", "my_conf", "kernel=twice")
    assert done.returncode == 2
    assert "twice.yaml" in done.stderr
    assert "line 3" in done.stderr
    assert "duplicate key" in done.stderr
