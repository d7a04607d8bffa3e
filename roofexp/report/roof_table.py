"""The roofs that points were placed under, each with its limit, its datasheet, its checks and its ceilings."""

from __future__ import annotations

import msgspec

from roofexp.machine import Roof, RoofCheck, RoofSet
from roofexp.report.contents import Contents
from roofexp.report.repetition import moment
from roofexp.units import engineering, percent, plain

RATE_UNITS = {"compute": "FLOP/s", "bandwidth": "B/s", "launch": "s"}


class RoofRow(msgspec.Struct, frozen=True, kw_only=True):
    """Texts carry their units; "" is not known. ``note`` says what a reader must know of it."""

    name: str
    ceiling: bool
    rate: str
    clock: str
    per_cycle: str
    limit: str
    limit_share: str
    sheet: str
    sheet_share: str
    sustained: str
    ridge: str
    cause: str
    note: str
    checks: list[RoofCheck]
    mixes: list[tuple[str, str]]


class RoofTable(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    measured: str
    rows: list[RoofRow]


def roof_tables(contents: Contents) -> list[RoofTable]:
    return [roof_table(roofs) for roofs in contents.roofs]


def roof_table(roofs: RoofSet) -> RoofTable:
    """Each roof with its ceilings under it, the highest first; ceilings of a roof that is not there at the end."""
    tops = [roof for roof in roofs.roofs if roof.ceiling_of is None]
    ordered: list[Roof] = []
    for roof in tops:
        ordered += [roof, *sorted(roofs.ceilings(roof.name), key=lambda ceiling: -ceiling.rate)]
    ordered += [roof for roof in roofs.roofs if roof not in ordered]
    return RoofTable(
        title=f"{roofs.machine.name}, clock mode {roofs.clock_mode}",
        measured=_measured(roofs),
        rows=[_row(roof, roofs) for roof in ordered],
    )


def _measured(roofs: RoofSet) -> str:
    if not roofs.measured:
        return "Computed from what the hardware is, not measured"
    return f"Measured {moment(roofs.measured)}" + (f", in {engineering(roofs.seconds, 's')}" if roofs.seconds else "")


def _row(roof: Roof, roofs: RoofSet) -> RoofRow:
    unit = RATE_UNITS[roof.kind]
    dram = roofs.bandwidth("dram")
    apart = roof.kind == "compute" and roof.ceiling_of is None and dram is not None
    return RoofRow(
        name=roof.name,
        ceiling=roof.ceiling_of is not None,
        rate=engineering(roof.rate, unit, 4),
        clock=engineering(roof.compute_hz, "Hz", 4) if roof.compute_hz else "",
        per_cycle=plain(roof.per_cycle, 4) if roof.per_cycle else "",
        limit=engineering(roof.limit, unit, 4) if roof.limit else "",
        limit_share=percent(roof.rate / roof.limit) if roof.limit else "",
        sheet=engineering(roof.sheet, unit, 4) if roof.sheet else "",
        sheet_share=percent(roof.rate / roof.sheet) if roof.sheet else "",
        sustained=_sustained(roof),
        ridge=f"{plain(roof.rate / dram.rate)} FLOP/B" if apart and dram else "",
        cause=roof.cause or "",
        note="; ".join(
            filter(None, [f"only a lower bound: {roof.incomplete}" if roof.incomplete else "", *roof.flags])
        ),
        checks=roof.checks,
        mixes=[(name, engineering(rate, unit, 4)) for name, rate in roof.mixes.items()],
    )


def _sustained(roof: Roof) -> str:
    held = roof.sustained
    if held is None:
        return ""
    parts = [
        f"{engineering(held.rate, RATE_UNITS[roof.kind], 4)} ({percent(held.rate / roof.rate)})",
        engineering(held.compute_hz, "Hz", 4) if held.compute_hz else "",
        engineering(held.power_w, "W") if held.power_w else "",
        f"after {engineering(held.seconds, 's')}" if held.seconds else "",
        "" if held.settled else "not settled",
        held.event_reasons if held.event_reasons not in (None, "none") else "",
    ]
    return ", ".join(part for part in parts if part)


def check_text(check: RoofCheck) -> str:
    """What was compared: expected and found, where numbers were."""
    numbers = [
        f"{word} {plain(value, 4) if 1e-3 < abs(value) < 1e5 else engineering(value, digits=4)}"
        for word, value in (("expected", check.expected), ("found", check.found))
        if value is not None
    ]
    return "; ".join(filter(None, [check.message, ", ".join(numbers)]))
