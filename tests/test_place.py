"""``python -m roofexp.place``: what its JSON and its exit codes promise, for reports that people really had."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ncu_text import DATA, columns, one, text_of, wide

from roofexp.commands import run_command
from roofexp.counters.counts import derive
from roofexp.counters.report_placing import ReportRoofs, explain_peaks, judge

main = partial(run_command, "place")

KEYS = [
    "kernel",
    "process",
    "launch",
    "flops",
    "flops_by_type",
    "dram_bytes",
    "l2_bytes",
    "l1_bytes",
    "time_s",
    "ai_dram_flop_per_byte",
    "flops_per_s",
    "dram_bytes_per_s",
    "bound",
    "flags",
    "notes",
    "launches",
    "grid",
    "block",
    "device",
    "architecture",
]
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
HFMA = "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum"
BYTES, TIME = "dram__bytes.sum", "gpu__time_duration.sum"


@pytest.fixture
def place(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str | Path) -> list[dict[str, Any]]:
        code = main([str(argument) for argument in (*arguments, "--json")])
        out, err = capsys.readouterr()
        assert code == 0, err
        found: list[dict[str, Any]] = json.loads(out)
        return found

    return run


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line of an error; nothing else is printed and the exit code is 2."""
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("name", ["ncu01a_long12_2020.csv", "ncu01b_long15_2023.csv", "ncu01c_raw_wide_2025.csv"])
def test_json_is_the_same_for_every_layout(place: Any, name: str) -> None:
    """NCU-01."""
    saxpy, scale = place(DATA / name)
    assert list(saxpy) == KEYS
    assert saxpy["ai_dram_flop_per_byte"] == pytest.approx(0.166667, abs=5e-7)
    assert saxpy["flops_per_s"] == pytest.approx(536.871e9, rel=1e-6)
    assert saxpy["dram_bytes_per_s"] == pytest.approx(3221.225e9, rel=1e-6)
    assert scale["flops_per_s"] == pytest.approx(394.758e9, rel=1e-6)
    assert scale["dram_bytes_per_s"] == pytest.approx(3158.064e9, rel=1e-6)
    assert (saxpy["flops"], saxpy["dram_bytes"], saxpy["time_s"]) == (134217728, 805306368, 0.00025)
    assert (saxpy["l2_bytes"], saxpy["l1_bytes"]) == (None, None)
    assert saxpy["bound"] == "memory-bound"


def test_missing_is_null(place: Any) -> None:
    """NCU-11."""
    first, whole, partial, nothing = place(DATA / "ncu11_missing_values.csv")
    assert (first["dram_bytes"], first["flops"], first["ai_dram_flop_per_byte"]) == (None, 134217728, None)
    assert whole["ai_dram_flop_per_byte"] == pytest.approx(0.166667, abs=5e-7)
    assert (partial["flops"], partial["flops_per_s"], partial["bound"]) == (None, None, None)
    numbers = [nothing[key] for key in KEYS[3:13] if key != "flops_by_type"]
    assert numbers == [None] * len(numbers)
    assert "MIG" in nothing["flags"][0]


def test_processes_and_launches(place: Any) -> None:
    """NCU-13."""
    found = place(DATA / "ncu13_two_processes.csv")
    assert [(x["process"], x["launch"]) for x in found] == [(p, i) for p in (85800, 85801) for i in range(3)]
    assert [x["flops"] for x in found[:3]] == [1000000, 0, 1000000]
    assert sum(x["time_s"] for x in found[:3]) == pytest.approx(3030e-9)


def test_by_kernel_sums_launches_of_one_name(place: Any) -> None:
    axpy, fill = place(DATA / "ncu13_two_processes.csv", "--by", "kernel")
    assert axpy["flops"] == 4000000
    assert axpy["time_s"] == pytest.approx(8040e-9)
    assert (axpy["process"], axpy["launch"]) == (None, None)
    assert any("sum of 4 launches of processes 85800, 85801" in note for note in axpy["notes"])
    assert fill["flops"] == 0


def test_tensor_roof(place: Any) -> None:
    """RL-03 a: the share is of the tensor roof, not of FP32's."""
    (gemm,) = place(DATA / "rl03a_tensor_gemm_raw.csv", "--machine", "a100_sxm_80")
    assert gemm["flops"] == 137455730688
    assert gemm["flops_by_type"] == {"fp32": 16777216, "fp16_tensor": 137438953472}
    assert gemm["ai_dram_flop_per_byte"] == pytest.approx(819.3, abs=0.05)
    assert gemm["flops_per_s"] == pytest.approx(221.703e12, rel=1e-5)
    assert gemm["bound"] == "compute-bound"
    assert any("71 % of the fp16_tensor roof" in note for note in gemm["notes"])


def test_uncounted_tensor_work_has_no_class(place: Any) -> None:
    """RL-03 b."""
    (gemm,) = place(DATA / "rl03b_tensor_gemm_no_ops_metric.csv", "--machine", "a100_sxm_80")
    assert (gemm["flops"], gemm["ai_dram_flop_per_byte"], gemm["bound"]) == (None, None, None)
    assert gemm["flags"][0].startswith("flops incomplete")


def test_copy_kernel(place: Any) -> None:
    """RL-05."""
    (copy,) = place(DATA / "rl05_copy_raw.csv", "--machine", "h200")
    assert (copy["flops"], copy["ai_dram_flop_per_byte"], copy["flops_per_s"]) == (0, 0.0, 0.0)
    assert copy["dram_bytes_per_s"] == pytest.approx(4.129776e12, rel=1e-6)
    assert copy["bound"] == "memory-bound"
    assert any("86 % of the DRAM bandwidth" in note for note in copy["notes"])
    (alone,) = place(DATA / "rl05_copy_raw.csv")
    assert alone["bound"] == "memory-bound"


def test_share_above_the_roof_is_kept_and_explained(place: Any, tmp_path: Path) -> None:
    """RL-07: 3.55 TB/s under a roof from triad alone, then under the envelope of all mixes."""
    report = tmp_path / "report.csv"
    report.write_text(one({BYTES: ("3,550,000,000", "byte"), TIME: ("1,000,000", "ns"), FFMA: ("0", "inst")}))
    card = (
        "name: card\narchitecture: '9.0'\nsm_count: 132\nboost_hz: 1980000000\ntensor_boost_hz: 1830000000\n"
        "flop_per_cycle_per_sm: {fp32: 256}\ndram_bytes_per_s: 4.8e+12\ndram_mixes_bytes_per_s: "
    )
    triad, whole = tmp_path / "triad.yaml", tmp_path / "whole.yaml"
    triad.write_text(card + "{triad: 3.30e+12}\n")
    whole.write_text(card + "{copy: 3.20e+12, triad: 3.30e+12, read: 3.70e+12, write: 3.50e+12}\n")
    (above,) = place(report, "--machine", triad)
    flags = " ".join(above["flags"])
    assert "107.6 %" in flags
    assert "cache" in flags
    assert "clock" in flags
    assert "wrong count" in flags
    assert "incomplete roof" in flags
    (below,) = place(report, "--machine", whole)
    assert below["flags"] == []
    assert any("96 % of the DRAM bandwidth of card (measured, read)" in note for note in below["notes"])


def test_giga_is_ten_to_the_ninth(place: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RL-09: 8.0e11 FLOP in 1 s."""
    report = tmp_path / "report.csv"
    report.write_text(one({BYTES: ("1", "Tbyte"), TIME: ("1", "s"), FFMA: ("400,000,000,000", "inst")}))
    (found,) = place(report)
    assert found["flops_per_s"] == 8.0e11
    assert main([str(report)]) == 0
    assert "800 GFLOP/s" in capsys.readouterr().out


def test_kernel_filter_leaves_setup_and_flush_out(place: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """RL-11."""
    report = DATA / "rl11_setup_kernels_raw.csv"
    found = place(report, "--kernel", "gemm_tiled")
    assert [x["flops"] for x in found] == [17179869184] * 2
    assert [x["ai_dram_flop_per_byte"] for x in found] == pytest.approx([682.6667, 682.6389], abs=5e-5)
    (both,) = place(report, "--kernel", "gemm_tiled", "--by", "kernel")
    assert both["time_s"] / 2 == pytest.approx(409e-6)
    assert both["flops_per_s"] == pytest.approx(42.0046e12, rel=1e-6)
    error = refused(capsys, report, "--kernel", "gemm_wmma")
    for name in ("cupy_copy__float32_float32", "cupy_random_uniform", "l2_flush", "gemm_tiled"):
        assert name in error
    assert "regular expression" in refused(capsys, report, "--kernel", "(")


def test_summary_weighs_its_averages_by_their_launches(place: Any, tmp_path: Path) -> None:
    header = columns("Process ID|Kernel Name|Invocations|Section Name|Metric Name|Metric Unit|Minimum|Maximum|Average")
    rows = [header]
    for invocations, moved in (("3", "1,000"), ("1", "5,000")):
        who = ["9", "k", invocations, "metrics"]
        rows += [[*who, BYTES, "byte", "0", moved, moved], [*who, TIME, "ns", "0", "100", "100"]]
    # two summaries of one kernel, of two processes
    rows = [[str(i // 3), *row[1:]] if i else row for i, row in enumerate(rows)]
    report = tmp_path / "summary.csv"
    report.write_text(text_of(rows))
    (total,) = place(report, "--by", "kernel")
    assert total["dram_bytes"] == 3 * 1000 + 5000
    assert total["time_s"] == pytest.approx(400e-9)
    assert total["launches"] == 4


def test_launch_shapes_of_one_kernel_stay_apart(place: Any, capsys: pytest.CaptureFixture[str]) -> None:
    small, large = place(DATA / "ncu14_shapes.csv", "--by", "kernel")
    assert [small[key] for key in ("kernel", "grid", "block", "launches")] == ["axpy(int)", [64, 1, 1], [128, 1, 1], 3]
    assert (small["dram_bytes"], small["time_s"]) == (3000, pytest.approx(6e-6))
    assert (large["grid"], large["block"], large["launches"]) == ([128, 1, 1], [64, 1, 1], 8)
    assert (large["dram_bytes"], large["time_s"]) == (16000, pytest.approx(24e-6))
    first, second = place(DATA / "ncu14_shapes.csv")
    assert (first["dram_bytes"], first["launches"], second["dram_bytes"], second["launches"]) == (1000, 3, 2000, 8)
    assert main([str(DATA / "ncu14_shapes.csv"), "--by", "kernel"]) == 0
    out = capsys.readouterr().out
    assert "64 x 128" in out
    assert "128 x 64" in out


def test_two_gpus_of_one_report_are_not_added_up(place: Any) -> None:
    first, second = place(DATA / "ncu20_two_gpus.csv", "--by", "kernel", "--machine", "h200")
    assert first["flops_per_s"] == pytest.approx(671e9, rel=1e-3)
    assert second["flops_per_s"] == pytest.approx(268e9, rel=2e-3)
    assert (first["flags"], first["device"], second["device"], second["architecture"]) == ([], "0", "1", "8.0")
    assert any(flag.startswith("other machine") and "8.0, not 9.0" in flag for flag in second["flags"])


@pytest.mark.parametrize("column", ["Device", "CC"])
def test_gpus_are_told_apart_by_number_and_by_compute_capability(place: Any, tmp_path: Path, column: str) -> None:
    rows = [row.split(",") for row in (DATA / "ncu20_two_gpus.csv").read_text().replace("(256, 1, 1)", "").replace(
        "(4096, 1, 1)", "").replace('"', "").splitlines()]  # fmt: skip
    other = "CC" if column == "Device" else "Device"
    rows[3][rows[0].index(other)] = rows[2][rows[0].index(other)]
    report = tmp_path / "report.csv"
    report.write_text(text_of(rows))
    assert len(place(report, "--by", "kernel")) == 2


def test_an_operation_of_several_kernels_is_summed_when_asked(place: Any) -> None:
    (attention,) = place(DATA / "rl10_other.csv", "--by", "operation")
    assert (attention["flops"], attention["dram_bytes"], attention["launches"]) == (4_040_000_000, 288_000_000, 3)
    assert attention["time_s"] == pytest.approx(650e-6)
    assert attention["ai_dram_flop_per_byte"] == pytest.approx(4040 / 288)
    assert attention["kernel"] == "attn_scores + attn_softmax + attn_values"
    assert any("no NVTX range" in note for note in attention["notes"])
    assert len(place(DATA / "rl10_other.csv")) == len(place(DATA / "rl10_other.csv", "--by", "kernel")) == 3


def test_operations_by_range_process_and_gpu(place: Any, tmp_path: Path) -> None:
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    header = ["ID", "Process ID", column, "Kernel Name", "Device", BYTES, TIME]
    rows = [header, ["", "", "", "", "", "byte", "ns"]]
    for number, (process, name, kernel, device) in enumerate(
        [
            ("1", "attention", "scores", "0"),
            ("1", "attention", "values", "0"),
            ("2", "attention", "scores", "0"),
            ("1", "", "copy", "0"),
            ("1", "", "fill", "0"),
            ("1", "attention", "values", "1"),
            ("1", "mlp", "gemm", "0"),
            ("1", "attention", "values", "0"),
            ("1", "", "copy", "0"),
        ]
    ):
        cell = f'9  "<default domain>:{name}:none:none:none:none:none:none" ' if name else ""
        rows.append([str(number), process, cell, f"{kernel}(int)", device, "1,000,000", "10,000"])
    report = tmp_path / "report.csv"
    report.write_text(text_of(rows))
    found = [(x["kernel"], x["process"], x["device"], x["launches"]) for x in place(report, "--by", "operation")]
    assert found == [
        ("attention", 1, "0", 3),
        ("attention", 2, "0", 1),
        ("copy + fill", 1, "0", 2),
        ("attention", 1, "1", 1),
        ("mlp", 1, "0", 1),
        ("copy", 1, "0", 1),
    ]


@pytest.mark.parametrize("machine", [[], ["--machine", "h200"]])
def test_far_below_both_roofs_is_latency_bound(place: Any, machine: list[str]) -> None:
    for launch in place(DATA / "rl12_other.csv", *machine):
        assert launch["bound"] == "latency-bound"


@pytest.mark.parametrize(
    ("moved", "flops", "ns", "sm", "memory", "bound"),
    [
        ("24,576", "1,024", "5,120", None, None, "latency-bound"),  # left of every ridge, at 0.1 %
        ("1,024", "65,536", "6,000", None, None, "latency-bound"),  # right of every ridge, at 0.03 %
        ("3,200,000,000", "1,024", "1,000,000", None, None, "memory-bound"),  # 67 % of the fastest card
        ("1,300,000,000", "1,024", "1,000,000", None, None, None),  # much for one card, little for another
        ("1,300,000,000", "1,024", "1,000,000", "10", "80", "memory-bound"),
        ("1,300,000,000", "1,024", "1,000,000", "10", "27", "latency-bound"),
        ("24,576", "1,024", "5,120", "75", "1.1", "compute-bound"),  # ncu saw another unit busy
    ],
)
def test_without_a_card_the_side_of_the_ridge_decides_nothing(
    place: Any, tmp_path: Path, moved: str, flops: str, ns: str, sm: str | None, memory: str | None, bound: str | None
) -> None:
    values = {BYTES: (moved, "byte"), FFMA: (flops, "inst"), TIME: (ns, "ns")}
    if sm and memory:
        values["sm__throughput.avg.pct_of_peak_sustained_elapsed"] = (sm, "%")
        values["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"] = (memory, "%")
    report = tmp_path / "report.csv"
    report.write_text(one(values))
    assert place(report)[0]["bound"] == bound


@pytest.mark.parametrize("machine", [[], ["--machine", "h200"]])
def test_traffic_that_a_cache_holds_is_marked(place: Any, machine: list[str]) -> None:
    (triad,) = place(DATA / "rl06_other.csv", *machine)
    assert triad["bound"] != "compute-bound"
    assert any(flag.startswith("held by a cache") for flag in triad["flags"])
    assert triad["ai_dram_flop_per_byte"] == pytest.approx(524288 / 96)


def test_a_huge_intensity_alone_is_not_compute_bound(place: Any, tmp_path: Path) -> None:
    """Half of the FP32 peak with the data in L2: what limits is what ncu saw busy, or unknown."""
    values = {BYTES: ("1,000", "byte"), "lts__t_bytes.sum": ("5,000,000,000", "byte"), TIME: ("1,000,000", "ns")}
    report = tmp_path / "report.csv"
    for ffma, shares, bound in (
        ("15,000,000,000", None, None),
        ("15,000,000,000", ("55", "92"), "memory-bound"),
        ("31,500,000,000", None, "compute-bound"),
    ):
        sols = ("sm__throughput.avg", "gpu__compute_memory_throughput.avg")
        more = {f"{n}.pct_of_peak_sustained_elapsed": (v, "%") for n, v in zip(sols, shares or (), strict=False)}
        report.write_text(one({**values, FFMA: (ffma, "inst"), **more}))
        (found,) = place(report, "--machine", "h200")
        assert found["bound"] == bound
        assert any(flag.startswith("held by a cache") for flag in found["flags"])
    report.write_text(one({**values, BYTES: ("0", "byte"), FFMA: ("1,000", "inst")}))
    (none,) = place(report, "--machine", "h200")
    assert (none["ai_dram_flop_per_byte"], none["dram_bytes"]) == (None, 0)


def test_ncus_own_rules_are_kept_as_notes(place: Any) -> None:
    (fill,) = place(DATA / "ncu03_rules.csv")
    (rule,) = [note for note in fill["notes"] if "AchievedOccupancy" in note]
    assert 'Occupancy is limited by "registers", 42 % at most.' in rule
    assert "12.5 %" in rule
    assert fill["time_s"] == pytest.approx(7.5e-6)


def test_the_decimal_mark_is_asked_for(place: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    report.write_text(one({BYTES: ("786.432", "byte"), TIME: ("204.800", "ns")}))
    assert "--decimal" in refused(capsys, report)
    assert place(report, "--decimal", ",")[0]["dram_bytes"] == 786432
    assert place(report, "--decimal", ".")[0]["dram_bytes"] == 786


def test_h200_capture_places_itself(place: Any) -> None:
    """The raw page states SMs, clocks and bus width: no card has to be named."""
    found = place(DATA / "h200_raw_base_nvtx.csv")
    bounds = [x["bound"] for x in found]
    assert bounds[:2] == ["memory-bound", "memory-bound"]
    assert bounds[4] == "latency-bound"  # the empty kernel
    assert bounds[9:12] == ["compute-bound"] * 3
    assert bounds[14] == "memory-bound"  # far below both roofs, but L1 and shared memory are busy
    assert any("91 % busy" in note for note in found[14]["notes"])
    assert found[10]["flops_by_type"]["fp16_tensor"] == 2 * 4096**3
    named = place(DATA / "h200_raw_base_nvtx.csv", "--machine", "h200")
    assert [x["bound"] for x in named] == bounds
    assert [x["flags"] for x in named] == [[]] * 15


def test_another_card_than_the_reports_is_flagged(place: Any) -> None:
    found = place(DATA / "h200_raw_base_nvtx.csv", "--machine", "rtx_4090")
    assert any("9.0, not 8.9" in flag for flag in found[0]["flags"])
    sister = place(DATA / "h200_raw_base_nvtx.csv", "--machine", "h100_sxm")
    assert any("NVIDIA H200, not NVIDIA H100" in flag for flag in sister[0]["flags"])


def test_the_49_percent_that_was_98() -> None:
    """An Ada laptop: 12113 of 12288 BF16 operations per cycle, while ncu compares with 24576."""
    peaks = explain_peaks(100 * 12113 / 24576, "bf16_tensor", 12113 / 12288)
    assert peaks is not None
    assert "49.3 %" in peaks.numbers
    assert "98.6 %" in peaks.numbers
    assert "2 times as fast as bf16_tensor" in peaks.reason
    assert explain_peaks(97.0, "bf16_tensor", 0.986) is None
    busy = explain_peaks(86.8, "fp32", 0.768)
    assert busy is not None
    assert "busiest unit" in busy.reason
    assert explain_peaks(None, "fp32", 0.9) is None


def test_both_percentages_from_the_reports_own_columns() -> None:
    name = "sm__ops_path_tensor_src_bf16_dst_fp32"
    values: dict[str, float | None] = {
        f"{name}.sum": 12113 * 1e6,
        f"{name}_sparsity_off.sum.peak_sustained": 12288,
        f"{name}.sum.peak_sustained": 24576,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 49.29,
        "sm__cycles_elapsed.avg.per_second": 1.32e9,
        TIME: 1e6 / 1.32e9,
        BYTES: 1e6,
    }
    counts = derive(values, "8.9")
    roofs = ReportRoofs(
        precision="bf16_tensor",
        compute_flops_per_s=counts.peaks["bf16_tensor"] * 1.32e9,
        bandwidth_bytes_per_s=256e9,
        clock_known=True,
        source="this GPU",
    )
    verdict = judge(counts, roofs)
    assert verdict.peak_fraction == pytest.approx(0.986, abs=5e-4)
    assert verdict.bound == "compute-bound"
    assert verdict.peaks is not None


def test_details_page_without_flops_is_judged_by_ncus_throughputs(place: Any, tmp_path: Path) -> None:
    header = columns("ID|Process ID|Kernel Name|CC|Section Name|Metric Name|Metric Unit|Metric Value")
    who = ["0", "1", "k", "9.0", "GPU Speed Of Light Throughput"]
    for sm, memory, bound in (
        ("20.0", "85.0", "memory-bound"),
        ("90", "30", "compute-bound"),
        ("9", "9", "latency-bound"),
    ):
        rows = [header, [*who, "Duration", "us", "5"], [*who, "Compute (SM) Throughput", "%", sm]]
        report = tmp_path / "details.csv"
        report.write_text(text_of([*rows, [*who, "Memory Throughput", "%", memory]]))
        (found,) = place(report)
        assert found["bound"] == bound
        assert found["flops"] is None
        assert any("ncu's throughputs" in note for note in found["notes"])


def test_half_lanes_option(place: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    report.write_text(one({HFMA: ("1,000", "inst"), TIME: ("1", "us")}))
    assert place(report)[0]["flops"] == 4000
    assert place(report, "--half-lanes", "1")[0]["flops"] == 2000


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ncu08_permission.txt", "ERR_NVGPUCTRPERM"),
        ("h200_no_kernels.txt", "no kernel was profiled"),
        ("ncu15b_nsys_kern_sum.csv", "Nsight Systems"),
        ("README.md", "none of ncu's tables"),
        ("absent.csv", "cannot be read"),
    ],
)
def test_inputs_without_launches(capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    """NCU-08: never zeros, never an empty list."""
    assert said in refused(capsys, DATA / name)


def test_launches_without_anything_to_place_say_what_was_found(capsys: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    report.write_text(
        wide([{"launch__registers_per_thread": "16"}], {"launch__registers_per_thread": "register/thread"})
    )
    error = refused(capsys, report)
    for word in (
        "launches: 1",
        "kernel(float *)",
        "launch__registers_per_thread",
        BYTES.replace("bytes", "bytes_read"),
    ):
        assert word in error


def test_unknown_machine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "h100_sxm" in refused(capsys, DATA / "rl05_copy_raw.csv", "--machine", "h300")


def test_table_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "220")
    assert main([str(DATA / "h200_raw_base_nvtx.csv")]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if "nvjet" in line)
    for word in ("465:10", "fp16_tensor", "764 TFLOP/s", "628 GB/s", "compute-bound", "90 %"):
        assert word in row
    assert out.count("unmodified GPU clocks") == 1
    monkeypatch.setenv("COLUMNS", "80")
    assert main([str(DATA / "ncu13_two_processes.csv")]) == 0
    assert "memory-bound" in capsys.readouterr().out


def test_figure_and_what_it_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures" / "roofline.png"
    assert main([str(DATA / "h200_raw_base_nvtx.csv"), "--figure", str(out)]) == 0
    for ending in (".png", ".svg", ".csv"):
        assert out.with_suffix(ending).stat().st_size > 1000
    svg = out.with_suffix(".svg").read_text()
    assert "not measured" in " ".join(svg.split())
    assert str(out) in capsys.readouterr().out.replace("\n", "")


def test_as_a_command_from_another_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "roofexp.place", "-", "--json"]
    text = (DATA / "rl05_copy_raw.csv").read_text()
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["flops"] == 0


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts an ncu on the PATH that notes how it was called and does what ``script`` says."""

    def install(script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "ncu"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/called"\n{script}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
        return tmp_path / "called"

    return install


def test_ncu_rep_is_imported_through_ncu(place: Any, fake_ncu: Any, tmp_path: Path) -> None:
    called = fake_ncu(f'printf "$LC_ALL" > "{tmp_path / "locale"}"; cat "{DATA / "rl05_copy_raw.csv"}"')
    report = tmp_path / "report.ncu-rep"
    report.write_bytes(b"x")
    (copy,) = place(report)
    assert copy["dram_bytes"] == 2147483648
    arguments = called.read_text().split("\n")
    assert arguments[:2] == ["--import", str(report)]
    assert (tmp_path / "locale").read_text() == "C"
    assert {"--csv", "raw", "base"} <= set(arguments)


def test_ncu_rep_that_ncu_cannot_read(capsys: Any, fake_ncu: Any, tmp_path: Path) -> None:
    fake_ncu('echo "==ERROR== Failed to open the report file"; exit 1')
    report = tmp_path / "report.ncu-rep"
    report.write_bytes(b"x")
    assert "Failed to open the report file" in refused(capsys, report)
    assert "No such file" in refused(capsys, tmp_path / "absent.ncu-rep")


def test_ncu_rep_without_ncu_says_how_to_export_it(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    report = tmp_path / "report.ncu-rep"
    report.write_bytes(b"x")
    error = refused(capsys, report)
    assert "was not found" in error
    assert "ncu --import report.ncu-rep --csv --page raw" in error


def test_ncu_rep_through_the_package_of_nvidia(place: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    metrics = {BYTES: (805306368, "byte"), TIME: (250000, "ns"), FFMA: (67108864, "inst"), "name": ("saxpy", "")}
    attribute = "device__attribute_compute_capability_"
    metrics |= {f"{attribute}major": (9, ""), f"{attribute}minor": (0, ""), "lts__t_bytes.sum": (float("nan"), "byte")}
    monkeypatch.setitem(sys.modules, "ncu_report", _package(metrics))
    report = tmp_path / "report.ncu-rep"
    report.write_bytes(b"x")
    (saxpy,) = place(report)
    assert (saxpy["kernel"], saxpy["flops"], saxpy["dram_bytes"], saxpy["time_s"]) == (
        "saxpy",
        134217728,
        805306368,
        0.00025,
    )
    assert saxpy["l2_bytes"] is None
    assert saxpy["bound"] == "memory-bound"


def _package(metrics: dict[str, tuple[Any, str]]) -> types.ModuleType:
    """What NVIDIA's reader offers, as far as it is used."""

    def metric(name: str) -> Any:
        value, unit = metrics[name]
        return types.SimpleNamespace(value=lambda: value, unit=lambda: unit)

    action = types.SimpleNamespace(
        name=lambda: "saxpy", metric_names=lambda: list(metrics), metric_by_name=metric, nvtx_state=lambda: None
    )
    actions = types.SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda index: action)
    report = types.SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda index: actions)
    module = types.ModuleType("ncu_report")
    module.load_report = lambda path: report  # type: ignore[attr-defined]
    module.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    return module
