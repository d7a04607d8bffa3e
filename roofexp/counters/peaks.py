"""Peak FLOP per cycle of the whole GPU, where the report states it itself."""

from __future__ import annotations

from roofexp.counters.lookup import Lookup
from roofexp.counters.tensor import TensorCounter, parse_tensor_name

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
