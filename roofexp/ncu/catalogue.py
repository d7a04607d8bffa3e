"""The metric catalogue: which counters to ask for on an architecture, and what each of them means.

The names, weights and levels stand in ``catalogue.yaml``. A counter that a GPU or an ncu does not have is unavailable,
never 0, and a counter is never asked for beside one that contains it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from roofexp.config.paths import PACKAGE
from roofexp.config.yaml_file import read_mapping
from roofexp.errors import BadInputError
from roofexp.placing.limits import nearest_architecture

Level = Literal["basic", "hierarchy", "diagnosis"]
LEVELS: tuple[Level, ...] = ("basic", "hierarchy", "diagnosis")


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """What may be asked for, and why the rest may not."""

    available: list[str]
    unavailable: dict[str, str]  # metric to reason


@functools.cache
def catalogue() -> dict[str, Any]:
    """The whole catalogue; see the comments in catalogue.yaml."""
    return read_mapping(PACKAGE / "ncu/catalogue.yaml")


def request(architecture: str, level: str = "basic", precision: str | None = None) -> list[str]:
    """The metrics to ask ncu for at a level (which includes those before it), for one precision or for all.

    Raises BadInputError for an unknown level or an architecture before 7.0.
    """
    if level not in LEVELS:
        raise BadInputError(f"counters.level={level}; allowed: {', '.join(LEVELS)}")
    architectures = catalogue()["architectures"]
    key = nearest_architecture(architecture, architectures)
    if key is None:
        raise BadInputError(f"compute capability {architecture}: counters are known for {', '.join(architectures)}")
    levels = set(LEVELS[: LEVELS.index(level) + 1])
    names = [*_flop_metrics(key, precision, levels), *_byte_metrics(levels), *_scalar_metrics(levels)]
    names += stall_metrics().values() if catalogue()["stalls"]["level"] in levels else []
    if catalogue()["facts"]["level"] in levels:
        names += [name for name in fact_metrics().values() if not name.startswith("launch__")]
    return list(dict.fromkeys(names))


def resolve(names: list[str], query_metrics: str) -> Resolved:
    """Sorts ``names`` by what ``ncu --query-metrics`` prints for this GPU; metrics of the launch are always there."""
    offered = {line.split()[0].split(".")[0] for line in query_metrics.splitlines() if re.match(r"\w+__\w+", line)}
    if not offered:
        raise BadInputError("ncu --query-metrics listed no metrics")
    missing = {name for name in names if name.split(".")[0] not in offered and not name.startswith("launch__")}
    return Resolved(
        available=[name for name in names if name not in missing],
        unavailable={name: "not offered by this ncu on this GPU" for name in names if name in missing},
    )


def flop_terms(architecture: str | None) -> dict[str, list[tuple[str, int]]]:
    """Metric and weight of each term, by FLOP type of the CUDA cores; all terms where the architecture is unknown."""
    key = architecture and nearest_architecture(architecture, catalogue()["architectures"])
    return {
        kind: [(term["metric"], term["weight"]) for term in entry["terms"] if _holds(term, key)]
        for kind, entry in catalogue()["flops"].items()
    }


def counts_lanes(kind: str) -> bool:
    """Whether an instruction of this FLOP type works on one value or two, as the kernel's code decides."""
    return bool(catalogue()["flops"][kind].get("lanes", False))


def tensor_metrics(architecture: str, precision: str | None = None) -> dict[str, list[str]]:
    """The parents that count tensor operations, by FLOP type."""
    key = nearest_architecture(architecture, catalogue()["architectures"])
    metrics = {}
    for kind, entry in catalogue()["tensor"].items():
        names = entry["names"].get(key, [])
        if names and (precision is None or precision in entry["precisions"]):
            metrics[kind] = [f"{name}.sum" for name in names]
    return metrics


def byte_sources(level: str) -> list[dict[str, Any]]:
    """The ways to know the bytes at a level (dram, l2, l1, shared), best first: terms with weights, and a note."""
    return list(catalogue()["bytes"][level]["sources"])


def scalar_names(quantity: str) -> list[str]:
    """The metrics that give a quantity, best first."""
    return list(catalogue()["scalars"][quantity]["names"])


def stall_metrics() -> dict[str, str]:
    """The metric of each stall reason."""
    stalls = catalogue()["stalls"]
    return {reason: stalls["name"].format(reason=reason) for reason in stalls["reasons"]}


def fact_metrics() -> dict[str, str]:
    """The metric of each fact that only the diagnosis needs."""
    return dict(catalogue()["facts"]["metrics"])


@functools.cache
def is_known(name: str) -> bool:
    """Whether anything is computed from this metric, so that its unit and value must be understood."""
    if name.startswith(("sm__ops_path_tensor_", "derived__sm")):
        return True
    return any(name == metric or name.startswith(f"{metric}.") for metric in _known_names())


def is_counter(name: str) -> bool:
    """Whether a metric was counted on the hardware, as distinct from attributes of the launch and the device."""
    return not name.startswith(_ATTRIBUTES)


_ATTRIBUTES = (
    "launch__",
    "device__",
    "nvlink__",
    "numa__",
    "c2clink__",
    "pcie__",
    "profiler__",
    "sm__maximum",
    "smsp__maximum",
)


@functools.cache
def _known_names() -> frozenset[str]:
    names = [metric for terms in flop_terms(None).values() for metric, _ in terms]
    names += [metric.replace("smsp__", "sm__", 1) for metric in names]
    for level in catalogue()["bytes"]:
        names += [metric for source in byte_sources(level) for metric in source["terms"]]
    for quantity in catalogue()["scalars"]:
        names += scalar_names(quantity)
    names += [*stall_metrics().values(), *fact_metrics().values(), *catalogue()["occupancy_limits"].values()]
    return frozenset(names)


def _flop_metrics(key: str, precision: str | None, levels: set[Level]) -> list[str]:
    names = []
    for kind, terms in flop_terms(key).items():
        entry = catalogue()["flops"][kind]
        if precision is None or precision in entry["precisions"] or entry.get("always_from") in levels:
            names += [metric for metric, _ in terms]
    return names + [name for group in tensor_metrics(key, precision).values() for name in group]


def _byte_metrics(levels: set[Level]) -> list[str]:
    return [
        metric
        for entry in catalogue()["bytes"].values()
        for source in entry["sources"]
        if entry["level"] in levels and source.get("request", False)
        for metric in source["terms"]
    ]


def _scalar_metrics(levels: set[Level]) -> list[str]:
    return [entry["names"][0] for entry in catalogue()["scalars"].values() if entry["level"] in levels]


def _holds(term: dict[str, Any], key: str | None) -> bool:
    return key is None or "architectures" not in term or key in term["architectures"]


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
