"""The roofline of a report: its launches under the limits of the card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofexp.errors import BadInputError
from roofexp.folders import conf_folder
from roofexp.machine import Machine, Roof, RoofSet

if TYPE_CHECKING:
    from pandas import DataFrame

    from roofexp.place import Placed, Placing


def draw(placings: list[Placing], records: list[Placed], out: Path) -> list[Path]:
    """Writes OUT.png, OUT.svg and OUT.csv and returns their paths. Raises BadInputError where nothing can be drawn."""
    from roofexp.figures.roofline import draw_roofline

    frame = _frame(placings, records)
    if not frame["time_s"].notna().any():
        raise BadInputError("--figure: no launch has a time, so there is nothing to draw")
    drawing = draw_roofline(frame, _roofs(placings), _settings())
    stem = out.with_suffix("") if out.suffix in (".png", ".svg", ".csv") else out
    return drawing.save(stem)


def _frame(placings: list[Placing], records: list[Placed]) -> DataFrame:
    """The columns of points.csv that figures read; a report knows no sizes."""
    import pandas

    return pandas.DataFrame([_row(placing, record) for placing, record in zip(placings, records, strict=True)])


def _row(placing: Placing, record: Placed) -> dict[str, Any]:
    counts, verdict = placing.item.counts, placing.verdict
    return {
        "kernel": record.kernel,
        "precision": placing.roofs.precision or "",
        "device": "cuda",
        "status": "ok",
        "time_s": record.time_s,
        "flops": record.flops,
        "flops_per_s": record.flops_per_s,
        "traffic_level": "dram",
        "traffic_source": "counted",
        "traffic_bytes": record.dram_bytes,
        "bytes_per_s": record.dram_bytes_per_s,
        "intensity_flop_per_byte": record.ai_dram_flop_per_byte,
        "fraction": verdict.fraction,
        "ridge_flop_per_byte": verdict.ridge,
        "roof": verdict.roof or "",
        "bound": "above a roof" if verdict.fraction and verdict.fraction > 1 else (verdict.bound or ""),
        "compute_hz": counts.sm_hz,
        "flags": "; ".join(flag.split(":")[0] for flag in record.flags),
    }


def _roofs(placings: list[Placing]) -> RoofSet | None:
    """One limit for each precision, at the clock of the launch that it was worked out for, and the bandwidth."""
    roofs: dict[str, Roof] = {}
    for placing in placings:
        limits, hz = placing.roofs, placing.item.counts.sm_hz
        if limits.compute_flops_per_s and limits.precision and limits.precision not in roofs:
            roofs[limits.precision] = Roof(
                name=f"{limits.precision} limit",
                kind="compute",
                rate=limits.compute_flops_per_s,
                precision=limits.precision,
                clock_domain="compute" if hz else "none",
                compute_hz=hz,
            )
    widths = [p.roofs.bandwidth_bytes_per_s for p in placings if p.roofs.bandwidth_bytes_per_s]
    if widths:
        roofs["dram"] = Roof(name="dram", kind="bandwidth", rate=max(widths), level="dram")
    if not roofs:
        return None
    return RoofSet(
        machine=_machine(placings),
        clock_mode="",
        code_version="limits",
        measured="",
        seconds=0.0,
        roofs=list(roofs.values()),
    )


def _machine(placings: list[Placing]) -> Machine:
    names = [placing.item.counts.device_name or placing.roofs.source for placing in placings]
    counts = placings[0].item.counts
    units = int(counts.sm_count) if counts.sm_count else None
    return Machine(machine_id="", device="cuda", name=names[0], units=units, nominal_hz=None, memory_bytes=None)


def _settings() -> Any:
    from omegaconf import OmegaConf

    from roofexp.schema import FiguresConfig

    file = conf_folder() / "figures" / "screen.yaml"
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(FiguresConfig), OmegaConf.load(file)))
