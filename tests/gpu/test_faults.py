"""A kernel that breaks costs its own point only, with the right cause: four of them in a sweep of twenty."""

from __future__ import annotations

import json
from pathlib import Path

SOURCE = """
extern "C" __global__ void half(const float* x, float* y, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (n == 1005) y[i + (1ll << 40)] = 1.0f;              // out of bounds
    if (n == 1009) for (volatile int spin = 1; spin;) {}   // never ends
    if (i < n) y[i] = n == 1015 ? __int_as_float(0x7fffffff) : 0.5f * x[i];
}
"""

YAML = """
name: half
size: 1000
shape: {n: "${size}"}
operands:
  x: {shape: [n], role: in}
  y: {shape: [n], role: out}
work: {flops: n, bytes: 2*n*itemsize}
reference: 0.5*x
precisions: [fp32]
cuda: {source: half.cu, entry: half, block: 256, grid: ceil(n / block)}
"""


def test_four_bad_kernels_among_twenty(program, tmp_path: Path, sweep_folder) -> None:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernels").mkdir()
    (tmp_path / "mine/kernel/half.yaml").write_text(YAML)
    (tmp_path / "mine/kernels/half.cu").write_text(SOURCE)
    sizes = [1000 + step for step in range(20)]
    sizes[12] = 200_000_000_000
    words = ["--config-dir", "mine", "kernel=half", f"size={','.join(map(str, sizes))}", "timing=quick", "-m"]
    done = program(*words, "timing.timeout_s=15", "tracking=none", "roofs=none", "device=cuda", bare=True)
    found = {}
    for file in sweep_folder().glob("*/point.json"):
        record = json.loads(file.read_text())
        found[record["job"]] = record
    assert len(found) == 20, done.stdout + done.stderr
    bad = {job: (record["status"], record["reason_kind"]) for job, record in found.items() if record["status"] != "ok"}
    assert bad == {
        5: ("failed", "kernel fault"),
        9: ("failed", "timeout"),
        12: ("skipped", "not possible here"),
        15: ("failed", "wrong result"),
    }, done.stdout
    assert "does not fit" in found[12]["reason"]
    assert "NaN" in found[15]["reason"]
    assert all(record["timing"]["median_s"] > 0 for record in found.values() if record["status"] == "ok")
    assert done.returncode == 1


def test_a_compile_error_shows_its_line(program, tmp_path: Path, sweep_folder) -> None:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernels").mkdir()
    (tmp_path / "mine/kernel/half.yaml").write_text(YAML)
    (tmp_path / "mine/kernels/half.cu").write_text(SOURCE.replace("0.5f * x[i]", "0.5f * z[i]"))
    words = ["--config-dir", "mine", "kernel=half", "tracking=none", "roofs=none", "device=cuda"]
    done = program(*words, bare=True)
    assert done.returncode == 1
    assert 'half.cu(6): identifier "z" is undefined' in done.stdout
