"""Work and pauses: the share of the time in which a device is kept busy while it is measured. Knows no device.

A power-limited GPU that pauses between batches holds a higher clock in them: its limit is on the mean over a fraction
of a second. So pauses move the clock, and nobody's permission is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

SAMPLES_PER_BATCH = 8  # hot samples are made so long that about as many fill a batch
SETTLING_S = 1.0  # power limits act on means over up to a second
LONGEST_SETTLING_S = 3.0
TIMED_S = 1.0  # the least that is timed: several periods, and steps enough of the energy counter
LONGEST_TIMED_S = 3.0


class Pace:
    """``duty`` is the share of the time that is worked; None: back to back, and every sample is a batch of its own.

    A pause is as long as the work before it asks for, so that the share holds where one sample is longer than a batch.
    """

    def __init__(
        self,
        duty: float | None = None,
        period_s: float = 0.2,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.duty, self.period_s = duty, period_s
        self._now, self._sleep = now, sleep
        self._start_s = self._batch_start_s = now()
        self.batches = 0
        self.busy_s = 0.0

    @property
    def batch_s(self) -> float:
        return (self.duty or 0.0) * self.period_s

    @property
    def sample_s(self) -> float:
        """What a hot sample should last at least."""
        return self.batch_s / SAMPLES_PER_BATCH

    def warmup_s(self, asked_s: float) -> tuple[float, float]:
        """The least and the longest warm-up."""
        return (0.0, asked_s) if self.duty is None else (SETTLING_S, max(asked_s, LONGEST_SETTLING_S))

    @property
    def timed_s(self) -> float:
        """The least that is timed."""
        return 0.0 if self.duty is None else max(TIMED_S, 3 * self.period_s)

    @property
    def longest_timed_s(self) -> float:
        """How long is timed at most, beside the budget, where batches differ."""
        return 0.0 if self.duty is None else max(LONGEST_TIMED_S, 3 * self.period_s)

    @property
    def batch_over(self) -> bool:
        return self._now() - self._batch_start_s >= self.batch_s

    @property
    def passed_s(self) -> float:
        return self._now() - self._start_s

    def start(self) -> None:
        """A batch begins; what was before is forgotten."""
        self._start_s = self._batch_start_s = self._now()
        self.batches, self.busy_s = 0, 0.0

    def step(self) -> None:
        """Before each sample: a pause where the batch is over."""
        if self.batch_over:
            self.stop()

    def stop(self) -> None:
        """The end of a batch, and the pause that belongs to it."""
        worked_s = self._now() - self._batch_start_s
        self.busy_s += worked_s
        self.batches += 1
        if self.duty is not None and self.duty < 1:
            self._sleep(worked_s * (1 / self.duty - 1))
        self._batch_start_s = self._now()


def pace_of(clock: Mapping[str, Any]) -> Pace:
    """The pace that the ``clock`` group of the configuration asks for."""
    if clock.get("mode") != "duty" or clock.get("duty") is None:
        return Pace()
    return Pace(float(clock["duty"]), float(clock.get("period_s") or 0.2))
