"""A soak on a GPU that keeps CUDA's order: no gap between batches, true times and clocks, and every way to end."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from roofexp.devices.cuda import stopwatch
from roofexp.devices.cuda.device import CudaKernel
from roofexp.devices.cuda.stopwatch import back_to_back
from roofexp.measure.duty_cycle import Pace
from roofexp.measure.sampler import RESTORE_LAUNCHES
from roofexp.measure.soak import measure_soak
from tests.fake_cuda import SM_HZ, FakeGpu, FaultError, fake_cupy, fake_timing_code
from tests.test_timing import SETTINGS


class Rig:
    """The real stopwatch on the fake GPU, as a loaded kernel of ``launch_s``."""

    method = "events around a graph"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, launch_s: float) -> None:
        self.gpu, self.launch_s = FakeGpu(), launch_s
        monkeypatch.setitem(sys.modules, "cupy", fake_cupy(self.gpu))
        code = fake_timing_code(self.gpu, lambda: self.watch._released)
        monkeypatch.setattr(stopwatch, "load_module", lambda *arguments: code)
        self.watch = stopwatch.CudaStopwatch(4, 1024, [], "sm_90", None, self.gpu.now)
        self.done: list[str] = []
        self.launched = 0
        self.fault_after: int | None = None

    def queue(self, launches: int) -> Callable[[], Any]:
        def end() -> None:
            self.launched += launches
            self.done.append(f"batch of {launches}")
            if self.fault_after is not None and self.launched >= self.fault_after:
                self.gpu.fault()

        return lambda: self.gpu.queue(launches * self.launch_s, end)

    def renew(self) -> None:
        self.gpu.queue(1e-4, lambda: self.done.append("renewed"))

    def run_hot(self, launches: int) -> float:
        return self.watch.seconds(self.queue(launches))

    def run_cold(self) -> float:
        return self.watch.seconds(self.queue(1), flush=True)

    def stream_hot(self, launches: int, more: Callable[[int], bool], renew_every: int) -> Any:
        return back_to_back(self.watch, self.queue(launches), more, self.renew, renew_every)

    def restore(self) -> None:
        self.renew()
        self.gpu.stream.synchronize()


def soak(
    rig: Rig, seconds: float = 5.0, on_lap: Callable[[], None] | None = None, cold: bool = False, duty: Any = None
):
    laps: list[float | None] = []

    def lap() -> None:
        laps.append(rig.watch.lap_hz())
        rig.gpu.host_s += 0.03  # NVML answers slowly

    def begin() -> float:
        rig.watch.reset_clock()
        return 0.5

    def sleep(pause_s: float) -> None:
        rig.gpu.host_s += pause_s

    timing, samples, flags = measure_soak(
        rig, msgspec.structs.replace(SETTINGS, seconds=seconds), cold, None, now=rig.gpu.now,
        on_idle=begin, on_lap=on_lap or lap, pace=Pace(duty, now=rig.gpu.now, sleep=sleep),
    )  # fmt: skip
    return timing, samples, flags, laps


@pytest.mark.parametrize("launch_s", [2e-6, 1.4e-3, 0.2])
def test_a_soak_leaves_no_gap_between_batches(monkeypatch: pytest.MonkeyPatch, launch_s: float) -> None:
    rig = Rig(monkeypatch, launch_s)
    timing, samples, flags, laps = soak(rig)
    assert timing.median_s == pytest.approx(launch_s, rel=1e-6)
    assert "queued ahead" in timing.method
    assert samples.timed_s / samples.passed_s > 0.99
    assert samples.passed_s == pytest.approx(5, abs=0.25)
    batch_s = launch_s * samples.launches_per_sample
    assert samples.at_s[0] == pytest.approx(0.5, abs=1e-3)
    assert samples.at_s[-1] + batch_s == pytest.approx(0.5 + samples.passed_s, abs=0.05)
    assert flags == []
    assert not rig.gpu.stream.waiting
    if launch_s < 0.1:
        assert len(laps) == pytest.approx(20, abs=2)
        assert laps[:-1] == [pytest.approx(SM_HZ, rel=1e-4)] * (len(laps) - 1)
    assert rig.watch.clock_hz() == pytest.approx(SM_HZ, rel=1e-4)


def test_operands_are_renewed_between_batches_and_that_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 2e-5)
    timing, samples, _, _ = soak(rig, 3.0)
    assert timing.median_s == pytest.approx(2e-5, rel=1e-6)
    first = len(rig.done) - 1 - rig.done[::-1].index("renewed")
    assert first > 1
    runs = "".join("r" if what == "renewed" else "b" for what in rig.done).split("r")[2:-1]
    between = {len(run) * samples.launches_per_sample for run in runs}
    assert between == {RESTORE_LAUNCHES + (-RESTORE_LAUNCHES) % samples.launches_per_sample}


def test_a_launch_longer_than_the_soak_is_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 8.0)
    _, samples, _, _ = soak(rig, 5.0)
    assert samples.time_s == [pytest.approx(8.0)]


def test_pauses_and_flushes_are_not_queued_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    timing, samples, _, _ = soak(Rig(monkeypatch, 1e-3), 3.0, duty=0.5)
    assert "ahead" not in timing.method
    assert samples.busy_s / samples.passed_s == pytest.approx(0.5, abs=0.05)
    timing, _, _, _ = soak(Rig(monkeypatch, 1e-3), 1.0, cold=True)
    assert "ahead" not in timing.method


def test_a_kernel_that_faults_in_the_middle_is_that_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 1e-3)
    rig.fault_after = 1000
    with pytest.raises(FaultError):
        soak(rig)
    assert rig.launched < 1100


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_soak_leaves_nothing_on_the_stream(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    rig = Rig(monkeypatch, 1e-3)

    def lap() -> None:
        assert rig.gpu.stream.waiting
        raise error

    with pytest.raises(error):
        soak(rig, on_lap=lap)
    assert not rig.gpu.stream.waiting
    assert rig.gpu.host_s < 1.0
    assert rig.run_hot(10) == pytest.approx(0.01)  # and the GPU can be used


@pytest.mark.parametrize(("launch_s", "streamed"), [(1.4e-3, True), (25e-3, True), (6e-6, False)])
def test_launches_without_a_graph_are_queued_ahead_where_the_host_keeps_up(
    monkeypatch: pytest.MonkeyPatch, launch_s: float, streamed: bool
) -> None:
    """As those of cuBLAS, which refuses capture: the fake stream refuses it too."""
    rig = Rig(monkeypatch, launch_s)
    kernel: Any = types.SimpleNamespace(operands=[])
    loaded = CudaKernel(kernel, "cupy", {}, [], lambda: rig.gpu.queue(launch_s), rig.watch)
    timing, samples, _ = measure_soak(
        loaded, msgspec.structs.replace(SETTINGS, seconds=1.0), False, None, now=rig.gpu.now, pace=Pace(now=rig.gpu.now)
    )
    assert ("queued ahead" in timing.method) is streamed
    assert timing.median_s == pytest.approx(launch_s, rel=1e-3)
    assert (samples.timed_s / samples.passed_s > 0.99) is streamed


def test_the_first_batch_waits_for_its_launches_and_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 1e-3)
    asked: list[int] = []

    def more(queued: int) -> bool:
        asked.append(queued)
        return len(asked) < 4

    found = list(back_to_back(rig.watch, rig.queue(5), more, rig.renew, 100))
    assert asked[:3] == [0, 1, 2]
    assert [seconds for _, seconds in found] == [pytest.approx(5e-3)] * 3
    assert [at_s for at_s, _ in found] == [0.0, pytest.approx(5e-3, abs=1e-4), pytest.approx(10e-3, abs=1e-4)]
    assert list(back_to_back(rig.watch, rig.queue(5), lambda queued: False, rig.renew, 1)) == []
