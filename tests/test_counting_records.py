"""From launches to the record of a point: real captures, the meaning of a ratio, and what old records lack."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from roofexp.config.settings import PlacingSettings
from roofexp.counters.counts import Counts
from roofexp.counters.join import counted_point, join, without_counters
from roofexp.counters.kernel_sums import compare
from roofexp.ncu.catalogue import request
from roofexp.ncu.launch import Launch
from roofexp.ncu.report import read_report_file
from roofexp.ncu.session import range_of
from roofexp.records.point import Clock, Counted, Point, read_point
from tests.counted_sweep import ROOFS, make_sweep, points_of
from tests.ncu_text import DATA

PLACING = PlacingSettings(on_roof=0.85, far_below=0.1, above_roof=1.05, near_floor=3.0)
RANGES = {"saxpy": "saxpy/size=67108864", "gemm": "gemm/size=256/fp32"}


@pytest.fixture(scope="module")
def capture() -> list[Launch]:
    return read_report_file(DATA / "h200_raw_base_nvtx.csv")


@pytest.fixture(scope="module")
def saxpy(tmp_path_factory: pytest.TempPathFactory) -> Point:
    sweep = make_sweep(tmp_path_factory.mktemp("made") / "sweep", ["kernel=saxpy", "size=67108864"])
    return points_of(sweep)[0]


def launches_of(capture: list[Launch], name: str) -> list[Launch]:
    return [launch for launch in capture if range_of(launch, {name}) == name]


def test_a_point_from_a_real_capture(capture: list[Launch], saxpy: Point) -> None:
    launches = launches_of(capture, RANGES["saxpy"])
    assert len(launches) == 1
    counted = counted_point(saxpy, launches, request("9.0", "basic", "fp32"))
    assert (counted.flops, counted.flops_ratio) == (2 * 67108864, 1)
    assert counted.dram_bytes == 536879360 + 250076672
    assert (counted.l2_bytes, counted.l1_bytes) == (25165824 * 32, 805306368)
    assert counted.time_s == pytest.approx(230912e-9)
    assert counted.sm_hz == pytest.approx(1.960e9, rel=1e-3)
    assert counted.memory_hz == pytest.approx(3.199e9, rel=1e-3)
    assert (counted.passes, counted.registers, counted.occupancy_limiter) == (22, 16, "warps")
    assert counted.waves == pytest.approx(248.24)
    assert [(kernel.name, kernel.time_share) for kernel in counted.kernels] == [("saxpy", pytest.approx(1))]
    assert not counted.flags


def test_split_k_is_an_op_of_several_kernels(capture: list[Launch], saxpy: Point) -> None:
    counted = counted_point(saxpy, launches_of(capture, RANGES["gemm"]), [])
    assert sum(kernel.launches for kernel in counted.kernels) == 4
    assert sum(kernel.time_share for kernel in counted.kernels) == pytest.approx(1)
    assert sum(kernel.dram_bytes for kernel in counted.kernels) == counted.dram_bytes


def test_a_metric_without_a_column_leaves_no_partial_sum(capture: list[Launch], saxpy: Point) -> None:
    launches = launches_of(capture, RANGES["saxpy"])
    ffma = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    cut = [
        msgspec.structs.replace(launch, metrics={k: v for k, v in launch.metrics.items() if k != ffma})
        for launch in launches
    ]
    assert counted_point(saxpy, cut, request("9.0", "basic", "fp32")).flops is None


# issued against useful


def counts(flops: float | None, **by_type: float) -> Counts:
    return Counts(
        flops=flops, flops_by_type=by_type, dram_bytes=1, l2_bytes=None, l1_bytes=None, shared_bytes=None, time_s=1e-5
    )


@pytest.mark.parametrize(
    ("useful", "found", "precision", "shape", "telling", "flagged"),
    [
        (100, counts(100, fp32=100), "fp32", {"n": 100}, "", False),
        (100, counts(100.9, fp32=100.9), "fp32", {"n": 100}, "", False),
        (100, counts(140, fp32=140), "fp32", {"n": 100}, "exp, division", False),
        (100, counts(900, fp32=900), "fp32", {"n": 100}, "too small", True),
        (100, counts(60, fp32=60), "fp32", {"n": 100}, "predicate", False),
        (100, counts(0, fp32=0), "fp32", {"n": 100}, "special functions", True),
        (100, counts(800, bf16_tensor=800), "bf16", {"m": 4096, "n": 1}, "padding included (n=1)", True),
        (100, counts(102, bf16_tensor=102), "bf16", {"m": 4096}, "padding", True),
        (100, counts(50, bf16_tensor=50), "bf16", {"m": 4096}, "masked", True),
        (100, counts(200, fp16=200), "fp16", {"n": 64}, "half_lanes: 1", False),
        (100, counts(50, fp16=50), "fp16", {"n": 64}, "half_lanes: 2", False),
        (100, counts(100, tf32_tensor=100), "fp32", {"n": 64}, "tf32 on the tensor cores", True),
        (100, counts(100, fp32=100), "bf16", {"n": 64}, "most arithmetic was fp32", False),
        (0, counts(64, fp32=64), "fp32", {"n": 64}, "formula has none", False),
        (100, counts(None), "fp32", {"n": 64}, "", False),
    ],
)
def test_the_ratio_has_a_meaning(useful, found, precision, shape, telling, flagged) -> None:
    comparison = compare(useful, found, precision, shape)
    said = " ".join([*comparison.notes, *(flag.message for flag in comparison.flags)])
    assert telling in said
    assert bool(said) == bool(telling)
    assert bool(comparison.flags) == flagged


# records


def test_the_intensity_is_useful_flops_over_counted_bytes_at_the_clock_of_the_events(saxpy: Point) -> None:
    counted = Counted(level="basic", flops=999, dram_bytes=2 * saxpy.work.dram_bytes, time_s=1.0, sm_hz=1e9)
    joined = join(saxpy, counted, ROOFS, PLACING)
    assert joined.placement.intensity_flop_per_byte == pytest.approx(saxpy.placement.intensity_flop_per_byte / 2)
    assert joined.flops_per_s == saxpy.flops_per_s
    assert joined.bytes_per_s == pytest.approx(2 * saxpy.bytes_per_s)
    assert joined.clock == saxpy.clock
    assert without_counters(joined).traffic == saxpy.traffic


def test_no_bytes_at_all_is_a_count(saxpy: Point) -> None:
    joined = join(saxpy, Counted(level="basic", dram_bytes=0), ROOFS, PLACING)
    assert (joined.traffic.bytes, joined.traffic.source) == (0, "counted")
    assert joined.placement.intensity_flop_per_byte is None


def test_a_record_from_before_counting_reads(tmp_path: Path, saxpy: Point) -> None:
    record = json.loads(msgspec.json.encode(saxpy))
    record.pop("counted", None)
    (tmp_path / "point.json").write_text(json.dumps(record))
    assert read_point(tmp_path / "point.json") == saxpy


@pytest.mark.parametrize(
    ("timed_s", "timed_hz", "profiled_s", "profiled_hz", "words"),
    [
        (
            2.0e-3,
            1.755e9,
            2.6e-3,
            1.35e9,
            ["2.6 ms at 1350 MHz", "2 ms at 1755 MHz", "1.3 times", "clocks explain 1.3"],
        ),
        (2.0e-3, 1.755e9, 2.6e-3, 1.755e9, ["2.6 ms", "1755 MHz", "may be of other work"]),
        (2.6e-3, 1.35e9, 2.0e-3, 1.755e9, ["0.769 times", "clocks explain 0.769"]),
        (2.0e-3, None, 2.6e-3, 1.35e9, ["unknown clock", "1350 MHz"]),
        (2.0e-3, 1.755e9, 2.2e-3, 1.7e9, []),
        (5.3e-6, 1.9e9, 4.1e-6, 1.9e9, []),  # the launch itself
        (5.3e-6, 1.9e9, 20e-6, 1.9e9, ["20 µs"]),
    ],
)
def test_a_profiled_time_far_from_the_timed_one_is_flagged(
    saxpy: Point, timed_s: float, timed_hz: float | None, profiled_s: float, profiled_hz: float, words: list[str]
) -> None:
    assert saxpy.timing is not None
    timing = msgspec.structs.replace(saxpy.timing, median_s=timed_s)
    point = msgspec.structs.replace(saxpy, timing=timing, clock=Clock(compute_hz=timed_hz, source="cycle counter"))
    counted = Counted(time_s=profiled_s, sm_hz=profiled_hz, dram_bytes=10)
    joined = join(point, counted, ROOFS, PLACING)
    flags = [flag.message for flag in joined.flags if flag.name == "profiled time"]
    assert len(flags) == bool(words)
    for word in words:
        assert word in flags[0]
    again = join(joined, msgspec.structs.replace(counted, time_s=timed_s, sm_hz=timed_hz), ROOFS, PLACING)
    assert not [flag for flag in again.flags if flag.name == "profiled time"]
