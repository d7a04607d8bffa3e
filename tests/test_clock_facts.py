"""What the readings beside a timing say: energy of a launch, time held back, what settled; and the soak's figure."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from roofexp.config.paths import conf_folder
from roofexp.devices.cpu.clock import Rapl
from roofexp.figures.kinds.soak import draw_soak
from roofexp.figures.kinds.soak_course import course_of
from roofexp.kernel.load import load_kernel
from roofexp.measure.bench import Request
from roofexp.measure.clock_flags import throttle_flags
from roofexp.measure.clock_summary import clock_facts, counter_power_w, throttle_agreement
from roofexp.measure.sampler import summarised
from roofexp.measure.soak import settled
from roofexp.measure.steadiness import drift
from roofexp.records.clock_readings import ClockReadings, mean_power_w, throttled_share
from roofexp.records.point import Clock
from roofexp.records.points_table import point_row
from roofexp.records.samples import Samples
from roofexp.run.job import samples_table
from roofexp.text.numbers import engineering
from roofexp.tracking.point_run import point_values
from tests.made_points import COLUMN, SCREEN
from tests.made_soak import MACHINE, ROOFS, made_soak
from tests.test_timing import SETTINGS


def readings(watts: Any, seconds: float, step_s: float = 0.1, every_s: float = 0.02) -> list[dict[str, Any]]:
    """An energy counter that moves every ``step_s``, read every ``every_s``."""
    rows, energy_j, shown_j = [], 0.0, 0.0
    for i in range(round(seconds / every_s) + 1):
        if i % round(step_s / every_s) == 0:
            shown_j = energy_j
        rows.append({"at_s": i * every_s, "energy_j": round(shown_j, 9)})
        energy_j += watts(i * every_s) * every_s
    return rows


def taken(time_s: float, launches: int, samples: int, passed_s: float, busy_s: float | None = None) -> Samples:
    stamps = [i * passed_s / samples for i in range(samples)]
    return Samples([time_s] * samples, stamps, launches, passed_s, passed_s if busy_s is None else busy_s)


def test_the_energy_of_a_launch_is_the_counters_and_its_steps_do_not_matter() -> None:
    rows = readings(lambda at_s: 500.0, 1.03)
    samples = taken(1e-3, 10, 100, 1.0)
    clock, _ = clock_facts(Clock(compute_hz=1e9), rows, samples, cold=False)
    assert clock.readings.power_by_energy_w == pytest.approx(500, rel=0.01)
    assert clock.readings.energy_per_launch_j == pytest.approx(0.5, rel=0.01)
    assert "counter" in str(clock.readings.energy_source)


def test_pauses_are_in_the_energy_of_a_launch_and_whole_periods_are_compared() -> None:
    rows = readings(lambda at_s: 700.0 if round(1000 * at_s) % 200 < 60 else 120.0, 1.2)
    samples = taken(1e-3, 10, 30, 1.0, busy_s=0.3)
    clock, _ = clock_facts(Clock(compute_hz=1e9), rows, samples, cold=False, period_s=0.2)
    mean_w = 0.3 * 700 + 0.7 * 120
    assert clock.readings.power_by_energy_w == pytest.approx(mean_w, rel=0.03)
    assert clock.readings.energy_per_launch_j == pytest.approx(mean_w * 1.0 / 300, rel=0.03)
    assert clock.readings.duty_held == pytest.approx(0.3)
    assert "pauses included" in str(clock.readings.energy_source)
    assert "filled" not in str(clock.readings.energy_source)
    gappy, _ = clock_facts(Clock(compute_hz=1e9), rows, taken(1e-3, 10, 30, 1.0, busy_s=0.4), cold=False, period_s=0.2)
    assert "launches filled 75 % of the work" in str(gappy.readings.energy_source)


def test_too_short_a_part_and_flushes_between_launches_give_no_energy() -> None:
    short, _ = clock_facts(Clock(compute_hz=1e9), readings(lambda at_s: 500.0, 0.2), taken(1e-3, 1, 100, 0.1), False)
    assert short.readings.energy_per_launch_j is None
    rows = readings(lambda at_s: 500.0, 1.0)
    flushed, _ = clock_facts(Clock(compute_hz=1e9), rows, taken(1e-5, 1, 1000, 1.0), cold=True)
    assert flushed.readings.energy_per_launch_j is None
    assert flushed.readings.power_by_energy_w == pytest.approx(500, rel=0.01)
    mostly, _ = clock_facts(Clock(compute_hz=1e9), rows, taken(0.095, 1, 10, 1.0), cold=True)
    assert mostly.readings.energy_per_launch_j == pytest.approx(500 * 0.095, rel=0.01)
    assert "share" in str(mostly.readings.energy_source)
    gaps, _ = clock_facts(Clock(compute_hz=1e9), rows, taken(1e-3, 1, 250, 1.0), cold=False)
    assert gaps.readings.energy_per_launch_j is None  # the host takes three times as long: 2 J, not 0.5
    assert "25 %" in str(gaps.readings.energy_source)


def test_no_counter_no_energy() -> None:
    clock, flags = clock_facts(Clock(compute_hz=1e9), [], taken(1e-3, 1, 10, 1.0), False)
    assert set(clock.readings.known()) == {"timed_share"}
    assert flags == []
    assert counter_power_w([{"at_s": 0.0, "energy_j": None}, {"at_s": 1.0, "energy_j": None}]) is None


def test_a_continuous_counter_needs_two_readings() -> None:
    rows = [{"at_s": 0.0, "energy_j": 0.0}, {"at_s": 2.0, "energy_j": 90.0}]
    assert counter_power_w(rows, stepped=False) == 45.0


def test_mean_power_of_a_short_part_is_not_nvmls() -> None:
    assert mean_power_w(ClockReadings(power_w=300.0, sampled_s=0.1)) is None
    assert mean_power_w(ClockReadings(power_w=300.0, sampled_s=2.0)) == 300.0
    assert mean_power_w(ClockReadings(power_w=300.0, sampled_s=2.0, power_by_energy_w=310.0)) == 310.0


def test_accumulated_and_sampled_throttle_time_are_compared() -> None:
    rows = [{"at_s": 0.02 * i, "event_reasons": "sw_power_cap" if i >= 50 else "none"} for i in range(151)]
    facts, flags = throttle_agreement(rows, ClockReadings(throttled_power_s=2.0, throttled_hw_thermal_s=0.0))
    assert facts == {"throttle_samples_power_s": pytest.approx(2.0, abs=0.02)}
    assert flags == []
    _, (flag,) = throttle_agreement(rows, ClockReadings(throttled_power_s=1.5))
    assert flag.name == "throttle time uncertain"
    assert "1.50 s and 2.01 s (25 % apart)" in flag.message
    assert throttled_share(ClockReadings(sampled_s=4.0, throttled_power_s=1.0, throttled_hw_thermal_s=2.0)) == 0.5
    assert throttled_share(ClockReadings(sampled_s=4.0)) is None


def stepped(seconds: float, capped_from_s: float, counted: float = 1.0, step_s: float = 0.1) -> list[dict[str, Any]]:
    """Reasons and accumulator as an H200's driver renews them, every tenth of a second, read every 0.028 s."""
    rows = []
    for i in range(int(seconds / 0.028)):
        seen_s = int(0.028 * i / step_s) * step_s
        capped_s = max(0.0, seen_s - capped_from_s)
        reason = "sw_power_cap" if seen_s >= capped_from_s else "none"
        row = {"at_s": 0.028 * i, "event_reasons": reason, "throttled_power_s": round(capped_s * counted, 6)}
        rows.append(row)
    return rows


def test_steps_of_the_driver_are_no_disagreement() -> None:
    rows = stepped(1.124, 0.0)
    facts, flags = throttle_agreement(rows, ClockReadings(throttled_power_s=1.0))
    assert facts["throttle_samples_power_s"] == pytest.approx(1.1, abs=0.03)
    assert flags == []
    long = stepped(10.0, 1.0)
    assert throttle_agreement(long, ClockReadings(throttled_power_s=8.9))[1] == []
    (flag,) = throttle_agreement(long, ClockReadings(throttled_power_s=7.9))[1]
    assert "apart" in flag.message
    (flag,) = throttle_agreement(rows, ClockReadings(throttled_power_s=0.3))[1]
    assert flag.name == "throttle time uncertain"


def test_with_pauses_the_power_limit_is_a_fact_and_no_warning() -> None:
    """What an H200 gave at duty 0.3: the driver's state is renewed too seldom to tell batches from pauses."""
    times = [1.36e-3, 1.36e-3, 1.37e-3, 1.42e-3, 1.46e-3] * 5
    stamps = [0.2 * (i // 5) + 0.01 * (i % 5) for i in range(25)]
    samples = Samples(times, stamps, 5, 1.0, 0.3, batches=[i // 5 for i in range(25)])
    readings = ClockReadings(sampled_s=1.124, throttled_power_s=1.0, throttled_hw_thermal_s=0.0)
    clock, flags = clock_facts(Clock(compute_hz=1.59e9, readings=readings), stepped(1.124, 0.0), samples, False, 0.2)
    assert flags == []
    assert throttle_flags(clock.readings) == []
    assert clock.readings.batch_slowing == pytest.approx(1.46 / 1.36 - 1)
    assert clock.readings.samples_held_back is None
    assert throttled_share(clock.readings) is None
    assert clock.readings.throttled_power_s == 1.0
    (flag,) = throttle_flags(replace(clock.readings, throttled_hw_thermal_s=0.5))
    assert "hw thermal 44 %" in flag.message
    (flag,) = throttle_flags(replace(clock.readings, duty_held=1.0, throttled_power_s=1.2))
    assert "power 100 %" in flag.message


def test_clocks_that_fall_during_the_repeats() -> None:
    """30 samples at full clock, 40 while it sinks, 30 at the bottom; the mask is that of the power cap."""
    times = [0.690e-3] * 30 + [(0.6928 + 0.0028 * i) * 1e-3 for i in range(40)] + [0.808e-3] * 30
    stamps = [0.01 * i for i in range(100)]
    samples = Samples(times, stamps, 1, 1.0, 1.0)
    rows = [{"at_s": at_s, "event_reasons": "none" if i < 30 else "sw_power_cap"} for i, at_s in enumerate(stamps)]
    timing = summarised(samples, 0.0, None, "")
    assert timing.median_s == pytest.approx(0.7474e-3, rel=1e-3)  # of all samples, never the fastest alone
    clock, _ = clock_facts(Clock(compute_hz=1.77e9), rows, samples, cold=True)
    assert clock.readings.samples_held_back == pytest.approx(0.70)
    assert clock.readings.unthrottled_median_s == pytest.approx(0.690e-3)
    assert drift(times) == pytest.approx(0.171, abs=1e-3)
    (flag,) = throttle_flags(clock.readings)
    assert flag.name == "throttled"
    assert "70 %" in flag.message
    assert "690 µs" in flag.message


def test_idling_and_settings_are_no_throttling() -> None:
    rows = [{"at_s": 0.1 * i, "event_reasons": "idle applications_clocks_setting"} for i in range(10)]
    clock, _ = clock_facts(Clock(compute_hz=1e9), rows, taken(1e-3, 1, 10, 1.0), True)
    assert clock.readings.samples_held_back == 0.0
    assert throttle_flags(clock.readings) == []


def test_a_cpus_own_meter(tmp_path: Path) -> None:
    for name, counted in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:1", "psys")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "name").write_text(f"{counted}\n")
        (folder / "energy_uj").write_text("900000\n")
        (folder / "max_energy_range_uj").write_text("1000000\n")
    meter = Rapl(tmp_path)
    assert meter.joules() == 0.0
    (tmp_path / "intel-rapl:0/energy_uj").write_text("100000\n")  # it ran over
    assert meter.joules() == pytest.approx(0.2)
    assert Rapl(tmp_path / "none").joules() is None


# The soak of a made-up GPU


def test_a_soaks_record_is_that_of_its_settled_part() -> None:
    point, _, _ = made_soak()
    assert point.clock
    assert point.clock.compute_hz == pytest.approx(1.42e9, rel=0.01)
    assert point.clock.readings.power_by_energy_w == pytest.approx(698, rel=0.01)
    row = point_row(point)
    assert row["flop_per_j"] == pytest.approx(point.work.flops / (698 * point.timing.median_s), rel=0.02)  # type: ignore[union-attr]
    assert row["throttled_share"] == pytest.approx(0.99, abs=0.01)
    assert {flag.name for flag in point.flags} == {"throttled"}
    mirrored = point_values(point)
    assert mirrored["energy/per_launch_j"] == row["energy_per_launch_j"]
    assert mirrored["clock/throttled_share"] == row["throttled_share"]


def test_pauses_and_a_soak_are_no_hang() -> None:
    kernel = load_kernel("vadd", [conf_folder()], "fp32", 1000, {}, "normal")
    request = Request(kernel=kernel, timing=SETTINGS, cold=False, seed=1, clock={"mode": "observe"})
    assert request.deadline_s == 60
    assert msgspec.structs.replace(request, clock={"mode": "duty", "duty": 0.1}).deadline_s == pytest.approx(600)
    soak = msgspec.structs.replace(SETTINGS, seconds=90.0)
    assert msgspec.structs.replace(request, timing=soak).deadline_s == 150


def test_the_running_roof_follows_the_true_clock() -> None:
    point, samples, clocks = made_soak(seconds=20)
    course = course_of(point, samples, clocks, ROOFS)
    assert course
    late = course.table[course.table["at_s"] > 15]
    assert (late["attainable_per_s"] / (830e12 * late["compute_hz"] / 1.62e9)).dropna().between(0.99, 1.01).all()
    assert (late[course.rate] / late["attainable_per_s"]).between(0.91, 0.95).all()
    ((start_s, end_s),) = course.held_back["sw_power_cap"]
    assert (start_s, end_s) == (pytest.approx(1.2, abs=0.05), pytest.approx(20.5, abs=0.05))


def test_record_and_figure_of_a_disturbed_soak_give_one_rate() -> None:
    """As a busy CPU gave it: single launches of 28 us, one in twenty of them held up for 9 ms."""
    point, _, _ = made_soak(seconds=5)
    times = [9e-3 if i % 20 == 3 else 28e-6 for i in range(10_000)]
    stamps = [0.5 + sum(times[:i]) for i in range(len(times))]
    samples = Samples(times, stamps, 1, 5.0, 5.0)
    part, from_s, _ = settled(samples, 0.03)
    assert point.clock
    assert point.work
    readings = replace(point.clock.readings, settled_from_s=from_s)
    clock = msgspec.structs.replace(point.clock, readings=readings)
    point = msgspec.structs.replace(point, clock=clock, timing=summarised(part, from_s, None, "host clock"))
    rows = list(csv.DictReader(io.StringIO(samples_table(samples).decode())))
    course = course_of(point, rows, [], None)
    assert course
    drawn = course.table[course.table["at_s"] >= from_s]["flops_per_s"].median()
    assert drawn == pytest.approx(point.flops_per_s, rel=0.02)
    assert point.flops_per_s == pytest.approx(point.work.flops * len(times) / sum(times), rel=0.03)
    drawing = draw_soak(point, rows, [], None, None, SCREEN)
    assert drawing
    assert engineering(point.flops_per_s, "FLOP/s") in drawing.headline


def test_the_power_of_a_soak_is_not_that_of_the_counters_steps() -> None:
    """A counter that moves every 0.1 s and is read every 0.03 to 0.05 s, as on an H200, under a steady 690 W."""
    point, samples, _ = made_soak(seconds=20)
    moments = [0.04 * i + 0.01 * (i % 2) for i in range(510)]
    steps = [(at_s, int(at_s / 0.1) * 0.1) for at_s in moments]
    joules = [12.3 * 10 * min(moved, 0.5) + 690 * max(0.0, moved - 0.5) for _, moved in steps]
    clocks = [{"at_s": at_s, "energy_j": energy} for at_s, energy in zip(moments, joules, strict=True)]
    course = course_of(point, samples, clocks, ROOFS)
    assert course
    power = course.table.set_index("at_s")["power_by_energy_w"].dropna()
    assert power[power.index > 1.5].between(0.93 * 690, 1.07 * 690).all()
    assert power[power.index < 0.5].between(100, 150).all()  # idle and load are kept apart
    assert power[0.625] > 600


@pytest.mark.parametrize("settings", [SCREEN, COLUMN])
def test_the_soaks_figure(settings: Any, tmp_path: Path) -> None:
    point, samples, clocks = made_soak(seconds=20)
    drawing = draw_soak(point, samples, clocks, MACHINE, ROOFS, settings)
    assert drawing
    assert [axes.get_label() for axes in drawing.axes] == [
        "strip Throughput, and the roof above it", "strip SM clock", "strip Power", "strip Temperature",
    ]  # fmt: skip
    assert "under the power cap" in drawing.headline
    texts = " ".join(text.get_text().replace("\n", " ") for text in drawing.texts)
    assert "by NVML's accumulator" in texts
    assert "apart" in texts
    if settings is SCREEN:
        drawing.save(tmp_path / "soak")
        rows = list(csv.DictReader((tmp_path / "soak.csv").open()))
        assert len(rows) == pytest.approx(82, abs=1)
        assert {"flops_per_s", "attainable_per_s", "compute_hz", "nvml_sm_hz", "throttled_power_s"} <= set(rows[0])


def test_a_soak_without_readings_and_roofs_is_drawn_all_the_same() -> None:
    point, samples, _ = made_soak(seconds=5)
    drawing = draw_soak(point, samples, [], None, None, SCREEN)
    assert drawing
    assert len(drawing.axes) == 1
    assert drawing.table is not None
    plain = msgspec.structs.replace(point, clock=Clock(compute_hz=1e9))
    assert draw_soak(plain, samples, [], None, None, SCREEN) is None
