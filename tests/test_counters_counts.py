"""From counters to FLOPs, bytes and time: the arithmetic of the roofline, and everything that spoils it."""

from __future__ import annotations

import pytest
from ncu_text import DATA

from roofexp.counters.counts import Counts, derive
from roofexp.counters.flops import parse_tensor_name
from roofexp.ncu.report import read_report_file
from tests.recorded_faults import recorded

INST = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
DRAM, TIME = "dram__bytes.sum", "gpu__time_duration.sum"
TENSOR = "sm__ops_path_tensor_"


ACTIVE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"


def instructions(**numbers: float | None) -> dict[str, float | None]:
    return {INST.format(op): number for op, number in numbers.items()}


def of_file(name: str) -> list[Counts]:
    return [derive(x.values, x.architecture, kernel=x.function) for x in read_report_file(DATA / name)]


@pytest.mark.parametrize(("prefix", "kind"), [("f", "fp32"), ("d", "fp64")])
def test_fma_is_two_flops(prefix: str, kind: str) -> None:
    """RL-01."""
    ops = {f"{prefix}add": 1000, f"{prefix}mul": 500, f"{prefix}fma": 4000}
    counts = derive(instructions(**ops) | {DRAM: 4750, TIME: 1e-6})
    assert counts.flops == 9500
    assert counts.flops_by_type == {kind: 9500}
    assert counts.dram_bytes
    assert counts.flops / counts.dram_bytes == 2.0
    assert counts.flops / counts.time_s == pytest.approx(9.5e9)  # type: ignore[operator]


def test_dot_product_and_saxpy_have_their_textbook_intensity() -> None:
    """2 FLOPs for 12 bytes, 2 for 8: reads and writes of DRAM together."""
    n = 1 << 20
    saxpy = derive(instructions(ffma=n) | {"dram__bytes_read.sum": 8 * n, "dram__bytes_write.sum": 4 * n})
    dot = derive(instructions(ffma=n) | {DRAM: 8 * n})
    assert saxpy.flops / saxpy.dram_bytes == pytest.approx(1 / 6)  # type: ignore[operator]
    assert dot.flops / dot.dram_bytes == 0.25  # type: ignore[operator]


def test_tensor_operations_are_added_as_they_are() -> None:
    """RL-03 a."""
    (counts,) = of_file("rl03a_tensor_gemm_raw.csv")
    assert counts.flops_by_type == {"fp32": 16777216, "fp16_tensor": 137438953472}
    assert counts.flops == 137455730688
    assert counts.flops == pytest.approx(2 * 4096**3, rel=0.01)
    assert counts.flops / counts.dram_bytes == pytest.approx(819.3, abs=0.05)  # type: ignore[operator]
    assert counts.flops / counts.time_s == pytest.approx(221.703e12, rel=1e-5)  # type: ignore[operator]
    assert counts.main_type == "fp16_tensor"


def test_tensor_work_that_was_not_counted_makes_the_sum_unknown() -> None:
    """RL-03 b."""
    (counts,) = of_file("rl03b_tensor_gemm_no_ops_metric.csv")
    assert counts.flops is None
    assert counts.flops_by_type == {"fp32": 16777216}
    (flag,) = counts.flags
    assert flag.name == "flops incomplete"
    assert "33554432" in flag.message


def test_a_tensor_kernel_known_by_its_name_alone_is_not_idle() -> None:
    counts = derive(instructions(ffma=0) | {DRAM: 1000}, kernel="nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT")
    assert counts.flops is None
    assert [flag.name for flag in counts.flags] == ["flops incomplete"]
    assert derive(instructions(ffma=0) | {DRAM: 1000}, kernel="sgemm_128x128").flops == 0


def test_tensor_operations_of_another_type_than_those_counted() -> None:
    values = {f"{TENSOR}src_bf16_dst_fp32.sum": 0, "sm__inst_executed_pipe_tensor.sum": 1e6} | instructions(ffma=5)
    counts = derive(values, "9.0")
    assert counts.flops is None
    assert "other types" in counts.flags[0].message


def test_half_instructions_on_the_tensor_pipe_are_not_tensor_work() -> None:
    """HFMA2 runs there too: 32 threads of it are one instruction of the pipe."""
    values = instructions(ffma=0, hfma=32_000_000) | {"sm__inst_executed_pipe_tensor.sum": 1_000_000}
    assert derive(values).flags == []
    constants = instructions(ffma=8_589_934_592) | {"sm__inst_executed_pipe_tensor.sum": 131_072}
    assert derive(constants).flops == 2 * 8_589_934_592


def test_no_tensor_work_is_suspected_of_a_trace_of_activity() -> None:
    """Kernels without any tensor instruction, as an H200 counted them."""
    activity = {p.kernel: p.counted.facts["tensor_pipe_pct"] for p in recorded("faults").points if p.counted}
    for kernel in ("wave_healthy", "divergence_healthy", "special_functions"):
        values = {f"{TENSOR}src_tf32_dst_fp32.sum": 0.0, ACTIVE: activity[kernel]} | instructions(ffma=1_000_000)
        assert derive(values, "9.0").flops == 2_000_000, kernel
    working = {f"{TENSOR}src_tf32_dst_fp32.sum": 0.0, ACTIVE: 5.0} | instructions(ffma=1_000_000)
    assert derive(working, "9.0").flops is None


@pytest.mark.parametrize(("lanes", "flops"), [(2, 4 * 1000 + 2 * 30), (1, 2 * 1000 + 30)])
def test_half_lanes_come_from_the_kernel(lanes: int, flops: float) -> None:
    assert derive(instructions(hadd=10, hmul=20, hfma=1000), half_lanes=lanes).flops == flops


def test_copy_has_zero_flops_and_no_error() -> None:
    """RL-05."""
    (counts,) = of_file("rl05_copy_raw.csv")
    assert counts.flops == 0
    assert counts.dram_bytes / counts.time_s == pytest.approx(4.129776e12, rel=1e-6)  # type: ignore[operator]


def test_a_term_without_value_is_not_left_out_of_the_sum() -> None:
    counts = derive(instructions(fadd=10, fmul=0, ffma=None) | instructions(dfma=5) | {DRAM: None})
    assert counts.flops is None
    assert counts.flops_by_type == {"fp64": 10, "fp32": None}
    assert counts.dram_bytes is None


def test_a_term_that_was_not_asked_for_is_said_to_be_missing() -> None:
    counts = derive(instructions(ffma=10))
    assert counts.flops == 20
    assert any("fadd, fmul not collected" in note for note in counts.notes)


def test_parents_and_children_are_never_added() -> None:
    parent = f"{TENSOR}src_bf16_dst_fp32"
    leaves = {
        f"{TENSOR}op_{op}_src_bf16_dst_fp32_sparsity_{s}.sum": 10.0 for op in ("hgmma", "hmma") for s in ("on", "off")
    }
    assert derive({f"{parent}.sum": 40.0} | leaves).flops_by_type == {"bf16_tensor": 40}
    assert derive(dict(leaves)).flops_by_type == {"bf16_tensor": 40}
    both = {
        f"{TENSOR}src_fp8_dst_fp32.sum": 7.0,
        f"{TENSOR}op_qgmma_src_fp8.sum": 7.0,
    }  # two ways to split the same work
    assert derive(both).flops_by_type == {"fp8_tensor": 7}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("src_fp16_bf16_tf32_dst_fp32", "fp16_tensor"),
        ("src_fp4_fp6_fp8_dst_fp32", "fp8_tensor"),
        ("src_fp16_dst_fp16", "fp16_tensor_fp16_accumulate"),
        ("op_utcqmma_src_fp8_dst_fp32_sparsity_off", "fp8_tensor"),
        ("src_int8", "int8_tensor"),
        ("src_fp64", "fp64_tensor"),
    ],
)
def test_types_of_tensor_counters(name: str, kind: str) -> None:
    counter = parse_tensor_name(f"{TENSOR}{name}.sum")
    assert counter is not None
    assert counter.kind == kind


def test_packed_fp32_of_blackwell() -> None:
    ops = instructions(fadd=1, fmul=1, ffma=10)
    packed = derive(ops | instructions(fadd2=100, fmul2=100, ffma2=1000), "10.0")
    assert packed.flops == 22 + 200 + 200 + 4000
    old = derive(ops, "12.0")
    assert old.flops == 22
    assert [flag.name for flag in old.flags] == ["lower bound"]
    assert derive(ops, "9.0").flags == []


def test_time_from_cycles_and_clock() -> None:
    counts = derive({"sm__cycles_elapsed.avg": 1250000.5, "sm__cycles_elapsed.avg.per_second": 1250000500})
    assert counts.time_s == pytest.approx(1e-3, rel=1e-12)


@pytest.mark.parametrize(
    ("cycles", "flagged"), [(1_000_000, False), (1_019_000, False), (1_021_000, True), (800_000, True)]
)
def test_cycles_must_be_time_times_clock_within_two_percent(cycles: float, flagged: bool) -> None:
    counts = derive({"sm__cycles_elapsed.avg": cycles, "sm__cycles_elapsed.avg.per_second": 1e9, TIME: 1e-3})
    assert [flag.name for flag in counts.flags] == (["clock mismatch"] if flagged else [])


def test_bytes_from_reads_and_writes_sectors_and_rates() -> None:
    assert derive({"dram__bytes_read.sum": 5, "dram__bytes_write.sum": 6}).dram_bytes == 11
    assert derive({DRAM: 11, "dram__bytes_read.sum": 5, "dram__bytes_write.sum": 6}).dram_bytes == 11
    assert derive({"dram__bytes_read.sum": 5, "dram__bytes_write.sum": None}).dram_bytes is None
    assert derive({"dram__bytes_read.sum": 5}).dram_bytes is None
    assert derive({"lts__t_sectors_srcunit_tex.sum": 4, "lts__t_bytes.sum": 999}).l2_bytes == 128
    assert derive({"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 3}).shared_bytes == 384
    rated = derive({"dram__bytes.sum.per_second": 2e12, TIME: 1e-3})
    assert rated.dram_bytes == pytest.approx(2e9)
    assert any("rates" in note for note in rated.notes)


def test_flops_of_ncus_own_roofline_section() -> None:
    """It prints rates per cycle, with the FMA doubled already, and no sums."""
    values: dict[str, float | None] = {
        INST.format("fadd") + ".per_cycle_elapsed": 100.0,
        INST.format("fmul") + ".per_cycle_elapsed": 50.0,
        "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2": 800.0,
        "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2": 33792.0,
        "smsp__cycles_elapsed.avg.per_second": 1e9,
        TIME: 1e-3,
    }
    counts = derive(values)
    assert counts.flops == pytest.approx(950 * 1e6)
    assert counts.peaks == {"fp32": 33792}


def test_peak_of_a_tensor_type_is_the_dense_one() -> None:
    """ncu's parent has the peak with sparsity, twice as high."""
    values: dict[str, float | None] = {
        f"{TENSOR}src_bf16_dst_fp32.sum": 1e9,
        f"{TENSOR}src_bf16_dst_fp32.sum.peak_sustained": 24576.0,
        f"{TENSOR}src_bf16_dst_fp32_sparsity_off.sum.peak_sustained": 12288.0,
    }
    assert derive(values).peaks == {"bf16_tensor": 12288}


def test_diagnosis() -> None:
    values: dict[str, float | None] = {
        "sm__warps_active.avg.pct_of_peak_sustained_active": 73.9,
        "launch__occupancy_limit_registers": 16,
        "launch__occupancy_limit_warps": 8,
        "launch__waves_per_multiprocessor": 248.24,
        "launch__registers_per_thread": 16,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 3200,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 100,
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 45.48,
    }
    counts = derive(values)
    assert counts.occupancy_limiter == "warps"
    assert (counts.occupancy_pct, counts.waves, counts.registers) == (73.9, 248.24, 16)
    assert counts.sectors_per_load == 32
    assert counts.stalls == {"long_scoreboard": 45.48}
