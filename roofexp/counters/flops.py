"""Operations of the tensor cores: which of ncu's overlapping counters to add, and what they count.

``sm__ops_path_tensor_src_bf16_dst_fp32`` is the parent of ``..._op_hgmma_src_bf16_dst_fp32_sparsity_off`` and its like:
the more attributes a name has, the less it counts. Only names that nothing else in the report contains are added.
"""

from __future__ import annotations

import re

import msgspec

from roofexp.ncu.catalogue import Lookup, catalogue, counts_lanes, flop_terms
from roofexp.records.point import Flag

PREFIX = "sm__ops_path_tensor_"

_NAME = re.compile(
    rf"^{PREFIX}(?:op_(?P<op>[a-z0-9]+)_)?src_(?P<src>[a-z0-9_]+?)(?:_dst_(?P<dst>[a-z0-9]+))?"
    r"(?:_sparsity_(?P<sparsity>on|off))?$"
)

# Blackwell's fp4 products are another instruction than its mixed fp4, fp6 and fp8 ones, at twice their rate
_OWN_INSTRUCTION = frozenset({"fp4"})


class TensorCounter(msgspec.Struct, frozen=True):
    """One counter; an attribute that its name does not have is None: it counts every value of it."""

    name: str
    op: str | None
    src: frozenset[str]
    dst: str | None
    sparsity: str | None

    @property
    def attributes(self) -> tuple[bool, bool, bool]:
        return self.op is not None, self.dst is not None, self.sparsity is not None

    @property
    def kind(self) -> str:
        """The FLOP type: merged counters go by what the architecture that merges them can do."""
        if len(self.src) > 1:
            return "fp8_tensor" if "fp8" in self.src else "fp16_tensor"
        source = next(iter(self.src))
        accumulate = "_fp16_accumulate" if self.dst == "fp16" else ""
        return f"{source}_tensor{accumulate}"

    def contains(self, other: TensorCounter) -> bool:
        """Whether everything that ``other`` counts is counted here too."""
        same = [(self.op, other.op), (self.dst, other.dst), (self.sparsity, other.sparsity)]
        wider = self.src == other.src or (self.src > other.src and other.src != _OWN_INSTRUCTION)
        return self.name != other.name and wider and all(a is None or a == b for a, b in same)


def parse_tensor_name(metric: str) -> TensorCounter | None:
    """The counter behind a metric name, its suffix aside; None for other metrics."""
    match = _NAME.match(metric.split(".")[0])
    if not match:
        return None
    sources = frozenset(match["src"].split("_"))
    return TensorCounter(match[0], match["op"], sources, match["dst"], match["sparsity"])


def tensor_counters(lookup: Lookup) -> list[TensorCounter]:
    """The tensor counters that a report was asked for."""
    names = sorted({name.split(".")[0] for name in lookup.values if name.startswith(PREFIX)})
    counters = [parse_tensor_name(name) for name in names]
    return [counter for counter in counters if counter is not None and lookup.has(f"{counter.name}.sum")]


def tensor_operations(lookup: Lookup) -> dict[str, float | None]:
    """Operations by FLOP type (an FMA is two already); a type with a missing value is None."""
    counters = tensor_counters(lookup)
    top = [c for c in counters if not any(other.contains(c) for other in counters)]
    totals: dict[str, float | None] = {}
    for sources in dict.fromkeys(counter.src for counter in top):
        group = _one_partition([counter for counter in top if counter.src == sources], lookup)
        for counter in group:
            value, before = lookup.total(f"{counter.name}.sum"), totals.get(counter.kind, 0)
            totals[counter.kind] = None if value is None or before is None else before + value
    return totals


def _one_partition(counters: list[TensorCounter], lookup: Lookup) -> list[TensorCounter]:
    """Counters with the same attributes split the work; those with other attributes split it again, so that one
    set only may be added: that which counted most."""
    sets: dict[tuple[bool, bool, bool], list[TensorCounter]] = {}
    for counter in counters:
        sets.setdefault(counter.attributes, []).append(counter)
    return max(sets.values(), key=lambda group: sum(lookup.total(f"{c.name}.sum") or 0 for c in group))


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


# ncu's own doubling of FMA, and the undoubled instruction rate that older sections print
_CORES = {
    "fp64": ("dfma", 2),
    "fp32": ("ffma", 2),
}


def report_peaks(lookup: Lookup) -> dict[str, float]:
    """Peaks by FLOP type, dense. Of tensor operations those of the instruction that ran: a parent's peak is the sparse
    one, twice as high."""
    peaks: dict[str, float] = {}
    for kind, (op, weight) in _CORES.items():
        base = f"sass_thread_inst_executed_op_{op}_pred_on"
        doubled = lookup.values.get(f"derived__sm__{base}_x2")
        plain = lookup.first([f"{unit}__{base}.sum.peak_sustained" for unit in ("smsp", "sm")])
        peak = doubled or (plain * weight if plain else None)
        if peak:
            peaks[kind] = peak
    return peaks | _tensor_peaks(lookup)


def _tensor_peaks(lookup: Lookup) -> dict[str, float]:
    suffix = ".sum.peak_sustained"
    best: dict[str, tuple[float, float]] = {}
    for name, peak in lookup.values.items():
        counter = parse_tensor_name(name) if name.endswith(suffix) else None
        if counter is None or not peak or not _is_dense(counter):
            continue
        operations = lookup.total(f"{counter.name}.sum") or 0
        best[counter.kind] = max(best.get(counter.kind, (0.0, 0.0)), (operations, peak))
    return {kind: peak for kind, (_, peak) in best.items()}


def _is_dense(counter: TensorCounter) -> bool:
    return counter.sparsity == "off"
