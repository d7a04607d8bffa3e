"""Real captures of ncu 2025.3.1 on an H200, read whole. The expected work is known from the kernels that ran."""

from __future__ import annotations

import gzip

import pytest
from ncu_text import DATA

from roofexp.counters.counts import Counts, derive
from roofexp.ncu.launch import Launch
from roofexp.ncu.report import read_report, read_report_file

N, GEMM = 1 << 26, 2 * 4096**3


def read(name: str) -> list[Launch]:
    if name.endswith(".gz"):
        return read_report(gzip.decompress((DATA / name).read_bytes()).decode(), name)
    return read_report_file(DATA / name)


def count(launches: list[Launch]) -> list[Counts]:
    return [
        derive(x.values, x.architecture, kernel=x.function, device_name=x.texts.get("device__attribute_display_name"))
        for x in launches
    ]


@pytest.fixture(scope="module")
def launches() -> list[Launch]:
    return read("h200_raw_base_nvtx.csv")


@pytest.fixture(scope="module")
def counts(launches: list[Launch]) -> list[Counts]:
    return count(launches)


def test_launches_are_found_by_their_range(launches: list[Launch]) -> None:
    assert [launch.launch for launch in launches] == list(range(15))
    assert {launch.process for launch in launches} == {465}
    found = {launch.nvtx[0]: launch.function for launch in launches}
    assert found["saxpy/size=67108864"] == "saxpy"
    assert found["gemm_tiled/size=2048/tile=8"] == "gemm_tiled"
    assert sum(launch.nvtx == ["gemm/size=256/fp32"] for launch in launches) == 4
    assert launches[0].architecture == "9.0"
    assert (launches[12].block, launches[12].grid) == ((8, 8, 1), (256, 256, 1))


def test_work_is_what_the_kernels_do(counts: list[Counts]) -> None:
    assert counts[0].flops == 2 * N  # saxpy
    assert counts[1].flops == 0  # copy
    assert counts[3].flops_by_type["fp16"] == 2 * N  # haxpy2: half2, two lanes
    assert counts[9].flops == pytest.approx(GEMM, rel=1e-3)
    assert counts[10].flops == GEMM
    assert counts[10].main_type == "fp16_tensor"
    assert counts[11].flops_by_type["fp64_tensor"] == GEMM
    assert counts[11].flops_by_type["fp64"] == 16777216
    assert [c.flops for c in counts[12:]] == pytest.approx([2 * 2048**3] * 3, rel=1e-3)


def test_streams_move_their_compulsory_bytes_through_the_caches(counts: list[Counts]) -> None:
    assert counts[0].l1_bytes == counts[0].l2_bytes == 12 * N
    assert counts[0].dram_bytes == pytest.approx(12 * N, rel=0.03)
    assert counts[1].l2_bytes == 8 * N
    # writes that still lie in L2 when the kernel ends never reach DRAM's counter
    assert counts[1].dram_bytes < 8 * N  # type: ignore[operator]


@pytest.mark.parametrize(("index", "tile"), [(12, 8), (13, 16), (14, 32)])
def test_tiles_keep_traffic_from_l1_but_not_from_dram(counts: list[Counts], index: int, tile: int) -> None:
    assert counts[index].l1_bytes == pytest.approx(8 * 2048**3 / tile, rel=0.01)
    assert counts[index].dram_bytes == pytest.approx(46.3e6, rel=0.01)


def test_l2_bytes_include_tma_loads_on_hopper(counts: list[Counts], launches: list[Launch]) -> None:
    """A product of 4096 through TMA and wgmma: its stores alone are n^2 values, what L2 counts is 27 times as much;
    L1's tag stage sees next to nothing, and the SMs receive more, as a multicast load reaches two of them."""
    stores = 4096**2 * 2
    received = launches[10].values["l1tex__m_xbar2l1tex_read_bytes.sum"]
    assert counts[10].l1_bytes == 12160
    assert counts[10].l2_bytes == pytest.approx(26.6 * stores, rel=0.01)
    assert received == pytest.approx(1.88 * (counts[10].l2_bytes - stores), rel=0.01)  # type: ignore[operator]


def test_time_clock_and_cycles_agree(counts: list[Counts]) -> None:
    assert [flag for c in counts for flag in c.flags] == []
    assert counts[0].time_s == pytest.approx(230912e-9)
    assert counts[9].sm_hz == pytest.approx(1.976e9, rel=1e-3)
    assert counts[10].sm_hz == pytest.approx(1.574e9, rel=1e-3)  # tensor work holds a lower clock
    assert counts[0].dram_peak_bytes_per_s == pytest.approx(6016 / 8 * 2 * 3.1991e9, rel=1e-3)


def test_throughputs_occupancy_and_stalls(counts: list[Counts]) -> None:
    assert (counts[0].sol_sm_pct, counts[0].sol_memory_pct) == (21.94, 70.83)
    assert counts[0].occupancy_limiter == "warps"
    assert max(counts[0].stalls, key=lambda reason: counts[0].stalls[reason]) == "long_scoreboard"
    assert max(counts[10].stalls, key=lambda reason: counts[10].stalls[reason]) == "barrier"


def test_scaled_export_gives_the_same_kernels(counts: list[Counts]) -> None:
    again = count(read("h200_raw_autounits.csv"))
    assert [c.time_s for c in again[:2]] == pytest.approx([c.time_s for c in counts[:2]], rel=0.01)
    assert again[0].flops == 2 * N
    assert again[10].flops is None  # a tensor kernel without its counter is unknown, not idle
    assert again[10].flags[0].name == "flops incomplete"


def test_details_page_is_read_by_its_labels(counts: list[Counts]) -> None:
    launches = read("h200_details_sol_warpstate_tensor.csv.gz")
    details = count(launches)
    assert len(launches) == 15
    for page, raw in zip(details, counts, strict=True):
        assert page.sol_sm_pct == pytest.approx(raw.sol_sm_pct, abs=0.6)
        assert page.time_s == pytest.approx(raw.time_s, rel=0.1)
    gemm = details[10]
    assert gemm.flops == GEMM
    assert gemm.peaks["fp16_tensor"] == 132 * 4096  # not the parent's 1081344, which is with sparsity
    assert gemm.dram_bytes == pytest.approx(counts[10].dram_bytes, rel=0.02)
    assert gemm.stalls["gmma"] == pytest.approx(counts[10].stalls["gmma"], rel=0.05)
    assert details[9].flops is None  # tensor counters that are 0 say nothing about an FFMA kernel


def test_a_metric_that_ncu_dropped_without_a_word_is_unknown() -> None:
    found = count(read("h200_unknown_metric.txt"))
    assert len(found) == 15
    assert found[0].flops is None
    assert found[0].dram_bytes == 786761216
    assert "no FLOP counter was collected" in found[0].notes


def test_launches_before_a_fault_are_good_and_the_faulty_one_says_why() -> None:
    launches = read("h200_bad_kernel.txt")
    found = count(launches)
    assert [c.dram_bytes for c in found[:2]] == [786587392, 515148032]
    assert [flag.name for flag in found[4].flags] == ["counters missing"]
    assert "LaunchFailed" in launches[4].notes
    assert "LaunchFailed" not in launches[0].notes
