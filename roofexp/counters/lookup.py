"""Finds a counter's total in a report that may hold it under another suffix, only as a rate, or not at all."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_FMA = {"ffma_pred_on", "dfma_pred_on", "hfma_pred_on"}


class Lookup(msgspec.Struct, kw_only=True):
    """``values`` in SI, None for what ncu had no value of. ``time_s`` and ``cycles`` turn rates into totals."""

    values: Mapping[str, float | None]
    time_s: float | None = None
    cycles: float | None = None
    from_rates: list[str] = []  # totals that were worked out of rates

    def has(self, metric: str) -> bool:
        """Whether the report was asked for this counter, with a value or without."""
        return any(name in self.values for name in (*_spellings(metric), *_rates(metric)))

    def total(self, metric: str) -> float | None:
        """The counter over the launch; None where it was not collected or has no value."""
        for name in _spellings(metric):
            if self.values.get(name) is not None:
                return self.values[name]
        for name, (base, factor) in _rates(metric).items():
            rate, over = self.values.get(name), self.time_s if base == "time" else self.cycles
            if rate is not None and over is not None:
                self.from_rates.append(metric)
                return rate * over * factor
        return None

    def first(self, metrics: list[str]) -> float | None:
        """The first of these metrics that has a value."""
        return next((self.values[name] for name in metrics if self.values.get(name) is not None), None)


def _spellings(metric: str) -> list[str]:
    """The sum over the SMs is the same as that over their quarters."""
    if metric.startswith("smsp__sass_thread_inst"):
        return [metric, metric.replace("smsp__", "sm__", 1)]
    return [metric]


def _rates(metric: str) -> dict[str, tuple[str, float]]:
    """Names under which ncu's roofline sections give the same counter per second or per cycle, with a factor."""
    rates: dict[str, tuple[str, float]] = {}
    for name in _spellings(metric):
        rates[f"{name}.per_second"] = ("time", 1.0)
        rates[f"{name}.per_cycle_elapsed"] = ("cycles", 1.0)
    kind = metric.removesuffix(".sum").rpartition("_op_")[2]
    if kind in _FMA:  # the derived metric has doubled it already
        rates[f"derived__smsp__sass_thread_inst_executed_op_{kind}_x2"] = ("cycles", 0.5)
    return rates
