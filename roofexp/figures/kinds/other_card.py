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
    return table_bytes(_row(best) for best in placed)


def _row(best: AtBest) -> dict[str, Any]:
    point = best.point
    return {
        "kernel": point.kernel,
        "size": point.size,
        "precision": point.precision,
        "flops": point.work.flops if point.work else None,
        "dram_bytes": best.bytes,
        "traffic_source": point.traffic.source if point.traffic else None,
        "intensity_flop_per_byte": best.intensity,
        "ridge_flop_per_byte": best.ridge,
        "attainable_per_s": best.attainable,
        "bound_at_best": best.bound,
        "time_at_best_s": best.time_s,
        "time_here_s": point.timing.median_s if point.timing else None,
        "speedup_at_best": best.speedup,
        "bound_here": point.placement.bound if point.placement else None,
        "fraction_here": point.placement.fraction if point.placement else None,
        "note": best.note or None,
    }


def _draw(folder: Path, placed: Sequence[AtBest], card: MachineLimits, settings: Any) -> list[Path]:
    from roofexp.figures.kinds.roofline import draw_roofline

    drawn = [best for best in placed if best.attainable]
    if not drawn:
        return []
    import pandas

    precisions = list(dict.fromkeys(best.point.precision for best in drawn))
    frame = pandas.DataFrame([_figure_row(best) for best in drawn])
    title = f"At best on {card.name}: where the limits of its data sheet put each point; nothing is measured"
    drawing = draw_roofline(frame, roofs_of_card(card, precisions), settings, title)
    return drawing.save(folder / "figures" / f"machine_{short_name(card)}")


def _figure_row(best: AtBest) -> dict[str, Any]:
    """The columns of points.csv that the figure reads; no source of traffic, so that every mark is hollow."""
    point, flops = best.point, best.point.work.flops if best.point.work else 0
    bytes_per_s = best.bytes / best.time_s if best.bytes and best.time_s else None
    return {
        "kernel": point.kernel,
        "size": point.size,
        "precision": point.precision,
        "implementation": point.implementation,
        "device": "cuda",
        "machine_id": "",
        "status": "ok",
        "time_s": best.time_s,
        "flops": flops,
        "flops_per_s": best.attainable if flops else None,
        "traffic_level": "dram",
        "traffic_bytes": best.bytes,
        "bytes_per_s": bytes_per_s,
        "intensity_flop_per_byte": best.intensity if flops else 0.0,
        "attainable_per_s": best.attainable,
        "roof": "dram" if best.bound == "bandwidth" else f"{point.precision} limit",
        "bound": f"on the {best.bound} roof",
    }
