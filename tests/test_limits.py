"""Limits must be the published ones: a wrong rate makes every share of a peak wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofexp.errors import BadInputError
from roofexp.placing.limits import architecture_rates, bandwidth_envelope, load_machine_limits, machine_names

# published dense peaks in TFLOP/s (TOP/s) and, last, GB/s by bus width and clock
# fmt: off
PUBLISHED = {
    "v100_sxm2": {"fp64": 7.8, "fp32": 15.7, "fp16": 31.3, "fp16_tensor": 125.0, "dram": 898},
    "a100_sxm_80": {
        "fp64": 9.7, "fp64_tensor": 19.5, "fp32": 19.5, "fp16": 78.0, "tf32": 156.0, "bf16_tensor": 312.0,
        "int8": 624.0, "dram": 2039,
    },
    "h100_sxm": {
        "fp64": 33.5, "fp64_tensor": 66.9, "fp32": 66.9, "fp16": 133.8, "tf32": 494.7, "bf16_tensor": 989.4,
        "fp8": 1978.9, "int8": 1978.9, "dram": 3352,
    },
    "h100_pcie": {
        "fp64": 25.6, "fp64_tensor": 51.2, "fp32": 51.2, "tf32": 378.0, "bf16_tensor": 756.0, "fp8": 1513.0,
        "dram": 2039,
    },
    "h200": {"fp64_tensor": 66.9, "fp32": 66.9, "bf16_tensor": 989.4, "fp8": 1978.9, "dram": 4814},
    "b200": {"fp64": 37.2, "tf32": 1125.0, "bf16_tensor": 2250.0, "fp8": 4500.0, "fp4": 9000.0, "dram": 7672},
    "l40s": {"fp32": 91.6, "tf32": 183.0, "bf16_tensor": 366.0, "fp8": 733.0, "dram": 864},
    "rtx_4090": {
        "fp32": 82.6, "bf16_tensor": 165.2, "fp16_tensor_fp16_accumulate": 330.3, "fp8": 330.3, "int8": 660.6,
        "dram": 1008,
    },
    "rtx_4060_laptop": {"fp32": 14.6, "bf16_tensor": 29.1, "fp16_tensor_fp16_accumulate": 58.2, "dram": 256},
    "rtx_5090": {
        "fp32": 104.8, "bf16_tensor": 209.5, "fp16_tensor_fp16_accumulate": 419.0, "fp8": 419.0, "fp4": 1676.0,
        "dram": 1792,
    },
}
# fmt: on


@pytest.mark.parametrize("machine", sorted(PUBLISHED))
def test_products_are_the_published_peaks(machine: str) -> None:
    limits = load_machine_limits(machine)
    published = dict(PUBLISHED[machine])
    assert limits.dram_bytes_per_s_by_clock == pytest.approx(published.pop("dram") * 1e9, rel=1e-3)
    assert limits.dram_bytes_per_s == pytest.approx(limits.dram_bytes_per_s_by_clock, rel=0.02)
    for precision, tflops in published.items():
        assert limits.peak_flops_per_s(precision) == pytest.approx(tflops * 1e12, rel=0.005), precision


def test_every_machine_file_is_checked() -> None:
    assert machine_names() == sorted(PUBLISHED)


@pytest.mark.parametrize("machine", sorted(PUBLISHED))
def test_machines_agree_with_the_rates_of_their_architecture(machine: str) -> None:
    limits = load_machine_limits(machine)
    rates = architecture_rates(limits.architecture, limits.name)
    assert rates is not None
    assert limits.flop_per_cycle_per_sm == rates.flop
    assert limits.l1_bytes_per_cycle_per_sm == rates.l1_bytes


def test_hopper_has_two_clocks_and_an_observed_clock_replaces_both() -> None:
    h200 = load_machine_limits("h200")
    assert h200.peak_flops_per_s("bf16_tensor") == 132 * 4096 * 1.83e9
    assert h200.peak_flops_per_s("fp64_tensor") == 132 * 256 * 1.98e9
    assert h200.peak_flops_per_s("bf16_tensor", hz=1.98e9) == pytest.approx(1070.5e12, rel=1e-4)


def test_tensor_only_precisions_are_found_with_and_without_suffix() -> None:
    h200 = load_machine_limits("h200")
    assert h200.peak_flops_per_s("tf32_tensor") == h200.peak_flops_per_s("tf32")
    assert h200.peak_flops_per_s("fp32_tensor") is None  # no tensor core computes in fp32
    assert h200.peak_flops_per_s("fp4") is None


def test_unknown_card_of_a_split_architecture_has_no_guessed_rate() -> None:
    unnamed = architecture_rates("8.9")
    assert unnamed is not None
    assert "bf16_tensor" not in unnamed.flop
    assert unnamed.flop["fp32"] == 256
    between = architecture_rates("8.7", "Orin")
    assert between is not None
    assert between.flop["bf16_tensor"] == 1024
    assert architecture_rates("6.1") is None


def test_envelope_over_the_access_mixes() -> None:
    """RL-07: a kernel of 3.55 TB/s stays below a roof that has seen reads, and passes one of triad alone."""
    whole = bandwidth_envelope({"copy": 3.20e12, "triad": 3.30e12, "read": 3.70e12, "write": 3.50e12})
    assert (whole.bytes_per_s, whole.mix, whole.missing) == (3.70e12, "read", [])
    assert 3.55e12 / whole.bytes_per_s == pytest.approx(0.959, abs=5e-4)
    triad = bandwidth_envelope({"triad": 3.30e12})
    assert 3.55e12 / triad.bytes_per_s == pytest.approx(1.076, abs=5e-4)
    assert triad.missing == ["read", "write", "copy"]


def test_unknown_machine_lists_the_known_ones() -> None:
    with pytest.raises(BadInputError, match=r"'h300'.*h100_sxm.*h200"):
        load_machine_limits("h300")
    with pytest.raises(BadInputError, match="known"):
        load_machine_limits("../kernel/saxpy")


def test_machine_file_with_a_wrong_value_names_the_key(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\narchitecture: '9.0'\nsm_count: many\n")
    with pytest.raises(BadInputError, match="sm_count"):
        load_machine_limits(str(file))
