"""Roofs under hardware counters: formulas and peaks against what one NVIDIA H200 counted (ncu 2025.3.1)."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from roofexp.config.paths import conf_folder, kernels_folder
from roofexp.devices.cuda.code import compile_source, defines_of
from roofexp.ncu.launch import Launch, Metric
from roofexp.records.machine import Roof, RoofCheck
from roofexp.roofs.assembly import assemble
from roofexp.roofs.benchmark import kernel_of
from roofexp.roofs.counter_check import Counted, against_formula, checked, metrics_of
from roofexp.roofs.precompile import disassemble, hot_loop
from roofexp.roofs.table import checks_text, mixes_text
from tests.test_roofs_command import H200, benchmarks, gpu_outcome

CAPTURE = Path(__file__).parent / "data/ncu/h200_counted_points.csv.gz"
PIPES = {  # ncu's own percentage of the roofs' kernels
    "fp32 fma": 98.99, "fp64 fma": 99.80, "fp64 tensor fp64": 99.39, "tf32 tensor": 49.23, "fp16 tensor": 49.04,
    "bf16 tensor": 49.35, "fp8 tensor": 49.10, "int8 tensor": 49.54,
}  # fmt: skip
L2_BYTES = 62_914_560
L2_RATES = {"read": 8.494e12, "write": 4.31e12, "copy": 7.666e12, "triad": 10.386e12}
STREAM_ARRAYS = {"read": 1, "write": 1, "copy": 2, "triad": 3}
INTEGERS = "smsp__sass_thread_inst_executed_op_integer_pred_on.sum"


def launch_of(values: dict[str, float]) -> Launch:
    metrics = {name: Metric(value, "") for name, value in values.items()}
    return Launch(process=1, launch=0, kernel="k", metrics=metrics, architecture="9.0")


def counted_of(name: str, precision: str, values: dict[str, float]) -> Counted:
    benchmark = benchmarks(precision)[name]
    return Counted(benchmark, kernel_of(benchmark, H200, [conf_folder()]), [launch_of(values)])


def new_checks(roof: Roof, *counted: Counted) -> dict[str, RoofCheck]:
    return {check.name: check for check in checked(roof, counted, H200).checks if check.name != "limit"}


def compute_roof(name: str, precision: str) -> Roof:
    (roof,) = assemble([gpu_outcome(name, 1e12, precision)], H200)
    return roof


def captured(case: str) -> dict[str, float]:
    with gzip.open(CAPTURE, "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["case"] == case]
    return {row["metric"]: float(row["value"]) for row in rows if row["metric"].startswith(("dram__", "lts__"))}


def test_counted_flops_and_the_pipe_against_the_formula() -> None:
    (roof,) = assemble([gpu_outcome("fp32 fma", 66e12, "fp32")], H200)
    prefix = "smsp__sass_thread_inst_executed_op_"
    values = {f"{prefix}{op}_pred_on.sum": 0.0 for op in ("fadd", "fmul")}
    values |= {f"{prefix}ffma_pred_on.sum": 283_471_761_408 / 2}
    good = checked(roof, [counted_of("fp32 fma", "fp32", values)], H200)
    assert [(check.name, check.passed) for check in good.checks] == [("limit", True), ("flops", True)]
    assert good.incomplete is None
    values[f"{prefix}ffma_pred_on.sum"] *= 0.97
    bad = checked(roof, [counted_of("fp32 fma", "fp32", values)], H200)
    assert bad.incomplete == "flops: counted 0.97 times what the formula says"


@pytest.mark.parametrize("name", PIPES)
def test_the_pipe_is_compared_with_the_dense_part_of_ncus_peak(name: str) -> None:
    """Beside 99.0, 99.9, 99.0, 98.8, 98.2, 99.0, 98.6 and 99.4 % of units times rate times clock in the same run."""
    precision = name.split()[0]
    metric = str(benchmarks(precision)[name].pipe)
    roof = checked(compute_roof(name, precision), [counted_of(name, precision, {metric: PIPES[name]})], H200)
    (pipe,) = [check for check in roof.checks if check.name == "pipe"]
    assert pipe.passed
    assert pipe.found == PIPES[name]
    assert pipe.found / float(pipe.expected or 0) > 0.98
    assert ("50 % of ncu's peak" in pipe.message) == (PIPES[name] < 50)
    share = f"{100 * PIPES[name] / float(pipe.expected or 0):.1f} %"
    assert f"pipe {share} ✓" in checks_text(roof)
    half = new_checks(roof, counted_of(name, precision, {metric: PIPES[name] / 2}))
    assert not half["pipe"].passed


def test_integer_multiply_adds_are_counted_as_two_operations() -> None:
    roof = compute_roof("int32 imad", "int32")
    assert INTEGERS in metrics_of("9.0", list(benchmarks("int32").values()))
    work = counted_of("int32 imad", "int32", {}).kernel.work.flops
    values = {INTEGERS: work / 2 * 514 / 512, "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 540_672.0}
    assert new_checks(roof, counted_of("int32 imad", "int32", values))["operations"].passed
    assert not new_checks(roof, counted_of("int32 imad", "int32", {INTEGERS: work / 4}))["operations"].passed
    assert new_checks(roof, counted_of("int32 imad", "int32", {})) == {}  # not counted: nothing is said


def dram_roof() -> Roof:
    (roof,) = assemble([gpu_outcome(f"dram {mix}", 4.5e12) for mix in ("read", "write", "copy", "triad")], H200)
    return roof


def test_dram_writes_may_be_short_of_what_l2_holds_and_reads_may_not() -> None:
    read, written = "dram__bytes_read.sum", "dram__bytes_write.sum"
    counted = [
        counted_of("dram read", "fp16", {read: 1_076_331_008, written: 100_000}),
        counted_of("dram write", "fp16", {read: 0, written: 1_046_749_440}),
        counted_of("dram copy", "fp16", {read: 536_900_000, written: 1_047_472_384 - 536_900_000}),
        counted_of("dram triad", "fp16", {read: 1_073_800_000, written: 1_585_169_664 - 1_073_800_000}),
    ]
    found = new_checks(dram_roof(), *counted)
    assert set(found) == {
        "reads of read", "writes of write", "reads of copy", "writes of copy", "reads of triad", "writes of triad",
    }  # fmt: skip
    assert all(check.passed for check in found.values())
    assert found["writes of write"].message.endswith("27 MB less, of which L2 may hold 63 MB at the end")
    assert checked(dram_roof(), counted, H200).incomplete is None
    bad = new_checks(dram_roof(), counted_of("dram copy", "fp16", {read: 520e6, written: 460e6}))
    assert [check.passed for check in bad.values()] == [False, False]


@pytest.mark.parametrize(("case", "arrays_read"), [("stream copy", 1), ("stream vadd", 2), ("stream triad", 2)])
def test_captured_streams_keep_to_the_rule(case: str, arrays_read: int) -> None:
    """Arrays of 1 GiB: reads are exact, writes 17 to 24 MB short."""
    values = captured(case)
    assert against_formula("reads", arrays_read * 2**30, values["dram__bytes_read.sum"]).passed
    written = values["dram__bytes_write.sum"]
    assert not against_formula("writes", 2**30, written).passed
    assert against_formula("writes", 2**30, written, L2_BYTES).passed
    assert values["lts__t_sectors_srcunit_tex.sum"] * 32 == (arrays_read + 1) * 2**30


def test_reads_that_do_not_reach_l2_fail_its_check_and_l1_hits_are_told() -> None:
    (roof,) = assemble([gpu_outcome("l2 read", 9.0e12)], H200)
    work = counted_of("l2 read", "fp16", {}).kernel.work.dram_bytes
    sectors, hits = "lts__t_sectors_srcunit_tex.sum", "l1tex__t_sector_hit_rate.pct"
    good = new_checks(roof, counted_of("l2 read", "fp16", {sectors: work / 32, hits: 0.0}))
    assert good["bytes of read"].passed
    bad = new_checks(roof, counted_of("l2 read", "fp16", {sectors: 0.9672 * work / 32, hits: 3.2}))
    assert not bad["bytes of read"].passed
    assert bad["bytes of read"].message == (
        "counted 0.9672 times what the formula says; 3.2 % of L1's sectors were hits"
    )


def test_l2_reads_and_writes_are_checked_apart() -> None:
    """A triad is faster than reads alone only where its writes arrive too."""
    (roof,) = assemble([gpu_outcome(f"l2 {mix}", rate) for mix, rate in L2_RATES.items()], H200)
    of_array = counted_of("l2 triad", "fp16", {}).kernel.work.dram_bytes / 3 / 32
    reads, writes = "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum"
    values = {reads: 2 * of_array, writes: of_array, "l1tex__t_sector_hit_rate.pct": 33.2}
    good = new_checks(roof, counted_of("l2 triad", "fp16", values))
    assert [(check.name, check.passed) for check in good.values()] == [
        ("reads of triad", True),
        ("writes of triad", True),
    ]
    assert good["reads of triad"].message.endswith("33.2 % of L1's sectors were hits")
    merged = new_checks(roof, counted_of("l2 triad", "fp16", {**values, writes: of_array / 2}))
    assert not merged["writes of triad"].passed
    assert mixes_text(roof) == (
        "read 8.49 TB/s, write 4.31 TB/s, copy 7.67 TB/s (reads 3.83 T + writes 3.83 T), "
        "triad 10.4 TB/s (reads 6.92 T + writes 3.46 T)"
    )


def test_reads_that_sms_share_are_told_of_a_ceiling_and_refused_of_a_roof() -> None:
    entries = [gpu_outcome("l2 read", 8.5e12), gpu_outcome("l2 far", 7.0e12)]
    far, l2 = sorted(assemble(entries, H200), key=lambda roof: roof.rate)
    reads, writes = "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum"

    def values(name: str) -> dict[str, float]:
        return {reads: 0.97 * counted_of(name, "fp16", {}).kernel.work.dram_bytes / 32, writes: 0.0}

    counted = [counted_of(name, "fp16", values(name)) for name in ("l2 read", "l2 far")]
    assert new_checks(far, *counted)["reads of read"].passed
    assert "SMs may have shared" in new_checks(far, *counted)["reads of read"].message
    assert not new_checks(l2, *counted)["reads of read"].passed


def test_one_session_asks_for_the_counters_of_all_roofs() -> None:
    asked = metrics_of("9.0", list(benchmarks("fp64", "bf16").values()))
    for name in (
        "sm__ops_path_tensor_src_fp64.sum", "lts__t_sectors_srcunit_tex.sum", "dram__bytes_write.sum",
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.pct_of_peak_sustained_elapsed", "l1tex__t_sector_hit_rate.pct",
    ):  # fmt: skip
        assert name in asked
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("name", ["l2 read", "l2 write", "l2 copy", "l2 triad", "l2 far"])
def test_tiles_in_l2_are_shared_out_evenly_among_the_sms(name: str) -> None:
    benchmark = benchmarks("fp16")[name]
    kernel = kernel_of(benchmark, H200, [conf_folder()])
    arrays = STREAM_ARRAYS[benchmark.mix or "read"]
    tile_bytes = 256 * 16 * kernel.params["unroll"]
    tiles = kernel.shape["n"] * 4 / tile_bytes
    assert tiles % H200.units == 0
    of_sm = tiles / H200.units
    assert of_sm <= 8 or of_sm % kernel.params["blocks_per_sm"] == 0
    assert 0.15 < arrays * tiles * tile_bytes / L2_BYTES < (0.9 if name == "l2 far" else 0.4)


@pytest.mark.parametrize(("name", "loads"), [("l2 read", 8), ("l2 copy", 4), ("l2 triad", 8)])
def test_reads_of_l2_go_past_l1_in_every_pass(name: str, loads: int, cache_folder: Path) -> None:
    """SASS has a load that asks for the value of the whole GPU; L1 never answers it."""
    kernel = kernel_of(benchmarks("fp16")[name], H200, [conf_folder()])
    code, roots = kernel.implementations["cuda"], [kernels_folder()]
    cubin = compile_source(
        kernels_folder() / code["source"], "sm_90", defines_of(kernel), roots, cache_folder / "cubin"
    )
    wide = [
        one for one in hot_loop(disassemble(cubin)[code["entry"]], "LDG") if one.startswith("LDG") and ".128" in one
    ]
    assert len(wide) >= loads
    assert all("STRONG.GPU" in one for one in wide)
