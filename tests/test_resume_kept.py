"""A finished point is kept as what it is: no other configuration and no other code takes its place unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofexp.errors import BadInputError
from roofexp.kernel.code_version import kernel_code
from roofexp.run.kept import older_choice

YAML = """name: mine
size: 1000
shape: {n: "${size}"}
operands:
  x: {shape: [n], role: in}
  y: {shape: [n], role: out}
work: {flops: n, bytes: 2*n*itemsize}
reference: 2 * x
precisions: [fp64]
cpu: {function: "mine.py:twice"}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernels").mkdir()
    (tmp_path / "mine/kernel/mine.yaml").write_text(YAML)
    (tmp_path / "mine/kernels/mine.py").write_text("from helper import double\n\n\ndef twice(x, y): double(x, y)\n")
    (tmp_path / "mine/kernels/helper.py").write_text("def double(x, y): y[:] = 2 * x\n")
    return tmp_path / "mine"


def records(folder: Path) -> list[tuple[str, str]]:
    points = [json.loads(file.read_text()) for file in sorted(folder.glob("*/point.json"))]
    return [(point["point_id"], point["precision"]) for point in points]


@pytest.mark.parametrize(
    ("change", "telling"),
    [
        ("precision=fp64", "precision.name was fp32, and would be fp64"),
        ("timing.batch_s=0.002", "timing.batch_s was 0.001, and would be 0.002"),
        ("size=256,512,1024", "size was 1024, and would be 512"),
    ],
)
def test_a_changed_configuration_is_refused_and_nothing_is_touched(program, sweep_folder, change, telling) -> None:
    program("kernel=saxpy", "size=256,1024", "-m")
    folder = sweep_folder()
    before = records(folder)
    done = program(f"resume={folder}", change, bare=True)
    assert done.returncode == 2
    assert telling in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert records(folder) == before


def test_what_is_missing_may_be_more_than_before(program, sweep_folder) -> None:
    program("kernel=saxpy", "size=256,1024", "-m")
    before = records(sweep_folder())
    done = program(f"resume={sweep_folder()}", "size=256,1024,4096", bare=True)
    assert done.returncode == 0, done.stderr
    assert records(sweep_folder())[:2] == before
    assert len(records(sweep_folder())) == 3


def test_changed_code_asks_what_becomes_of_its_points(program, sweep_folder, mine: Path) -> None:
    program("--config-dir", "mine", "kernel=mine", "precision=fp64", "size=1000,2000", "-m")
    folder = sweep_folder()
    before = records(folder)
    (mine / "kernels/helper.py").write_text("def double(x, y):\n    y[:] = x + x\n")  # imported by the kernel's file
    refused = program("--config-dir", "mine", f"resume={folder}", bare=True)
    assert refused.returncode == 2
    assert "2 of 2 finished points were measured with older code" in refused.stderr
    assert "resume_older=measure" in refused.stderr
    kept = program("--config-dir", "mine", f"resume={folder}", "resume_older=keep", bare=True)
    assert kept.returncode == 0, kept.stderr
    assert records(folder) == before
    again = program("--config-dir", "mine", f"resume={folder}", "resume_older=measure", bare=True)
    assert again.returncode == 0, again.stderr
    assert not set(records(folder)) & set(before)
    assert program("--config-dir", "mine", f"resume={folder}", bare=True).returncode == 0


def test_the_hash_covers_what_a_kernel_includes(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text('#include "b.cuh"\n')
    (tmp_path / "b.cuh").write_text('#include "c.cuh"\n#include "b.cuh"\n')
    (tmp_path / "c.cuh").write_text("int c;\n")
    (tmp_path / "other.cuh").write_text("int other;\n")
    kernel = {"cuda": {"source": "a.cu"}, "cpu": None}
    before = kernel_code(kernel, [tmp_path])
    (tmp_path / "other.cuh").write_text("int another;\n")
    assert kernel_code(kernel, [tmp_path]) == before
    (tmp_path / "c.cuh").write_text("int d;\n")
    assert kernel_code(kernel, [tmp_path]) != before
    assert kernel_code({"cuda": {"source": "missing.cu"}}, [tmp_path]) != before


def test_the_choice_is_one_of_two() -> None:
    assert older_choice(["a=1", "resume_older=keep"]) == ("keep", ["a=1"])
    with pytest.raises(BadInputError, match="allowed: measure, keep"):
        older_choice(["resume_older=yes"])
