"""From the launches of one point to its record: pure functions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from roofexp.config.settings import PlacingSettings
from roofexp.counters.counts import Counts
from roofexp.counters.kernel_sums import KernelSums, compare, sum_by_kernel, sum_launches
from roofexp.counters.report_placing import choose_roofs, judge
from roofexp.diagnosis import placed
from roofexp.ncu.catalogue import is_counter
from roofexp.ncu.launch import Launch, Metric
from roofexp.placing.roofline import PLACING_FLAGS, place
from roofexp.records.files import table_bytes
from roofexp.records.machine import RoofSet
from roofexp.records.point import Clock, Counted, CountedKernel, Flag, Point, Traffic
from roofexp.text.numbers import engineering, plain

TRAFFIC_TOLERANCE = 0.03
NOT_COLLECTED = "not in the report"

_PLAIN = (  # taken over as they are
    "sol_sm_pct",
    "sol_memory_pct",
    "sol_dram_pct",
    "occupancy_pct",
    "occupancy_possible_pct",
    "occupancy_limiter",
    "waves",
    "sectors_per_load",
    "sectors_per_store",
    "stalls",
    "facts",
)


def counted_point(point: Point, launches: list[Launch], asked: Iterable[str], half_lanes: int = 2) -> Counted:
    """What the counters say of a point. ``asked`` are the metrics that its precision needs: one that no launch has is
    missing, and so is every sum that it belongs to."""
    launches = [_with_missing(launch, asked) for launch in launches]
    counts = sum_launches(launches, half_lanes)
    kernels = sum_by_kernel(launches, half_lanes)
    useful = point.work.flops if point.work else 0
    flops = compare(useful, counts, point.precision, point.shape)
    verdict = judge(counts, choose_roofs(counts, None))
    notes = [note for item in kernels for note in item.notes if not note.startswith(_EXPECTED)]
    peaks = verdict.peaks
    return Counted(
        flops=_whole(counts.flops),
        flops_by_type={kind: _whole(value) for kind, value in counts.flops_by_type.items()},
        flops_ratio=flops.ratio,
        dram_bytes=_whole(counts.dram_bytes),
        l2_bytes=_whole(counts.l2_bytes),
        l1_bytes=_whole(counts.l1_bytes),
        shared_bytes=_whole(counts.shared_bytes),
        time_s=counts.time_s,
        cycles=counts.cycles,
        sm_hz=counts.sm_hz,
        memory_hz=counts.dram_hz,
        l2_hz=counts.l2_hz,
        **{name: getattr(counts, name) for name in _PLAIN},
        registers=_whole(counts.registers),
        peak_fraction=verdict.peak_fraction,
        peak_note=f"{peaks.numbers}: {peaks.reason}" if peaks else None,
        kernels=[_kernel(item, counts) for item in kernels],
        passes=_passes(launches),
        missing=_missing(launches),
        flags=[*dict.fromkeys(counts.flags), *flops.flags],
        notes=list(dict.fromkeys([*flops.notes, *_traffic_notes(point, counts), *notes])),
    )


def tidy_table(launches: list[Launch]) -> bytes:
    """counters.csv: one row per launch and metric, in SI units; a value that ncu did not have is empty."""
    rows = [
        {
            "launch": number,
            "kernel": launch.function,
            "metric": name,
            "value": metric.text or metric.value,
            "unit": metric.unit,
        }
        for number, launch in enumerate(launches)
        for name, metric in launch.metrics.items()
        if is_counter(name) or name.startswith("launch__") or name == _PASSES
    ]
    return table_bytes(rows, ["launch", "kernel", "metric", "value", "unit"])


_PASSES = "profiler__replayer_passes"
_EXPECTED = "Note: Running with unmodified GPU clocks"  # as it was told to
_PACKED = "2_pred_on.sum"  # Blackwell's pairs: without them fp32 is a lower bound, which is said of it elsewhere


def _passes(launches: list[Launch]) -> int | None:
    passes = [value for launch in launches if (value := launch.values.get(_PASSES)) is not None]
    return int(max(passes)) if passes else None


def _with_missing(launch: Launch, asked: Iterable[str]) -> Launch:
    """ncu drops a metric that it does not have without a word: its column is absent. The range is not the kernel's."""
    absent = {name: Metric(None, "") for name in asked if name not in launch.metrics and not name.endswith(_PACKED)}
    return msgspec.structs.replace(launch, kernel=launch.function, metrics={**launch.metrics, **absent})


def _missing(launches: list[Launch]) -> dict[str, str]:
    names = [name for launch in launches for name, m in launch.metrics.items() if m.value is None and not m.text]
    return {name: NOT_COLLECTED for name in dict.fromkeys(names) if is_counter(name)}


def _kernel(item: KernelSums, total: Counts) -> CountedKernel:
    return CountedKernel(
        name=item.kernel,
        launches=item.launches,
        time_s=item.counts.time_s,
        flops=_whole(item.counts.flops),
        dram_bytes=_whole(item.counts.dram_bytes),
        time_share=_share(item.counts.time_s, total.time_s),
        flops_share=_share(item.counts.flops, total.flops),
        dram_share=_share(item.counts.dram_bytes, total.dram_bytes),
    )


def _traffic_notes(point: Point, counts: Counts) -> list[str]:
    """DRAM bytes against the compulsory ones of the formula, where the launch began with cold caches."""
    compulsory = point.work.dram_bytes if point.work else 0
    if not compulsory or counts.dram_bytes is None or point.cache_state != "cold":
        return []
    ratio = counts.dram_bytes / compulsory
    if abs(ratio - 1) <= TRAFFIC_TOLERANCE:
        return []
    moved, least = engineering(counts.dram_bytes, "B"), engineering(compulsory, "B")
    words = f"DRAM moved {moved}, {ratio:.3g} times the compulsory {least}"
    if ratio < 1:
        return [f"{words}: writes that still lay in L2 when the kernel ended, or data that is not touched"]
    return [f"{words}: data fetched more than once, partly used sectors, or spilled registers"]


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


NOT_COUNTED = "not counted"


def join(point: Point, counted: Counted, roofs: RoofSet | None, settings: PlacingSettings) -> Point:
    """The time stays that of the events, at their clock; only the traffic and what follows from it change."""
    bare = without_counters(point)
    bytes_moved = counted.bytes_at(point.traffic.level) if point.traffic else None
    traffic = bare.traffic
    if point.traffic and bytes_moved is not None:
        traffic = Traffic(level=point.traffic.level, bytes=bytes_moved, source="counted")
    flags = [*bare.flags, *counted.flags, *_other_run(point, counted)]
    joined = msgspec.structs.replace(bare, counted=counted, traffic=traffic, flags=flags)
    if roofs is None:
        return joined
    counted = msgspec.structs.replace(counted, fraction=_profiled_fraction(joined, counted, roofs, settings))
    return placed(msgspec.structs.replace(joined, counted=counted), roofs, settings)


TIME_TOLERANCE = 0.15  # of the events' time; on an H200, points above 30 us agreed within 0.15, most within 0.03
LAUNCH_S = 3e-6  # events include the launch itself, ncu's duration does not
OTHER_TIME = "profiled time"


def _other_run(point: Point, counted: Counted) -> list[Flag]:
    """The counters and the time are of two runs: set where these took times too different to be of the same work."""
    timed_s = point.timing.median_s if point.timing else None
    if not timed_s or not counted.time_s:
        return []
    launches = sum(kernel.launches for kernel in counted.kernels) or 1
    if abs(counted.time_s - timed_s) <= TIME_TOLERANCE * timed_s + LAUNCH_S * launches:
        return []
    ratio = counted.time_s / timed_s
    timed_hz, profiled_hz = point.clock.compute_hz if point.clock else None, counted.sm_hz
    message = (
        f"under ncu the kernel took {engineering(counted.time_s, 's')}{_at(profiled_hz)}, timed by itself "
        f"{engineering(timed_s, 's')}{_at(timed_hz)}: {plain(ratio)} times"
    )
    if timed_hz and profiled_hz:
        of_clocks = timed_hz / profiled_hz
        explained = min(ratio, of_clocks) > 1 or max(ratio, of_clocks) < 1
        explained = explained and abs(ratio / of_clocks - 1) <= TIME_TOLERANCE
        message += f"; the clocks explain {plain(of_clocks)}"
        message += "" if explained else ", so that the counters may be of other work, caches or data"
    return [Flag(OTHER_TIME, message)]


def _at(hz: float | None) -> str:
    return f" at {hz / 1e6:.0f} MHz" if hz else " at an unknown clock"


def join_failure(point: Point, reason: str, level: str | None, kind: str | None = None) -> Point:
    """A point that was not counted. What an earlier session counted stays; ``kind`` is given where the reason is this
    point's own: it is flagged then."""
    if point.counted is not None and point.counted.unavailable is None:
        return point
    flags = [flag for flag in point.flags if flag.name != NOT_COUNTED]
    flags += [Flag(NOT_COUNTED, f"{kind}: {reason}")] if kind else []
    words = f"{kind}: {reason}" if kind else reason
    return msgspec.structs.replace(point, counted=Counted(level=level, unavailable=words), flags=flags)


def without_counters(point: Point) -> Point:
    """As it was before it was counted, short of its verdict: traffic modelled, flags of counting and placing gone."""
    old = point.counted.flags if point.counted else []
    flags = [
        flag for flag in point.flags if flag not in old and flag.name not in (*PLACING_FLAGS, NOT_COUNTED, OTHER_TIME)
    ]
    traffic = point.traffic
    if traffic and traffic.source == "counted" and point.work:
        traffic = Traffic(level=traffic.level, bytes=point.work.dram_bytes, source="modelled")
    return msgspec.structs.replace(point, counted=None, traffic=traffic, flags=flags)


def _profiled_fraction(point: Point, counted: Counted, roofs: RoofSet, settings: PlacingSettings) -> float | None:
    """The profiled time against the roofs at the clock of the profiled run."""
    if counted.time_s is None or point.timing is None:
        return None
    profiled = msgspec.structs.replace(
        point,
        timing=msgspec.structs.replace(point.timing, median_s=counted.time_s),
        clock=Clock(compute_hz=counted.sm_hz, source="ncu"),
    )
    placement, _ = place(profiled, roofs, settings)
    return placement.fraction if placement else None
