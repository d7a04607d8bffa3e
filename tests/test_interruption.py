"""The end of a sweep that somebody asks for is not lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from roofexp.run import signals


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(signals, "_asked", False)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_whose_exception_got_lost_ends_the_next_job(number: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals.listen()
    signals.raise_again()
    assert not signals.asked()

    class Lost:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)
            sum(range(1000))  # the handler runs in here, and Python prints and drops what it raises

    Lost()
    assert signals.asked()
    with pytest.raises(KeyboardInterrupt):
        signals.raise_again()


def test_a_job_in_the_background_goes_on() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signals.listen()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
