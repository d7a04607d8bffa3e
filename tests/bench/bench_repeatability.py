"""Medians of the same points measured twice, in two runs of the program. Prints their ratios, and who was disturbed.

make bench        (or: python -m pytest tests/bench/bench_repeatability.py -s)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ALLOWED = 0.03
DISTURBED = {"noisy", "drifting", "machine not quiet", "clock moved"}
SWEEPS = (  # compute-bound, bandwidth-bound, in a cache, and in between
    ["kernel=gemm", "size=1024,2048", "precision=fp64,fp32"],
    ["kernel=triad,softmax", "precision=fp32"],
    ["kernel=intensity", "precision=fp64", "kernel.params.k=2,64"],
    ["kernel=triad", "size=100000", "cache=hot"],
)

Median = tuple[float, list[str]]


def medians(folder: Path, name: str) -> dict[str, Median]:
    """Median and flags of every point, by its overrides."""
    found: dict[str, Median] = {}
    for number, words in enumerate(SWEEPS):
        settings = ["device=cpu", "roofs=none", "tracking=none", "figures=none", f"name={name}{number}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "roofexp", *settings, *words, "-m"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        for file in folder.glob(f"outputs/{name}{number}/*/*/point.json"):
            record = json.loads(file.read_text())
            label = " ".join(word for word in record["overrides"] if word not in settings)
            found[label] = (record["timing"]["median_s"], [flag["name"] for flag in record["flags"]])
    return found


@pytest.mark.timeout(1800)
def test_medians_repeat(tmp_path: Path) -> None:
    first, second = medians(tmp_path, "first"), medians(tmp_path, "second")
    assert first.keys() == second.keys()
    outcomes = []
    print()
    for label, (median_s, flags) in first.items():
        again_s, again_flags = second[label]
        ratio = again_s / median_s
        outcomes.append((abs(ratio - 1) <= ALLOWED, bool(DISTURBED & {*flags, *again_flags})))
        said = "; ".join(", ".join(found) or "no flag" for found in (flags, again_flags))
        print(f"{ratio:6.3f}  {median_s * 1e3:9.4f} ms  {label}  ({said})")
    undisturbed = [within for within, disturbed in outcomes if not disturbed]
    print(
        f"{sum(within for within, _ in outcomes)} of {len(outcomes)} points repeat within {ALLOWED:.0%}; of "
        f"{len(undisturbed)} that neither run says were disturbed, {sum(undisturbed)} do"
    )
    assert all(undisturbed), "a median that does not repeat has no flag that says so"
