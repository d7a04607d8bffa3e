"""The end of a sweep that somebody asks for is not lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from roofexp.run.signals import StopRequest


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_whose_exception_got_lost_ends_the_next_job(number: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stop = StopRequest()
    stop.listen()
    stop.raise_again()
    assert not stop.asked

    class Lost:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)
            sum(range(1000))  # the handler runs in here, and Python prints and drops what it raises

    Lost()
    assert stop.asked
    with pytest.raises(KeyboardInterrupt):
        stop.raise_again()


def test_a_job_in_the_background_goes_on() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    StopRequest().listen()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_signal_while_tables_are_written_is_noted_and_nothing_is_torn_apart(capsys) -> None:
    stop = StopRequest()
    stop.listen()
    with stop.finishing():
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(1000))
    assert stop.asked
    assert "press Ctrl-C again" in capsys.readouterr().err
