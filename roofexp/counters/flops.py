"""FLOPs by type, with everything that may make them wrong said beside them."""

from __future__ import annotations

import re

import msgspec

from roofexp.counters.catalogue import catalogue, counts_lanes, flop_terms
from roofexp.counters.lookup import Lookup
from roofexp.counters.tensor import tensor_counters, tensor_operations
from roofexp.point import Flag

_FEW = 0.01  # half-precision instructions below this share of the work are the compiler's constants
_WARP = 32
_LEAST_OPERATIONS = 512  # of one tensor instruction on any architecture (HMMA.884)
_TRACE_PCT = 1.0  # kernels without any tensor instruction show up to 0.4 % on an H200


class Flops(msgspec.Struct, kw_only=True):
    """``total`` is None where a type is missing or tensor work was not counted; ``by_type`` keeps what is known."""

    total: float | None
    by_type: dict[str, float | None]
    flags: list[Flag]
    notes: list[str]


def count_flops(lookup: Lookup, architecture: str | None, half_lanes: int, kernel: str) -> Flops:
    """Adds up the FLOP counters of a launch; see ``roofexp.counters.counts.derive`` for the arguments."""
    flops = Flops(total=None, by_type={}, flags=[], notes=[])
    for kind, terms in flop_terms(architecture).items():
        _add_type(flops, lookup, kind, terms, half_lanes if counts_lanes(kind) else 1)
    on_cores = list(flops.by_type)
    flops.by_type |= tensor_operations(lookup)
    _note_packed(flops, lookup, architecture)
    _note_half(flops, half_lanes)
    flops.total = _total(flops, on_cores)
    hidden = _hidden_tensor_work(lookup, flops, kernel)
    if hidden:
        flops.total = None
        flops.flags.append(Flag("flops incomplete", hidden))
    return flops


def _add_type(flops: Flops, lookup: Lookup, kind: str, terms: list[tuple[str, int]], lanes: int) -> None:
    """One type of the CUDA cores: the sum over the counters that were asked for, None when one has no value."""
    asked = [(metric, weight) for metric, weight in terms if lookup.has(metric)]
    if not asked:
        return
    totals = [(metric, lookup.total(metric), weight) for metric, weight in asked]
    missing = [metric for metric, total, _ in totals if total is None]
    if missing:
        flops.by_type[kind] = None
        flops.flags.append(Flag("flops missing", f"no value for {', '.join(missing)}, so no sum of {kind}"))
        return
    flops.by_type[kind] = sum(total * weight * lanes for _, total, weight in totals if total is not None)
    absent = [_short(metric) for metric, _ in terms if not lookup.has(metric) and not metric.endswith("2_pred_on.sum")]
    if absent:
        flops.notes.append(f"{kind}: {', '.join(absent)} not collected, counted as none")


def _short(metric: str) -> str:
    return metric.removesuffix("_pred_on.sum").rpartition("_op_")[2]


def _note_packed(flops: Flops, lookup: Lookup, architecture: str | None) -> None:
    """Blackwell's packed FP32 instructions are counted apart, by newer ncu only."""
    packed = "smsp__sass_thread_inst_executed_op_ffma2_pred_on.sum"
    if architecture and int(architecture.split(".")[0]) >= 10 and "fp32" in flops.by_type and not lookup.has(packed):
        message = "FFMA2 and its like were not collected (ncu 2025.4 or newer counts them)"
        flops.flags.append(Flag("lower bound", f"fp32 FLOPs are a lower bound: {message}"))


def _note_half(flops: Flops, half_lanes: int) -> None:
    half = flops.by_type.get("fp16")
    if not half:
        return
    others = sum(value or 0 for kind, value in flops.by_type.items() if kind != "fp16")
    if half < _FEW * others:
        flops.notes.append("fp16: the few HFMA2 are probably the compiler's way to load constants")
    else:
        flops.notes.append(f"fp16: {half_lanes} {'lanes' if half_lanes > 1 else 'lane'} per instruction assumed")


def _total(flops: Flops, on_cores: list[str]) -> float | None:
    """The sum over types. Tensor counters that are all zero say nothing about a kernel whose other work is unknown."""
    values = list(flops.by_type.values())
    if not values or any(value is None for value in values):
        return None
    total = sum(value for value in values if value is not None)
    if not on_cores:
        flops.notes.append("only tensor operations were counted, not the work of the CUDA cores")
        return total or None
    return total


def _hidden_tensor_work(lookup: Lookup, flops: Flops, kernel: str) -> str | None:
    """Why FLOPs on the tensor cores must be missing from the sum; None when they are not, or nothing was counted."""
    counted = [value for kind, value in flops.by_type.items() if "_tensor" in kind]
    if not flops.by_type or any(value != 0 for value in counted):
        return None
    active = _tensor_activity(lookup, flops)
    if active:
        what = "the operations of other types were" if counted else "no operations were"
        return f"the tensor cores worked ({active}), but {what} counted"
    named = re.search(catalogue()["tensor_activity"]["kernel_names"], kernel)
    if named and not tensor_counters(lookup):
        return "the kernel's name is that of a tensor-core kernel, but tensor operations were not collected"
    return None


def _tensor_activity(lookup: Lookup, flops: Flops) -> str | None:
    """The counter that shows tensor work of weight. HFMA2 runs on the tensor pipe as well, and compilers use a few of
    them to load constants, so that a trace of activity proves nothing."""
    for name, value in lookup.values.items():
        if not value or not re.match(catalogue()["tensor_activity"]["metrics"], name):
            continue
        if "inst_executed" in name and name.endswith(".sum"):
            half = sum(lookup.total(metric) or 0 for metric, _ in flop_terms(None)["fp16"]) / _WARP
            least = (value - half) * _LEAST_OPERATIONS
            weighs = least > _FEW * sum(known or 0 for known in flops.by_type.values())
        else:
            weighs = name.endswith("pct_of_peak_sustained_elapsed") and value > _TRACE_PCT
            weighs = weighs and not flops.by_type.get("fp16")
        if weighs:
            return f"{name} = {value:.12g}"
    return None
