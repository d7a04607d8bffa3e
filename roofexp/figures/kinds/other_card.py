"""The points of a sweep under the limits of another card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roofexp.placing.limits import MachineLimits
from roofexp.placing.other_card import AtBest, place_elsewhere, roofs_of_card, short_name
from roofexp.records.files import table_bytes, write_atomically
from roofexp.records.point import Point


def write_elsewhere(folder: Path, points: Sequence[Point], card: MachineLimits, settings: Any) -> list[Path]:
    """Writes machine_<name>.csv and figures/machine_<name> of a sweep; the paths. Nothing where no point was timed."""
    placed = [place_elsewhere(p, card) for p in points if p.status == "ok" and p.work and p.timing]
    if not placed:
        return []
    table = folder / f"machine_{short_name(card)}.csv"
    write_atomically(table, table_of(placed))
    return [table, *_draw(folder, placed, card, settings)]


def table_of(placed: Sequence[AtBest]) -> bytes:
    """One row for each point, unit in every column name; what is unknown is empty."""
    return table_bytes(_row(one) for one in placed)


def _row(one: AtBest) -> dict[str, Any]:
    point = one.point
    return {
        "kernel": point.kernel,
        "size": point.size,
        "precision": point.precision,
        "flops": point.work.flops if point.work else None,
        "dram_bytes": one.bytes,
        "traffic_source": point.traffic.source if point.traffic else None,
        "intensity_flop_per_byte": one.intensity,
        "ridge_flop_per_byte": one.ridge,
        "attainable_per_s": one.attainable,
        "bound_at_best": one.bound,
        "time_at_best_s": one.time_s,
        "time_here_s": point.timing.median_s if point.timing else None,
        "speedup_at_best": one.speedup,
        "bound_here": point.placement.bound if point.placement else None,
        "fraction_here": point.placement.fraction if point.placement else None,
        "note": one.note or None,
    }


def _draw(folder: Path, placed: Sequence[AtBest], card: MachineLimits, settings: Any) -> list[Path]:
    from roofexp.figures.kinds.roofline import draw_roofline

    known = [one for one in placed if one.attainable]
    if not known:
        return []
    import pandas

    precisions = list(dict.fromkeys(one.point.precision for one in known))
    frame = pandas.DataFrame([_figure_row(one) for one in known])
    title = f"At best on {card.name}: where the limits of its data sheet put each point; nothing is measured"
    drawing = draw_roofline(frame, roofs_of_card(card, precisions), settings, title)
    return drawing.save(folder / "figures" / f"machine_{short_name(card)}")


def _figure_row(one: AtBest) -> dict[str, Any]:
    """The columns of points.csv that the figure reads; no source of traffic, so that every mark is hollow."""
    point, flops = one.point, one.point.work.flops if one.point.work else 0
    bytes_per_s = one.bytes / one.time_s if one.bytes and one.time_s else None
    return {
        "kernel": point.kernel,
        "size": point.size,
        "precision": point.precision,
        "implementation": point.implementation,
        "device": "cuda",
        "machine_id": "",
        "status": "ok",
        "time_s": one.time_s,
        "flops": flops,
        "flops_per_s": one.attainable if flops else None,
        "traffic_level": "dram",
        "traffic_bytes": one.bytes,
        "bytes_per_s": bytes_per_s,
        "intensity_flop_per_byte": one.intensity if flops else 0.0,
        "attainable_per_s": one.attainable,
        "roof": "dram" if one.bound == "bandwidth" else f"{point.precision} limit",
        "bound": f"on the {one.bound} roof",
    }
