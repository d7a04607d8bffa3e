"""Whether other programs disturbed a timing is said, also of short ones; what is not known is said too."""

from __future__ import annotations

import multiprocessing
import os
import time

import msgspec
import pytest

from roofexp.measure import host_load
from roofexp.measure.host_load import NOT_QUIET, QUIET_UNKNOWN, HostLoad, HostReading, quiet_flags
from tests.test_timing import SETTINGS as TIMING

SETTINGS = msgspec.structs.replace(TIMING, busy=0.10)


def spin(seconds: float, core: int) -> None:
    os.sched_setaffinity(0, {core})
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone lets a thread be pinned")
def test_a_thread_that_shares_its_core_for_a_tenth_of_a_second_is_seen_to_wait() -> None:
    cores = os.sched_getaffinity(0)
    core = min(cores)
    other = multiprocessing.get_context("fork").Process(target=spin, args=(2.0, core))
    other.start()
    try:
        time.sleep(0.3)
        os.sched_setaffinity(0, {core})
        load = HostLoad()
        load.start()
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:
            pass
        reading = load.stop()
    finally:
        os.sched_setaffinity(0, cores)
        other.kill()
    assert reading.waited_share is not None
    assert reading.waited_share > 0.1
    (flag,) = quiet_flags(reading, SETTINGS, "cpu")
    assert flag.name == NOT_QUIET


def test_what_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(host_load, "THREADS", tmp_path / "nothing")
    load = HostLoad()
    load.start()
    (flag,) = quiet_flags(load.stop(), SETTINGS, "cpu")
    assert flag.name == QUIET_UNKNOWN


def test_threads_that_wait_for_each_other_are_no_other_program() -> None:
    assert quiet_flags(HostReading(0.002, 0.4), SETTINGS, "cpu") == []
    (flag,) = quiet_flags(HostReading(0.09, 0.1), SETTINGS, "cpu")
    assert flag.name == NOT_QUIET
    assert flag.message == "a thread waited for a core during 10 % of the timing"


def test_a_quiet_machine_has_no_flag_and_a_gpu_asks_for_none() -> None:
    assert quiet_flags(HostReading(0.02, 0.001), SETTINGS, "cpu") == []
    assert quiet_flags(HostReading(None, 0.001), SETTINGS, "cpu") == []
    assert quiet_flags(HostReading(None, None), SETTINGS, "cuda") == []
