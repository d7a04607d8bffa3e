"""The roofline's arithmetic and its verdicts, with numbers worked out by hand."""

from __future__ import annotations

import msgspec
import pytest

from roofexp.config.settings import PlacingSettings
from roofexp.placing.roofline import attainable, least_time_s, model_traffic, place, ridge
from roofexp.records.machine import Machine, Roof, RoofSet
from roofexp.records.point import Clock, Placement, Point, Timing, Traffic, Work

SETTINGS = PlacingSettings(on_roof=0.85, far_below=0.30, above_roof=1.02, near_floor=3.0)
MACHINE = Machine(
    machine_id="m", device="cpu", name="test", units=4, nominal_hz=None, memory_bytes=None,
    cache_bytes={"l1": 10**5, "l2": 10**6, "l3": 10**7}, kept_levels=["l1", "l2", "l3"],
)  # fmt: skip
PEAK, BANDWIDTH, FLOOR_S = 1e12, 1e11, 1e-5  # ridge at 10 FLOP/B


def roofs(**changes: object) -> RoofSet:
    compute = Roof(
        name="fp32 fma", kind="compute", rate=PEAK, precision="fp32", clock_domain="compute", compute_hz=2e9,
        **changes,
    )  # fmt: skip
    return RoofSet(
        machine=MACHINE, clock_mode="observe", code_version="", measured="", seconds=0.0,
        roofs=[
            compute,
            Roof(name="dram", kind="bandwidth", level="dram", rate=BANDWIDTH),
            Roof(name="l3", kind="bandwidth", level="l3", rate=3 * BANDWIDTH),
            Roof(name="launch", kind="launch", rate=FLOOR_S),
        ],
    )  # fmt: skip


def point(flops: int, moved: int, time_s: float, hz: float | None = 2e9, level: str = "dram", working_set: int = 10**9):
    timing = Timing(
        median_s=time_s, p5_s=time_s, p95_s=time_s, low_s=time_s, high_s=time_s, samples=10, launches_per_sample=1,
        warmup_s=0.0, floor_s=None, method="",
    )  # fmt: skip
    return Point(
        point_id="p", sweep_id="s", job=0, overrides=[], status="ok", kernel="k", size=1, precision="fp32",
        clock_mode="observe", cache_state="cold", fill="normal", config_hash="", created="",
        work=Work(flops=flops, dram_bytes=moved, working_set_bytes=working_set), timing=timing,
        clock=Clock(compute_hz=hz), traffic=Traffic(level=level, bytes=moved, source="modelled"),
    )  # fmt: skip


def verdict(*arguments, **keywords) -> Placement:
    placement, _ = place(point(*arguments, **keywords), roofs(), SETTINGS)
    assert placement is not None
    return placement


def test_the_bound_is_the_smaller_of_both_limits() -> None:
    assert attainable(5, PEAK, BANDWIDTH) == 5e11
    assert attainable(20, PEAK, BANDWIDTH) == PEAK
    assert ridge(PEAK, BANDWIDTH) == 10


def test_published_ridges() -> None:
    assert ridge(25.3e12, 248.7e9) == pytest.approx(101.7, abs=0.1)
    assert ridge(23.2e12, 188e9) == pytest.approx(123.4, abs=0.1)
    assert ridge(18.6e12, 256e9) == pytest.approx(72.7, abs=0.1)


@pytest.mark.parametrize(
    ("flops", "moved", "rate", "bound", "fraction"),
    [
        (10**9, 10**9, 9e10, "on the bandwidth roof", 0.9),
        (10**9, 10**9, 5e10, "bandwidth-bound", 0.5),
        (10**11, 10**9, 9e11, "on the compute roof", 0.9),
        (10**11, 10**9, 5e11, "compute-bound", 0.5),
        (10**11, 10**9, 1e11, "latency-bound", 0.1),
        (10**9, 10**9, 1.1e11, "above a roof", 1.1),
    ],
)
def test_where_a_point_lands(flops: int, moved: int, rate: float, bound: str, fraction: float) -> None:
    found = verdict(flops, moved, flops / rate)
    assert found.bound == bound
    assert found.fraction == pytest.approx(fraction)
    assert found.next_move


def test_a_kernel_without_flops_is_placed_by_its_bytes() -> None:
    found = verdict(0, 10**9, 10**9 / 9.5e10)
    assert found.bound == "on the bandwidth roof"
    assert found.intensity_flop_per_byte == 0.0
    assert found.fraction == pytest.approx(0.95)


def test_roofs_are_redrawn_at_the_clock_that_the_point_held() -> None:
    at_half = verdict(10**11, 10**9, 10**11 / 4.5e11, hz=1e9)
    assert at_half.bound == "on the compute roof"
    assert at_half.fraction == pytest.approx(0.9)
    assert at_half.ridge_flop_per_byte == pytest.approx(5)
    unknown = verdict(10**11, 10**9, 10**11 / 4.5e11, hz=None)
    assert unknown.fraction == pytest.approx(0.45)


def test_latency_has_a_reason() -> None:
    near_floor = verdict(10**6, 10**5, 2e-5)
    assert "launch floor" in near_floor.cause
    little_work = verdict(10**7, 10**6, 2e-4)
    assert "too little work" in little_work.cause
    waiting = verdict(10**11, 10**9, 1.0)
    assert "wait" in waiting.cause


def test_above_a_roof_has_a_reason_and_is_not_clipped() -> None:
    fits = verdict(10**6, 10**6, 5e-6, working_set=10**6)
    assert fits.fraction == pytest.approx(2.0)
    assert "fits in L2" in fits.cause
    _, flags = place(point(10**11, 10**9, 0.05), roofs(), SETTINGS)
    assert [flag.name for flag in flags] == ["above a roof"]
    placement, _ = place(point(10**11, 10**9, 0.05), roofs(incomplete="only 50%"), SETTINGS)
    assert placement is not None
    assert "lower bound" in placement.cause


def test_a_missing_roof_is_said_and_costs_the_verdict_only() -> None:
    placement, flags = place(point(10**9, 10**9, 1.0, level="l2"), roofs(), SETTINGS)
    assert placement is None
    assert flags[0].name == "no roof"


def test_traffic_is_modelled_at_the_level_that_keeps_the_working_set() -> None:
    def level(working_set: int, cold: bool) -> str:
        return model_traffic(Work(flops=1, dram_bytes=1, working_set_bytes=working_set), MACHINE, cold).level

    assert level(10**4, cold=True) == "dram"
    assert [level(size, cold=False) for size in (10**4, 5 * 10**5, 5 * 10**6, 9 * 10**6)] == ["l1", "l2", "l3", "dram"]


def test_least_time_is_the_longer_of_both() -> None:
    work, traffic = (
        Work(flops=10**12, dram_bytes=10**9, working_set_bytes=1),
        Traffic(level="dram", bytes=10**9, source="modelled"),
    )
    assert least_time_s(work, traffic, "fp32", roofs()) == pytest.approx(1.0)
    assert least_time_s(work, traffic, "fp64", roofs()) is None


def with_clock(median_s: float, mean_s: float, clock_hz: float, spans_timing: bool) -> Point:
    timed = point(10**12, 10**9, median_s)
    assert timed.timing
    timing = msgspec.structs.replace(timed.timing, mean_s=mean_s)
    return msgspec.structs.replace(timed, timing=timing, clock=Clock(compute_hz=clock_hz, spans_timing=spans_timing))


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.1, 0.2, 0.4])
def test_a_kernel_of_constant_cycles_keeps_its_fraction_however_the_clock_moves(spread: float) -> None:
    """A third of the launches at a lower clock: the same cycles each, 90 % of the roof per cycle."""
    clocks_hz = [2e9, 2e9, 2e9 * (1 - spread)]
    times_s = [1.0 / 0.9 * 2e9 / hz for hz in clocks_hz]
    mean_hz = sum(hz * time_s for hz, time_s in zip(clocks_hz, times_s, strict=True)) / sum(times_s)
    moved = with_clock(sorted(times_s)[1], sum(times_s) / 3, mean_hz, spans_timing=True)
    placement, _ = place(moved, roofs(), SETTINGS)
    assert placement
    assert placement.fraction == pytest.approx(0.9, rel=1e-9)


def test_a_clock_read_beside_the_timing_goes_with_the_median() -> None:
    placement, _ = place(with_clock(1.0, 3.0, 2e9, spans_timing=False), roofs(), SETTINGS)
    assert placement
    assert placement.fraction == pytest.approx(1.0)


def test_more_than_the_units_can_do_is_flagged_whatever_the_tolerance() -> None:
    timed = with_clock(1.005, 1.005, 2e9, spans_timing=True)  # 0.995e12 FLOP/s, well below 1.02 of the roof
    _, flags = place(timed, roofs(limit=0.99e12), SETTINGS)
    assert [flag.name for flag in flags] == ["above the limit"]
    assert flags[0].message.startswith("100.5 % of what the units can do")
    _, flags = place(timed, roofs(limit=1.01e12), SETTINGS)
    assert flags == []
