"""Counters of a launch, or summed over those of a kernel or an operation; counted FLOPs compared with the formula's."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

import msgspec

from roofexp.counters.counts import Counts, derive
from roofexp.ncu.launch import Launch, short_name
from roofexp.records.point import Flag
from roofexp.text.numbers import engineering, plain

T = TypeVar("T")
_WORK = ("flops", "dram_bytes", "l2_bytes", "l1_bytes", "shared_bytes", "time_s", "cycles")
_MEANS = ("sm_hz", "l2_hz", "dram_hz", "dram_peak_bytes_per_s", "sol_sm_pct", "sol_memory_pct", "sol_dram_pct")


class KernelSums(msgspec.Struct, frozen=True, kw_only=True):
    """``counts`` are sums over ``launches``; ``process`` and ``launch`` are None where there are several, ``grid``,
    ``block`` and ``device`` (its number) where they differ or are not known."""

    kernel: str
    process: int | None
    launch: int | None
    launches: int
    counts: Counts
    notes: list[str]
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    device: str | None = None


def from_launch(launch: Launch, half_lanes: int = 2) -> KernelSums:
    """One launch with what its counters mean; a row of a summary stands for the average launch."""
    counts = derive(
        launch.values,
        launch.architecture,
        half_lanes=half_lanes,
        kernel=launch.function,
        device_name=launch.texts.get("device__attribute_display_name"),
    )
    return KernelSums(
        kernel=launch.kernel,
        process=launch.process,
        launch=launch.launch,
        launches=launch.invocations,
        counts=counts,
        notes=[*counts.notes, *launch.notes],
        grid=launch.grid,
        block=launch.block,
        device=launch.device,
    )


def sum_by_kernel(launches: list[Launch], half_lanes: int = 2) -> list[KernelSums]:
    """One item for each kernel name, in the order of their first launches."""
    return [_sum(group, half_lanes) for group in _grouped(launches, lambda launch: launch.kernel)]


def sum_by_kernel_and_shape(launches: list[Launch], half_lanes: int = 2) -> list[KernelSums]:
    """One item for each kernel name, grid and block on each GPU: other shapes and other GPUs are other measurements."""
    groups = _grouped(launches, lambda launch: (launch.kernel, launch.grid, launch.block, *_gpu(launch)))
    return [_sum(group, half_lanes) for group in groups]


def sum_by_operation(launches: list[Launch], half_lanes: int = 2) -> list[KernelSums]:
    """One item for each NVTX range of a process and GPU; launches outside of all ranges that follow one another in a
    process and on a GPU are one operation: the report knows no better."""
    runs: dict[tuple[object, ...], int] = {}  # of each process and GPU: how often it has left or entered a range
    last: dict[tuple[object, ...], list[str]] = {}
    keys = []
    for launch in launches:
        where = (launch.table, launch.process, *_gpu(launch))
        if last.get(where) != launch.nvtx:
            runs[where] = runs.get(where, 0) + 1
        last[where] = launch.nvtx
        keys.append((where, tuple(launch.nvtx) or runs[where]))
    numbers = iter(keys)
    return [_operation(group, half_lanes) for group in _grouped(launches, lambda launch: next(numbers))]


def _gpu(launch: Launch) -> tuple[str | None, ...]:
    return launch.device, launch.architecture, launch.texts.get("device__attribute_display_name")


def _grouped(launches: list[Launch], key: Callable[[Launch], Hashable]) -> list[list[Launch]]:
    groups: dict[Hashable, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(key(launch), []).append(launch)
    return list(groups.values())


_SHOWN = 4  # kernels that are named


def _operation(launches: list[Launch], half_lanes: int) -> KernelSums:
    kernels = list(dict.fromkeys(short_name(launch.function) for launch in launches))
    more = f" and {len(kernels) - _SHOWN} more" if len(kernels) > _SHOWN else ""
    names = " + ".join(kernels[:_SHOWN]) + more
    total = _sum(launches, half_lanes)
    notes = [f"an operation of {names}", *total.notes]
    if not launches[0].nvtx and len(launches) > 1:
        notes.append("no NVTX range: launches of a process that follow one another are taken as one operation")
    return msgspec.structs.replace(
        total, kernel="/".join(launches[0].nvtx) or names, counts=sum_launches(launches, half_lanes), notes=notes
    )


def sum_launches(launches: list[Launch], half_lanes: int = 2) -> Counts:
    """The counts of an op that launched several kernels; what is no sum or mean is that of the longest of them."""
    items = [from_launch(launch, half_lanes) for launch in launches]
    items.sort(key=lambda item: item.counts.time_s or 0.0, reverse=True)
    return _sum_counts(items)


def _sum(launches: list[Launch], half_lanes: int) -> KernelSums:
    items = [from_launch(launch, half_lanes) for launch in launches]
    number = sum(item.launches for item in items)
    if len(items) == 1 and number == 1:
        return items[0]
    return KernelSums(
        kernel=items[0].kernel,
        process=_common(item.process for item in items),
        launch=None,
        launches=number,
        counts=_sum_counts(items),
        notes=[_about(launches, number), *dict.fromkeys(note for item in items for note in item.notes)],
        grid=_common(item.grid for item in items),
        block=_common(item.block for item in items),
        device=_common(item.device for item in items),
    )


def _common(values: Iterable[T]) -> T | None:
    """The value that all share; None where they differ."""
    first, *others = dict.fromkeys(values)
    return None if others else first


def _about(launches: list[Launch], number: int) -> str:
    processes = sorted({launch.process for launch in launches if launch.process is not None})
    shapes = {(launch.grid, launch.block) for launch in launches}
    parts = [f"sum of {number} launches"]
    if len(processes) > 1:
        parts.append(f"of processes {', '.join(str(process) for process in processes)}")
    if len(shapes) > 1:
        parts.append(f"in {len(shapes)} configurations of grid and block")
    return " ".join(parts)


def _sum_counts(items: list[KernelSums]) -> Counts:
    """Work and time are added, rates and shares averaged over time; what one launch does not know, the sum does not."""
    first = items[0].counts
    kinds = dict.fromkeys(kind for item in items for kind in item.counts.flops_by_type)
    work = {name: _added((getattr(item.counts, name), item.launches) for item in items) for name in _WORK}
    means = {name: _mean(items, name) for name in _MEANS}
    flags = dict.fromkeys(flag for item in items for flag in item.counts.flags)
    return msgspec.structs.replace(
        first,
        flops_by_type={
            kind: _added((item.counts.flops_by_type.get(kind), item.launches) for item in items) for kind in kinds
        },
        **work,
        **means,
        flags=list(flags),
    )


def _added(values: Iterable[tuple[float | None, int]]) -> float | None:
    total: float = 0
    for value, times in values:
        if value is None:
            return None
        total += value * times
    return total


def _mean(items: list[KernelSums], name: str) -> float | None:
    weighted = _added((_times(getattr(item.counts, name), item.counts.time_s), item.launches) for item in items)
    time_s = _added((item.counts.time_s, item.launches) for item in items)
    return weighted / time_s if weighted is not None and time_s else None


def _times(value: float | None, time_s: float | None) -> float | None:
    return None if value is None or time_s is None else value * time_s


TOLERANCE = 0.01
PLAUSIBLE = 2.0  # on the CUDA cores helper arithmetic (exp, division, reductions) explains up to this factor
TILE = 64  # a dimension that is no multiple of it may be padded

# the types in which the arithmetic of a precision is expected
EXPECTED = {
    "fp64": {"fp64", "fp64_tensor"},
    "fp32": {"fp32"},
    "tf32": {"tf32_tensor"},
    "fp16": {"fp16", "fp16_tensor", "fp16_tensor_fp16_accumulate"},
    "bf16": {"fp16", "bf16_tensor"},
    "fp8": {"fp8_tensor", "fp8_tensor_fp16_accumulate"},
    "int8": {"int8_tensor"},
}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``ratio`` is issued / useful; None where either is not known or nothing is useful."""

    ratio: float | None = None
    flags: list[Flag] = []
    notes: list[str] = []


def compare(useful: int, counts: Counts, precision: str, shape: Mapping[str, int]) -> Comparison:
    """The ratio, a note when it is off by more than 1 %, a flag when helper arithmetic does not explain it."""
    other = _other_precision(counts, precision)
    if counts.flops is None:
        return Comparison(notes=other.notes, flags=other.flags)
    if useful == 0:
        words = f"{engineering(counts.flops)} FLOPs were issued in a kernel whose formula has none"
        return Comparison(notes=[words] if counts.flops else [])
    ratio = counts.flops / useful
    if abs(ratio - 1) <= TOLERANCE:
        return Comparison(ratio=ratio, notes=other.notes, flags=other.flags)
    both = f"{engineering(counts.flops, 'FLOP', 4)} issued, {engineering(useful, 'FLOP', 4)} useful"
    words = f"{both} ({plain(ratio, 4)} times): {_meaning(ratio, counts, shape)}"
    if _suspicious(ratio, counts):
        return Comparison(ratio=ratio, notes=other.notes, flags=[*other.flags, Flag("issued FLOPs", words)])
    return Comparison(ratio=ratio, notes=[f"FLOPs: {words}", *other.notes], flags=other.flags)


def _suspicious(ratio: float, counts: Counts) -> bool:
    on_tensor_cores = "_tensor" in (counts.main_type or "")
    return on_tensor_cores or not 1 / PLAUSIBLE <= ratio <= PLAUSIBLE


def _meaning(ratio: float, counts: Counts, shape: Mapping[str, int]) -> str:
    main = counts.main_type or ""
    if "_tensor" in main:
        return _tensor_meaning(ratio, shape)
    if main == "fp16" and abs(ratio - 2) <= 0.1:
        return "scalar 16-bit code counted as pairs: set half_lanes: 1 in the kernel's YAML"
    if main == "fp16" and abs(ratio - 0.5) <= 0.02:
        return "pairs of 16-bit values counted as single ones: set half_lanes: 2 in the kernel's YAML"
    if ratio > 1:
        return (
            "helper arithmetic of exp, division or conversions (half to single is an HADD2), repeated work, or a "
            "formula that is too small"
        )
    if counts.flops == 0:
        return "arithmetic of a kind without a counter (special functions, integers, comparisons), or a wrong formula"
    return (
        "threads that a predicate switched off, special functions that have no counter, or a formula that is too large"
    )


def _tensor_meaning(ratio: float, shape: Mapping[str, int]) -> str:
    odd = ", ".join(f"{name}={size}" for name, size in shape.items() if size % TILE)
    if ratio > 1 and odd:
        return f"tensor-core tiles are computed whole, padding included ({odd})"
    if ratio > 1:
        return "tensor-core tiles are computed whole, padding included (a vector fills one column of a tile)"
    return "less was computed than the formula says: a skipped (masked) part, or a formula that is too large"


def _other_precision(counts: Counts, precision: str) -> Comparison:
    """fp32 that ran on the tensor cores is a mistake; 16-bit data summed in fp32 is usual."""
    main, expected = counts.main_type, EXPECTED.get(precision)
    if main is None or expected is None or main in expected:
        return Comparison()
    words = (
        f"most arithmetic was {main.replace('_tensor', ' on the tensor cores')}, the point's precision is {precision}"
    )
    if main.startswith(("fp32", "fp64")):
        return Comparison(notes=[words])
    return Comparison(flags=[Flag("other precision", words)])
