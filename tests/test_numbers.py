"""Numbers of the right type that nothing can be measured with: refused where they enter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofexp.config.numbers import LARGEST, check_numbers, check_swept
from roofexp.errors import BadInputError
from roofexp.kernel.formula import evaluate_count

HUGE = str(10**30)


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (["kernel.scalars.a=2.0,nan", "-m"], "kernel.scalars.a=nan: allowed: a finite number"),
        (["kernel.scalars.a=-inf"], "kernel.scalars.a=-inf"),
        (["precision.tolerance=inf"], "precision.tolerance=inf: allowed: 0 or more, finite"),
        (["+kernel.tolerance.fp32=nan"], "kernel.tolerance.fp32=nan"),
        (["timing.budget_s=-5,1", "-m"], "timing.budget_s=-5: allowed: 0 or more"),
        (["timing.timeout_s=inf"], "timing.timeout_s=inf: allowed: more than 0, finite"),
        (["timing.max_samples=0"], "timing.max_samples=0: allowed: 2 or more"),
        (["timing.max_samples=30,1", "-m"], "timing.max_samples=1"),
        (["timing.min_samples=5,50", "timing.max_samples=20", "-m"], "max_samples=20: allowed: timing.min_samples=50"),
        (["seed=1,18446744073709551616", "-m"], "seed=18446744073709551616: allowed: 0 or more, at most 2^63 - 1"),
        ([f"size={HUGE}"], f"size={HUGE}: allowed: 1 or more"),
        ([f"+kernel.params.tile={HUGE}"], "kernel.params.tile="),
        (["counters.timeout_s=0"], "counters.timeout_s=0"),
    ],
)  # fmt: skip
def test_refused_before_the_sweep(program, tmp_path: Path, arguments: list[str], telling: str) -> None:
    done = program("kernel=saxpy", "timing.min_samples=5", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert telling in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "outputs").exists()


def test_a_size_too_large_costs_its_own_point(program, sweep_folder) -> None:
    done = program("kernel=saxpy", f"size=100,{HUGE},{2**62},200", "-m")
    records = [json.loads((sweep_folder() / f"{job}/point.json").read_text()) for job in range(4)]
    assert [record["status"] for record in records] == ["ok", "failed", "failed", "ok"]
    assert "at most 2^63 - 1" in records[1]["reason"]
    assert "take more than 2^63 bytes" in records[2]["reason"]
    assert done.returncode == 1


@pytest.mark.parametrize("formula", ["10**30", 10**30, 1e300, "10**5000"])
def test_what_a_formula_counts_is_bounded(formula: str | float) -> None:
    with pytest.raises(BadInputError, match=r"2\^63"):
        evaluate_count(formula, {}, "work.flops")


def test_a_kernel_that_is_swept_over_is_judged_by_itself() -> None:
    swept = {"kernel": ["a", "b"], "timing.noise": ["inf"]}
    check_swept({"size": 8, "timing": {"noise": 0.1}, "kernel": {"scalars": {"a": float("nan")}}}, swept)
    with pytest.raises(BadInputError, match=r"kernel\.scalars\.a"):
        check_numbers({"kernel": {"scalars": {"a": float("nan")}}})
    check_numbers({"size": LARGEST, "kernel": {"params": {"order": [1, "x", True]}}})
