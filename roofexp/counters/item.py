"""What is placed: a launch, or all launches of one kernel taken together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from roofexp.counters.counts import Counts, derive
from roofexp.counters.launch import Launch

_WORK = ("flops", "dram_bytes", "l2_bytes", "l1_bytes", "shared_bytes", "time_s", "cycles")
_MEANS = ("sm_hz", "l2_hz", "dram_hz", "dram_peak_bytes_per_s", "sol_sm_pct", "sol_memory_pct", "sol_dram_pct")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """``counts`` are sums over ``launches``; ``process`` and ``launch`` are None where there are several."""

    kernel: str
    process: int | None
    launch: int | None
    launches: int
    counts: Counts
    notes: list[str]


def from_launch(launch: Launch, half_lanes: int = 2) -> Item:
    """One launch with what its counters mean; a row of a summary stands for the average launch."""
    counts = derive(
        launch.values,
        launch.architecture,
        half_lanes=half_lanes,
        kernel=launch.function,
        device_name=launch.texts.get("device__attribute_display_name"),
    )
    return Item(
        kernel=launch.kernel,
        process=launch.process,
        launch=launch.launch,
        launches=launch.invocations,
        counts=counts,
        notes=[*counts.notes, *launch.notes],
    )


def sum_by_kernel(launches: list[Launch], half_lanes: int = 2) -> list[Item]:
    """One item for each kernel name, in the order of their first launches."""
    groups: dict[str, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(launch.kernel, []).append(launch)
    return [_sum(group, half_lanes) for group in groups.values()]


def sum_launches(launches: list[Launch], half_lanes: int = 2) -> Counts:
    """The counts of an op that launched several kernels; what is no sum or mean is that of the longest of them."""
    items = [from_launch(launch, half_lanes) for launch in launches]
    items.sort(key=lambda item: item.counts.time_s or 0.0, reverse=True)
    return _sum_counts(items)


def _sum(launches: list[Launch], half_lanes: int) -> Item:
    items = [from_launch(launch, half_lanes) for launch in launches]
    number = sum(item.launches for item in items)
    if len(items) == 1 and number == 1:
        return items[0]
    processes = {launch.process for launch in launches}
    return Item(
        kernel=items[0].kernel,
        process=items[0].process if len(processes) == 1 else None,
        launch=None,
        launches=number,
        counts=_sum_counts(items),
        notes=[_about(launches, number), *dict.fromkeys(note for item in items for note in item.notes)],
    )


def _about(launches: list[Launch], number: int) -> str:
    processes = sorted({launch.process for launch in launches if launch.process is not None})
    shapes = {(launch.grid, launch.block) for launch in launches}
    parts = [f"sum of {number} launches"]
    if len(processes) > 1:
        parts.append(f"of processes {', '.join(str(process) for process in processes)}")
    if len(shapes) > 1:
        parts.append(f"in {len(shapes)} configurations of grid and block")
    return " ".join(parts)


def _sum_counts(items: list[Item]) -> Counts:
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


def _mean(items: list[Item], name: str) -> float | None:
    weighted = _added((_times(getattr(item.counts, name), item.counts.time_s), item.launches) for item in items)
    time_s = _added((item.counts.time_s, item.launches) for item in items)
    return weighted / time_s if weighted is not None and time_s else None


def _times(value: float | None, time_s: float | None) -> float | None:
    return None if value is None or time_s is None else value * time_s
