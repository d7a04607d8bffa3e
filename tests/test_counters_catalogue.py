"""The catalogue asks for what is needed, for nothing twice, and takes what a GPU does not have as unavailable."""

from __future__ import annotations

import itertools

import pytest

from roofexp.counters.flops import parse_tensor_name
from roofexp.errors import BadInputError
from roofexp.ncu.catalogue import LEVELS, catalogue, is_known, request, resolve, tensor_metrics

ARCHITECTURES = ["7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"]
PRECISIONS = ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("level", LEVELS)
def test_no_counter_is_asked_for_beside_one_that_contains_it(architecture: str, level: str) -> None:
    names = request(architecture, level)
    assert len(names) == len(set(names))
    counters = [found for name in names if (found := parse_tensor_name(name))]
    for one, other in itertools.permutations(counters, 2):
        assert not one.contains(other), f"{one.name} contains {other.name}"
    assert not {"dram__bytes.sum", "dram__bytes_read.sum"} <= set(names)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_a_point_needs_is_in_the_basic_level(architecture: str, precision: str) -> None:
    names = request(architecture, "basic", precision)
    assert {"dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum"} <= set(names)
    assert "sm__cycles_elapsed.avg.per_second" in names
    assert set(names) < set(request(architecture, "basic"))
    assert len(names) <= 20


def test_levels_grow() -> None:
    basic, hierarchy, diagnosis = (set(request("9.0", level)) for level in LEVELS)
    assert basic < hierarchy < diagnosis
    assert {"lts__t_sectors_srcunit_tex.sum", "l1tex__t_bytes.sum"} <= hierarchy - basic
    assert "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio" in diagnosis - hierarchy


@pytest.mark.parametrize(
    ("architecture", "precision", "metric"),
    [
        ("7.0", "fp16", "sm__ops_path_tensor_src_fp16_dst_fp32.sum"),
        ("7.5", "fp16", "sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32.sum"),
        ("8.0", "bf16", "sm__ops_path_tensor_src_bf16_dst_fp32.sum"),
        ("8.9", "fp8", "sm__ops_path_tensor_src_fp8.sum"),
        ("9.0", "fp16", "sm__ops_path_tensor_src_fp16.sum"),
        ("9.0", "fp64", "sm__ops_path_tensor_src_fp64.sum"),
        ("9.0", "int8", "sm__ops_path_tensor_src_int8.sum"),
        ("10.0", "fp8", "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum"),
        ("12.0", "fp8", "sm__ops_path_tensor_src_fp8_dst_fp32_sparsity_off.sum"),
        ("10.0", "fp32", "smsp__sass_thread_inst_executed_op_ffma2_pred_on.sum"),
        ("9.0", "fp32", "sm__ops_path_tensor_src_tf32_dst_fp32.sum"),  # TF32 that nobody asked for
    ],
)
def test_names_per_architecture(architecture: str, precision: str, metric: str) -> None:
    assert metric in request(architecture, "basic", precision)


def test_architectures_between_the_known_ones_take_the_one_before() -> None:
    assert request("8.7", "diagnosis") == request("8.6", "diagnosis")
    assert request("10.3") == request("10.0")
    with pytest.raises(BadInputError, match=r"6\.1.*7\.0"):
        request("6.1")
    with pytest.raises(BadInputError, match="basic, hierarchy, diagnosis"):
        request("9.0", "everything")


def test_packed_fp32_is_asked_for_on_blackwell_only() -> None:
    assert not [name for name in request("9.0", "basic", "fp32") if "ffma2" in name]


QUERY = """Device NVIDIA H200 (GH100)
------------------------------ --------------- -------------------------------------
Metric Name                    Metric Unit     Metric Description
------------------------------ --------------- -------------------------------------
dram__bytes_read               byte            # of bytes read from DRAM
gpu__time_duration             nsecond         incremental duration
"""


def test_metrics_that_are_not_offered_are_unavailable() -> None:
    asked = ["dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "launch__sm_count"]
    found = resolve(asked, QUERY)
    assert found.available == ["dram__bytes_read.sum", "gpu__time_duration.sum", "launch__sm_count"]
    assert list(found.unavailable) == ["dram__bytes_write.sum"]
    with pytest.raises(BadInputError, match="listed no metrics"):
        resolve(asked, "==ERROR== nothing")


def test_everything_asked_for_is_understood_when_it_comes_back() -> None:
    for architecture in ARCHITECTURES:
        for name in request(architecture, "diagnosis"):
            assert is_known(name), name


def test_every_entry_says_what_it_means() -> None:
    for group in ("flops", "bytes"):
        assert all(len(entry["meaning"]) > 10 for entry in catalogue()[group].values())
    assert all(parse_tensor_name(name) for names in tensor_metrics("12.0").values() for name in names)
