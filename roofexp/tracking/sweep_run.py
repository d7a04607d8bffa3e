"""What MLflow is told about a sweep: its parent run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from roofexp.configuration import NOT_MEASURED
from roofexp.point import Bound, Point
from roofexp.tracking.point_metrics import flops_per_s, per_second
from roofexp.tracking.point_run import end_of, record_hash
from roofexp.tracking.run import RunContent, build_content, hash_of, milliseconds, sweep_tags
from roofexp.tracking.sweep_folder import SweepFolder, sweep_files
from roofexp.units import engineering


def sweep_name(sweep: Mapping[str, Any]) -> str:
    """gemm size=256,1024,4096: the sweep's name and what was asked for beside it."""
    name = str(sweep.get("name") or sweep["sweep_id"])
    asked = {key: value for key, value in _asked(sweep).items() if key.split(".")[0] not in NOT_MEASURED}
    return " ".join([name, *(f"{key}={value}" for key, value in asked.items() if value != name)])


def _asked(sweep: Mapping[str, Any]) -> dict[str, str]:
    """The overrides of the command line, without Hydra's signs for adding and removing."""
    pairs = [str(text).split("=", 1) for text in sweep.get("overrides") or []]
    return {pair[0].lstrip("+~"): pair[1] for pair in pairs if len(pair) == 2}


def sweep_status(found: SweepFolder) -> str:
    """As stated in sweep.yaml; else KILLED for a sweep that never ended, FAILED as its exit code would be."""
    stated = str(found.sweep.get("status") or "").upper()
    if stated in ("FINISHED", "FAILED", "KILLED"):
        return stated
    if found.sweep.get("started") and not found.sweep.get("finished"):
        return "KILLED"
    return "FAILED" if any(point.status == "failed" for point in found.records) else "FINISHED"


def content_hash(found: SweepFolder, status: str) -> str:
    """Changes with anything that the parent run shows."""
    parts = [status.encode(), json.dumps(found.sweep, sort_keys=True, default=str).encode()]
    parts += [record_hash(point, found.machine_of(point)).encode() for point in found.records]
    for file, place in sweep_files(found.folder):
        parts += [f"{place}/{file.name}".encode(), file.read_bytes()]
    return hash_of(*parts)


def opening_content(sweep: Mapping[str, Any]) -> RunContent:
    """The parent run of a sweep that has only begun."""
    start_ms = milliseconds(str(sweep.get("started")))
    return _sweep_content(sweep, "FINISHED", (start_ms, start_ms), {}, {})


def closing_content(found: SweepFolder, status: str) -> RunContent:
    """The parent run of a sweep that has ended, from its files alone."""
    starts = [milliseconds(point.created) for point in found.records]
    ends = [end_of(point) for point in found.records]
    start_ms = milliseconds(str(found.sweep.get("started")), min(starts, default=0))
    end_ms = milliseconds(str(found.sweep.get("finished")), max([start_ms, *ends]))
    tags = {
        "mlflow.note.content": summary_text(found),
        "roofexp.verdicts": ", ".join(f"{count} {bound}" for bound, count in _bounds(found).items()) or None,
        "roofexp.content_hash": content_hash(found, status),
    }
    return _sweep_content(found.sweep, status, (start_ms, end_ms), summary_metrics(found.records), tags)


def _sweep_content(
    sweep: Mapping[str, Any],
    status: str,
    times: tuple[int, int],
    metrics: Mapping[str, float | None],
    tags: Mapping[str, Any],
) -> RunContent:
    return build_content(
        name=sweep_name(sweep),
        status=status,
        times=times,
        params=_asked(sweep),
        metrics=metrics,
        tags={
            **sweep_tags(sweep),
            "roofexp.kind": "sweep",
            "roofexp.sweep_id": sweep["sweep_id"],
            "roofexp.command": sweep.get("command"),
            **tags,
        },
    )


def summary_metrics(points: list[Point]) -> dict[str, float | None]:
    """How the points ended, where they landed, and the best that was reached (SI)."""
    bounds = [point.placement.bound for point in points if point.placement]
    measured = [point for point in points if point.status == "ok"]
    rates = [rate for rate in map(flops_per_s, measured) if rate is not None]
    moved = [per_second(point.traffic.bytes, point) or 0.0 for point in measured if point.traffic]
    fractions = [p.placement.fraction for p in points if p.placement and p.placement.fraction is not None]
    return {
        "points/total": len(points),
        **{f"points/{status}": sum(p.status == status for p in points) for status in ("ok", "failed", "skipped")},
        "points/flagged": sum(bool(point.flags) for point in points),
        **{f"bound/{bound}": bounds.count(bound) for bound in get_args(Bound)},
        "best/flops_per_s": max(rates, default=None),
        "best/bytes_per_s": max(moved, default=None),
        "best/roof_fraction": max(fractions, default=None),
        "time/measuring_s": sum(point.measuring_s for point in points),
    }


def _bounds(found: SweepFolder) -> dict[str, int]:
    """How many points landed where, in the order of first landing."""
    bounds = [point.placement.bound for point in found.records if point.placement]
    return {bound: bounds.count(bound) for bound in dict.fromkeys(bounds)}


def summary_text(found: SweepFolder) -> str:
    """The parent run's description (Markdown): where the points landed, the fastest one, and what went wrong."""
    points = found.records
    machines = list(dict.fromkeys(found.machines.get(p.machine_id or "", "") for p in points if p.machine_id))
    where = f" on {', '.join(filter(None, machines))}" if any(machines) else ""
    counts = ", ".join(f"{count} {bound}" for bound, count in _bounds(found).items())
    lines = [f"{len(points)} point{'s' if len(points) != 1 else ''}{where}" + (f": {counts}" if counts else "") + "."]
    fastest = max(points, key=lambda point: flops_per_s(point) or 0.0, default=None)
    rate = flops_per_s(fastest) if fastest else None
    if fastest and rate:
        lines.append(f"\nFastest: {fastest.label} at {engineering(rate, 'FLOP/s')}.\n")
    wrong = [point for point in points if point.status != "ok"]
    lines += [f"- {point.label} {point.status}: {point.reason or 'no reason is recorded'}" for point in wrong[:20]]
    lines += [f"- and {len(wrong) - 20} more"] if len(wrong) > 20 else []
    return "\n".join(lines)
