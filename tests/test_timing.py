"""When a measurement stops, and what it says about itself."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import msgspec
import pytest

from roofexp.config.settings import TimingSettings
from roofexp.devices.cpu.device import CpuDevice
from roofexp.devices.cpu.kernel import CpuKernel
from roofexp.errors import FailedError
from roofexp.measure.bench import Bench, Request
from roofexp.measure.duty_cycle import Pace, pace_of
from roofexp.measure.sampler import IMPOSSIBLE_TIME, measure
from roofexp.measure.soak import measure_soak
from roofexp.measure.steadiness import batch_slowing, drift, half_width, mean_half_width, relative_half_width
from roofexp.records.point import read_point_or_failure
from roofexp.records.samples import Samples, known_within, median, median_interval, quantile, window_s, windows
from tests.compared_sweeps import made
from tests.kernel_cases import KERNELS, build

SETTINGS = TimingSettings(
    name="test", target=0.005, budget_s=2.0, warmup_s=0.5, steady=0.02, batch_s=1e-3, min_samples=10, max_samples=2000,
    drift=0.03, noise=0.10, timer_floors=3.0, busy=0.1, timeout_s=60.0,
)  # fmt: skip


class FakeKernel:
    """A kernel on a clock of its own: ``time_of(launches so far)`` seconds a launch, ``delay()`` added per interval."""

    method = "fake"

    def __init__(self, time_of, delay=lambda: 0.0) -> None:
        self.clock_s = 0.0
        self.launches = 0
        self.restored = 0
        self._time_of = time_of
        self._delay = delay

    def now(self) -> float:
        return self.clock_s

    def run_hot(self, launches: int) -> float:
        seconds = 0.0
        for _ in range(launches):
            seconds += self._time_of(self.launches)
            self.launches += 1
        seconds += self._delay()
        self.clock_s += seconds + 1e-5
        return seconds

    def run_cold(self) -> float:
        return self.run_hot(1)

    def restore(self) -> None:
        self.restored += 1


def flags(kernel: FakeKernel, settings: TimingSettings = SETTINGS, cold: bool = False, floor_s: float | None = None):
    timing, samples, found = measure(kernel, settings, cold, floor_s, now=kernel.now)
    return timing, samples, {flag.name for flag in found}


def test_a_timer_that_adds_microseconds_does_not_spoil_a_short_kernel() -> None:
    noise = random.Random(1)
    kernel = FakeKernel(lambda n: 2e-6, lambda: noise.uniform(0, 20e-6))
    timing, samples, _ = flags(kernel)
    assert timing.median_s == pytest.approx(2e-6, rel=0.05)
    assert samples.launches_per_sample >= 400


def test_first_launches_are_not_in_the_samples() -> None:
    kernel = FakeKernel(lambda n: 1e-4 * (1 + 4 * math.exp(-n / 20)))
    timing, _, found = flags(kernel)
    assert timing.p95_s == pytest.approx(1e-4, rel=0.03)
    assert found == set()


def test_a_steady_kernel_stops_early_and_a_noisy_one_uses_its_budget() -> None:
    steady, _, _ = flags(FakeKernel(lambda n: 1e-3))
    assert steady.samples == SETTINGS.min_samples
    noise = random.Random(2)
    noisy, _, found = flags(FakeKernel(lambda n: 1e-3 * noise.uniform(1, 3)))
    assert noisy.samples > 500
    assert "noisy" in found


def test_a_long_kernel_gets_three_samples_and_its_range_as_interval() -> None:
    timing, samples, _ = flags(FakeKernel(lambda n: 5.0))
    assert timing.samples == 3
    assert (timing.low_s, timing.high_s) == (min(samples.time_s), max(samples.time_s))


def test_a_slowing_kernel_is_drifting() -> None:
    _, _, found = flags(FakeKernel(lambda n: 1e-3 * (1 + n / 200)), cold=True)
    assert "drifting" in found


def test_a_time_near_the_timers_floor_is_too_short() -> None:
    assert "too short" in flags(FakeKernel(lambda n: 5e-6), floor_s=2e-6)[2]
    assert "too short" not in flags(FakeKernel(lambda n: 5e-5), floor_s=2e-6)[2]


def test_cold_samples_are_single_launches() -> None:
    timing, samples, _ = flags(FakeKernel(lambda n: 2e-6), cold=True)
    assert samples.launches_per_sample == 1
    assert timing.median_s == pytest.approx(2e-6)


def test_inout_operands_are_renewed_before_they_run_away() -> None:
    kernel = FakeKernel(lambda n: 1e-6)
    flags(kernel)
    assert kernel.restored >= kernel.launches // 2000


def paced(kernel: FakeKernel, duty: float, cold: bool = False, settings: TimingSettings = SETTINGS):
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        kernel.clock_s += seconds

    pace = Pace(duty, 0.2, kernel.now, sleep)
    timing, samples, _ = measure(kernel, settings, cold, None, now=kernel.now, pace=pace)
    return timing, samples, pauses


@pytest.mark.parametrize("duty", [0.1, 0.3, 0.8])
@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("launch_s", [2e-6, 1e-3, 0.7])
def test_the_share_of_the_time_that_is_worked_is_what_was_asked(duty: float, cold: bool, launch_s: float) -> None:
    timing, samples, pauses = paced(FakeKernel(lambda n: launch_s), duty, cold)
    assert samples.busy_s / samples.passed_s == pytest.approx(duty, rel=0.02)
    assert timing.median_s == pytest.approx(launch_s)
    assert timing.warmup_s >= 1.0
    assert samples.passed_s >= 1.0
    if launch_s < 0.1:
        assert sorted(pauses)[len(pauses) // 2] == pytest.approx(0.2 * (1 - duty), rel=0.3)


def test_duty_1_never_pauses_and_is_warmed_up_all_the_same() -> None:
    timing, samples, pauses = paced(FakeKernel(lambda n: 1e-3), 1.0)
    assert pauses == []
    assert timing.warmup_s >= 1.0
    assert samples.busy_s == pytest.approx(samples.passed_s, rel=0.01)


def test_a_hot_sample_is_long_beside_the_timer_and_short_beside_the_batch() -> None:
    _, samples, _ = paced(FakeKernel(lambda n: 2e-6), 0.4)
    assert samples.launches_per_sample * 2e-6 == pytest.approx(0.4 * 0.2 / 8, rel=0.05)


def test_a_clock_that_sinks_for_a_second_is_warmed_up_to_its_end() -> None:
    kernel = FakeKernel(lambda n: 0.0)
    kernel._time_of = lambda n: 1e-3 * (1 + min(kernel.clock_s, 1.5))
    timing, _, _ = paced(kernel, 0.5)
    assert timing.median_s == pytest.approx(2.5e-3, rel=0.02)


def test_a_clock_that_sinks_within_each_batch_is_no_noise() -> None:
    """As a power limit does: every batch the same, 15 % slower at its end."""
    kernel = FakeKernel(lambda n: 0.0)
    started: list[float] = []

    def sleep(seconds: float) -> None:
        kernel.clock_s += seconds
        started.append(kernel.clock_s)

    kernel._time_of = lambda n: 1e-3 * (1 + 0.15 * min(1.0, (kernel.clock_s - (started or [0.0])[-1]) / 0.1))
    pace = Pace(0.5, 0.2, kernel.now, sleep)
    _, samples, found = measure(kernel, SETTINGS, False, None, now=kernel.now, pace=pace)
    assert found == []
    assert samples.passed_s < 1.5
    sizes = {samples.batches.count(number) for number in samples.batches}
    assert max(sizes) - min(sizes) <= 1  # the last batch is as whole as the others
    assert batch_slowing(samples) == pytest.approx(0.13, abs=0.02)


def test_batches_that_differ_are_taken_for_longer_and_then_called_noisy() -> None:
    noise = random.Random(5)
    kernel = FakeKernel(lambda n: 1e-3 * level[0])
    level = [1.0]

    def sleep(seconds: float) -> None:
        kernel.clock_s += seconds
        level[0] = noise.uniform(1, 1.3)

    pace = Pace(0.5, 0.2, kernel.now, sleep)
    _, samples, found = measure(kernel, SETTINGS, False, None, now=kernel.now, pace=pace)
    assert samples.passed_s == pytest.approx(3.1, abs=0.2)
    (flag,) = (flag for flag in found if flag.name == "noisy")
    assert "whole batches" in flag.message


def test_students_interval_by_hand() -> None:
    assert mean_half_width([1.0, 1.0]) == 0.0
    assert mean_half_width([9.0, 10.0, 11.0]) == pytest.approx(4.302653 / 3**0.5 / 10)
    samples = Samples([9.0, 10.0, 11.0] * 2, [0.0] * 6, 1, batches=[0, 0, 0, 1, 1, 1])
    assert half_width(samples) > 0.05  # two batches say too little about their mean: by samples


def test_no_pauses_without_the_duty_mode() -> None:
    assert pace_of({"mode": "observe", "duty": 0.3}).duty is None
    assert pace_of({"mode": "duty", "duty": 0.3, "period_s": 0.1}).batch_s == pytest.approx(0.03)


def soaked(time_at, seconds: float = 30.0, delay=lambda: 0.0):
    kernel = FakeKernel(lambda n: 0.0, delay)
    kernel._time_of = lambda n: time_at(kernel.clock_s)
    settings = msgspec.structs.replace(SETTINGS, seconds=seconds)
    laps: list[float] = []
    timing, samples, found = measure_soak(
        kernel, settings, False, None, now=kernel.now, on_lap=lambda: laps.append(kernel.clock_s)
    )
    return timing, samples, found, laps


def test_a_soak_keeps_every_sample_and_takes_the_time_of_the_settled_part() -> None:
    timing, samples, found, laps = soaked(lambda at_s: 1e-3 if at_s < 8 else 1.3e-3)
    assert samples.at_s[-1] == pytest.approx(30, abs=0.2)
    assert samples.time_s[0] == pytest.approx(1e-3)
    assert timing.median_s == pytest.approx(1.3e-3)
    assert samples.settled_from_s == pytest.approx(8, abs=0.6)
    assert timing.samples < len(samples.time_s)
    assert "settled" in timing.method
    assert found == []
    assert len(laps) == pytest.approx(120, abs=5)
    assert 0.01 <= samples.launches_per_sample * 1e-3 <= 0.05


def test_a_soak_that_never_settles_says_so_and_one_disturbance_does_not_unsettle() -> None:
    _, _, found, _ = soaked(lambda at_s: 1e-3 * (1 + at_s / 30))
    assert {flag.name for flag in found} == {"not settled", "noisy"}
    timing, samples, found, _ = soaked(lambda at_s: 2e-3 if 14 < at_s < 14.5 else 1e-3)
    assert found == []
    assert samples.settled_from_s == 0.0
    assert timing.median_s == pytest.approx(1e-3)


def disturbed_soak(held_up, seconds: float = 5.0):
    """A launch takes 28 us, and 30 ms more where ``held_up(number of the launch)``."""
    kernel = FakeKernel(lambda n: 28e-6 + (30e-3 if held_up(n) else 0.0))
    settings = msgspec.structs.replace(SETTINGS, seconds=seconds)
    return measure_soak(kernel, settings, False, None, now=kernel.now)[:2]


def test_a_disturbed_launch_does_not_choose_the_batch_of_a_soak() -> None:
    _, samples = disturbed_soak(lambda n: n in (0, 7, 100))
    assert samples.launches_each == []
    assert 0.02 <= samples.launches_per_sample * 28e-6 <= 0.05


def test_a_batch_that_was_chosen_wrongly_is_chosen_again() -> None:
    timing, samples = disturbed_soak(lambda n: n < 10)
    assert samples.launches_each[0] == 1
    assert samples.launches_each[-1] == round(0.02 / 28e-6)
    assert samples.launches == sum(samples.launches_each)
    assert samples.timed_s == pytest.approx(5.0, abs=0.1)
    assert timing.median_s == pytest.approx(28e-6)


def test_the_time_of_a_disturbed_soak_is_what_its_launches_took() -> None:
    """Every hundredth launch is held up: the median launch takes 28 us, the mean one 328."""
    timing, samples = disturbed_soak(lambda n: n % 100 == 50)
    assert timing.median_s == pytest.approx(samples.timed_s / samples.launches, rel=0.05)
    assert timing.median_s == pytest.approx(328e-6, rel=0.05)


def test_rates_of_windows_by_hand() -> None:
    samples = [(0.0, 0.01, 10), (0.2, 0.02, 5), (0.3, 0.04, 1)]
    assert window_s(samples) == 0.25
    assert windows(samples, 0.25) == {0: (pytest.approx(0.2), 15), 1: (pytest.approx(0.04), 1)}
    assert window_s([(0.0, 0.2, 2)]) == 0.8
    assert window_s([*samples, (0.4, 0.5, 1)]) == 0.25  # one that was held up widens nothing


def test_a_launch_longer_than_the_soak_is_one_sample() -> None:
    timing, samples, _, _ = soaked(lambda at_s: 50.0)
    assert len(samples.time_s) == 1
    assert timing.median_s == 50.0


def test_statistics_by_hand() -> None:
    assert median([1, 2, 3]) == 2
    assert median([1, 2, 3, 4]) == 2.5
    assert quantile([0, 10], 0.05) == 0.5
    assert median_interval([1.0, 2.0, 3.0]) == (1.0, 3.0)
    # n = 100: ranks 40 and 61 (Le Boudec, table A.1)
    assert median_interval([float(rank) for rank in range(1, 101)]) == (40.0, 61.0)
    assert drift([1.0] * 5) == 0.0
    assert drift([1.0] * 10 + [1.1] * 10 + [1.2] * 10) == pytest.approx(0.2)


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    draw = random.Random(3)
    hits = 0
    for _ in range(1000):
        low, high = median_interval(sorted(draw.expovariate(1.0) for _ in range(40)))
        hits += low <= 0.6931 <= high
    assert 930 <= hits <= 985


@pytest.mark.parametrize("time_s", [-1e-3, math.nan, math.inf])
@pytest.mark.parametrize("first", [0, 30])
def test_a_time_that_nothing_takes_is_no_time(time_s: float, first: int) -> None:
    kernel = FakeKernel(lambda n: 1e-4 if n < first else time_s)
    with pytest.raises(FailedError, match="the timer gave") as raised:
        flags(kernel)
    assert raised.value.kind == IMPOSSIBLE_TIME
    assert kernel.launches < first + 100


def test_a_zero_among_the_samples_is_no_time_either() -> None:
    for cold in (True, False):
        with pytest.raises(FailedError, match="the timer gave 0 s"):
            flags(FakeKernel(lambda n: 0.0 if n > 5 else 1e-3), cold=cold)
    with pytest.raises(FailedError, match="the timer gave 0 s"):
        flags(FakeKernel(lambda n: 0.0), cold=True)
    found = FakeKernel(lambda n: 0.0 if n == 0 else 1e-5)  # shorter than the timer's step, before there is a batch
    assert flags(found)[0].median_s == pytest.approx(1e-5)


def test_a_soak_takes_no_impossible_time() -> None:
    kernel = FakeKernel(lambda n: 1e-3 if n < 500 else math.nan)
    settings = msgspec.structs.replace(SETTINGS, seconds=3.0)
    with pytest.raises(FailedError, match="the timer gave nan s"):
        measure_soak(kernel, settings, False, None, now=kernel.now)


def test_an_interval_knows_that_neighbours_move_together() -> None:
    independent = [1.0 + 0.001 * ((7 * i) % 11 - 5) for i in range(110)]
    together = sorted(independent[:55]) + sorted(independent[55:], reverse=True)
    assert relative_half_width(together) > 3 * relative_half_width(independent)


def test_a_time_that_drifts_is_not_known_better_than_it_drifts() -> None:
    drifting = [1.0 + 0.0005 * i for i in range(100)]
    low, high = known_within(drifting)
    assert low <= 1.01
    assert high >= 1.04


def test_a_point_has_twenty_samples_and_ten_milliseconds() -> None:
    settings = msgspec.structs.replace(SETTINGS, min_samples=20)
    timing, samples, _ = flags(FakeKernel(lambda n: 2e-5), settings, cold=True)
    assert timing.samples >= 20
    assert samples.timed_s >= 0.01


def test_an_impossible_time_fails_its_point_and_the_next_one_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(CpuDevice(1, [KERNELS]))
    settings = msgspec.structs.replace(SETTINGS, budget_s=0.05, warmup_s=0.02)
    request = Request(
        kernel=build("vadd", "fp64", 1000), timing=settings, cold=False, seed=1, clock={"mode": "observe"}
    )
    with monkeypatch.context() as patch:
        patch.setattr(CpuKernel, "run_hot", lambda self, launches: -1e-3 * launches)
        reply = bench.run(request)
    assert (reply.status, reply.reason_kind, reply.timing, reply.poisoned) == ("failed", IMPOSSIBLE_TIME, None, False)
    assert bench.run(request).status == "ok"


@pytest.mark.parametrize("time", ["0", "-0.001", "null", "1e300"])
def test_a_record_with_an_impossible_time_is_a_failed_point(tmp_path: Path, time: str) -> None:
    (tmp_path / "7").mkdir()
    text = msgspec.json.encode(made("gemm", [1e-3] * 3)).decode()
    good = tmp_path / "7/point.json"
    good.write_text(text)
    assert read_point_or_failure(good).status == "ok"
    good.write_text(re.sub(r'"median_s":[^,]+', f'"median_s":{time}', text))
    point = read_point_or_failure(good)
    assert (point.status, point.job, point.timing) == ("failed", 7, None)
    assert "median_s" in (point.reason or "")


def test_the_record_says_what_compiling_took_and_a_second_time_less(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nimport numba\n\ntime.sleep(0.2)\n\n\n@numba.njit\ndef slow(x, y, z):\n    z[:] = x + y\n"
    )
    settings = msgspec.structs.replace(SETTINGS, budget_s=0.05, warmup_s=0.02)
    kernel = build("vadd", "fp64", 1000)
    kernel = msgspec.structs.replace(kernel, implementations={"cpu": {"function": "slow.py:slow"}})
    bench = Bench(CpuDevice(1, [tmp_path, KERNELS]))
    request = Request(kernel=kernel, timing=settings, cold=False, seed=1, clock={"mode": "observe"})
    first, second = bench.run(request), bench.run(request)
    assert first.timing, first.reason
    assert second.timing
    assert first.timing.compile_s is not None
    assert first.timing.compile_s > 0.2  # importing the file and compiling its function
    assert second.timing.compile_s is not None
    assert second.timing.compile_s < 0.1
