"""The roofs as a person reads them: rates, the clock held, and shares whose denominators are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofexp.records.machine import LEVELS, Machine, Roof, RoofCheck, RoofSet
from roofexp.roofs.assembly import measured_above
from roofexp.roofs.benchmark import STREAMS
from roofexp.text.console import WIDTH_WITHOUT_TERMINAL, plain_table
from roofexp.text.numbers import engineering, percent, plain

_TEXTS = ("roof", "checks", "remarks")  # columns of words
MORE_THAN_ONE_WAY = 1.05  # of its reads or writes alone: a level that moves both at once
MORE_THAN_BURST = 1.0005  # a sustained rate above that of the bursts has its reason beside it

CAPTION = (
    "limit: units x rate per cycle x the clock that was held while measuring (DRAM: bus width x memory clock). "
    "sheet: the card's data sheet, dense, at its boost clock. of roof: of the roof that a ceiling stands under, of its "
    "mix where it has one. "
    "pipe: of the peak that ncu knows of the unit (dense), by hardware counters and without any clock."
)


def print_roofs(sets: Sequence[RoofSet], file: Any = None) -> None:
    """One table for each set; where there are several, one more with their rates side by side."""
    from rich.console import Console

    terminal = Console(file=file)
    console = terminal if terminal.is_terminal else Console(file=file, width=WIDTH_WITHOUT_TERMINAL)
    for roofs in sets:
        console.print(roofs_table(roofs))
        loaded = load_table(roofs)
        if loaded is not None:
            console.print(loaded)
        for line in notes(roofs):
            console.print(line, markup=False, highlight=False)
    if len(sets) > 1:
        console.print(side_by_side(sets))


def _table(title: str, columns: Sequence[str]) -> Any:
    table = plain_table(columns, right=[name for name in columns if name not in _TEXTS], folding=_TEXTS)
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    return table


def roofs_table(roofs: RoofSet) -> Any:
    machine = roofs.machine
    unit = "SM" if machine.device == "cuda" else "core"
    number = f", {_units(machine)}" if machine.units else ""
    fill = "" if roofs.fill == "normal" else f", operands {roofs.fill}"
    title = f"Roofs of {machine.name}{number} · clock mode {roofs.clock_mode}{fill}"
    sheet = ["sheet", "of sheet"] if any(roof.sheet for roof in roofs.roofs) else []
    columns = ["roof", "rate", f"per {unit}, cycle", "clock held", "limit", "of limit", *sheet, "of roof", "checks"]
    table = _table(title, columns)
    for roof, above in in_order(roofs):
        cells = row(roof, above)
        table.add_row(*(cells[_key(column)] for column in columns), style="dim" if above else None)
    return table


def _units(machine: Machine) -> str:
    """``132 SMs``"""
    unit = "SM" if machine.device == "cuda" else "core"
    return f"{machine.units} {unit}{'s' if machine.units != 1 else ''}"


def _key(column: str) -> str:
    return "per cycle" if column.startswith("per ") else column


def in_order(roofs: RoofSet) -> list[tuple[Roof, Roof | None]]:
    """Compute roofs by precision as measured, bandwidths from far to near, the launch; each ceiling after its roof and
    with it, highest first."""
    own = [roof for roof in roofs.roofs if roof.ceiling_of is None]
    precisions = list(dict.fromkeys(roof.precision for roof in own if roof.kind == "compute"))

    def place(roof: Roof) -> tuple[int, int, float]:
        if roof.kind == "compute":
            return 0, precisions.index(roof.precision), roof.rate
        if roof.kind == "bandwidth":
            return 1, LEVELS.index(roof.level) if roof.level in LEVELS else len(LEVELS), roof.rate
        return 2, 0, 0.0

    pairs: list[tuple[Roof, Roof | None]] = []
    for roof in sorted(own, key=place):
        pairs.append((roof, None))
        pairs += [(c, roof) for c in sorted(roofs.ceilings(roof.name), key=lambda ceiling: -ceiling.rate)]
    placed = {roof.name for roof, _ in pairs}
    return pairs + [(roof, None) for roof in roofs.roofs if roof.name not in placed]


def row(roof: Roof, above: Roof | None) -> dict[str, str]:
    """The cells of one roof, or of a ceiling under the roof ``above``; limits are in the unit of the rate."""
    name = f"  └ {_under(roof)}" if above else roof.name + ("  (lower bound)" if roof.incomplete else "")
    if roof.mixes and len(roof.mixes) > 1:
        name = f"{name} ({max(roof.mixes, key=lambda mix: roof.mixes[mix])})"
    return {
        "roof": name,
        "rate": engineering(roof.rate, unit_of(roof)),
        "per cycle": plain(roof.per_cycle, 4) if roof.per_cycle else "",
        "clock held": _mhz(roof.compute_hz),
        "limit": engineering(roof.limit) if roof.limit else "",
        "of limit": share_text(roof.rate, roof.limit),
        "sheet": engineering(roof.sheet) if roof.sheet else "",
        "of sheet": share_text(roof.rate, roof.sheet) if not above else "",
        "of roof": share_text(roof.rate, measured_above(roof, above)[0]) if above else "",
        "checks": checks_text(roof),
    }


def _under(ceiling: Roof) -> str:
    """What a ceiling lacks, in words; its name where nobody said."""
    return ceiling.cause or ceiling.name


def share_text(rate: float, whole: float | None) -> str:
    """With a decimal where it decides: ``98.7 %``."""
    if not whole:
        return ""
    return f"{100 * rate / whole:.1f} %" if rate > 0.9 * whole else percent(rate / whole)


def unit_of(roof: Roof) -> str:
    if roof.kind == "launch":
        return "s"
    if roof.kind == "bandwidth":
        return "B/s"
    return "OP/s" if (roof.precision or "").startswith("int") else "FLOP/s"


def load_table(roofs: RoofSet) -> Any:
    """What is left under load that does not pause; None where that was not measured."""
    loaded = [roof for roof, _ in in_order(roofs) if roof.sustained]
    if not loaded:
        return None
    columns = ("roof", "in bursts", "sustained", "of burst", "clock held", "power", "remarks")
    table = _table("Under load without a pause", columns)
    for roof in loaded:
        table.add_row(*_load_cells(roof), style="dim" if roof.ceiling_of else None)
    return table


def _load_cells(roof: Roof) -> list[str]:
    held, unit = roof.sustained, unit_of(roof)
    assert held
    words = (held.event_reasons or "").split()
    reasons = [word.replace("_", " ") for word in words if word not in ("none", "idle")]
    reasons += [] if held.settled else [f"not settled after {held.seconds:.1f} s"]
    reasons += [_why_more(roof)] if held.rate > roof.rate * MORE_THAN_BURST else []
    return [
        roof.name,
        engineering(roof.rate, unit),
        engineering(held.rate, unit),
        share_text(held.rate, roof.rate),
        _mhz(held.compute_hz),
        f"{held.power_w:.0f} W" if held.power_w else "",
        ", ".join(reasons),
    ]


def _why_more(roof: Roof) -> str:
    """Why more was reached under lasting load than in bursts."""
    held = roof.sustained
    assert held
    if held.compute_hz and roof.compute_hz and held.compute_hz > roof.compute_hz:
        return f"above the bursts: they held {_mhz(roof.compute_hz)}"
    return "above the bursts: they are too short to reach it"


def checks_text(roof: Roof) -> str:
    """``limit ✓ instructions ✓ pipe 98.7 % ✓``; what failed is in the notes below the table."""
    return " ".join(f"{_check_name(check)} {'✓' if check.passed else '✗'}" for check in roof.checks)


def _check_name(check: RoofCheck) -> str:
    share = share_text(check.found, check.expected) if check.name.startswith("pipe") and check.found else ""
    return f"{check.name} {share}".strip()


def _mhz(hz: float | None) -> str:
    return f"{hz / 1e6:.0f} MHz" if hz else ""


def notes(roofs: RoofSet) -> list[str]:
    """What the table has no room for: mixes, checks that failed, what could not be measured, and how to read it."""
    lines = [f"  {roof.name}: {mixes_text(roof)}" for roof, _ in in_order(roofs) if len(roof.mixes) > 1]
    lines += [f"  ! {roof.name} is only a lower bound: {roof.incomplete}" for roof in roofs.roofs if roof.incomplete]
    lines += [f"  {r.name}: {c.message}" for r in roofs.roofs for c in r.checks if _is_remark(c)]
    lines += [f"  ! {name} could not be measured: {why}" for name, why in roofs.unavailable.items()]
    if roofs.disturbed:
        lines.append("  ! other programs or a quota disturbed them: the next sweep measures them again")
    return [*lines, CAPTION]


def _is_remark(check: RoofCheck) -> bool:
    return check.name == "limit" and check.passed and bool(check.message)


def mixes_text(roof: Roof) -> str:
    """Each mix with what it is of the data sheet; where a level does more than its reads alone, with both parts of it:
    a network for reads and one for writes are busy at once."""
    both = roof.rate > MORE_THAN_ONE_WAY * max(roof.mixes.get("read", roof.rate), roof.mixes.get("write", 0.0))
    return ", ".join(f"{mix} {engineering(rate, 'B/s')}{_part(roof, mix, both)}" for mix, rate in roof.mixes.items())


def _part(roof: Roof, mix: str, both: bool) -> str:
    if roof.sheet:
        return f" ({share_text(roof.mixes[mix], roof.sheet)} of the sheet)"
    read, written = STREAMS.get(mix, (0, 0))
    if not (both and read and written):
        return ""
    of_array = roof.mixes[mix] / (read + written)
    return f" (reads {engineering(read * of_array)} + writes {engineering(written * of_array)})"


def side_by_side(sets: Sequence[RoofSet]) -> Any:
    """The rates of several machines or thread counts, one column each, and each over the first."""
    table = _table("Side by side", ["roof", *(_units(roofs.machine) for roofs in sets)])
    by_name = [{roof.name: roof for roof in roofs.roofs} for roofs in sets]
    for roof, above in in_order(sets[0]):
        cells = []
        for names in by_name:
            other = names.get(roof.name)
            text = engineering(other.rate, unit_of(other)) if other else ""
            cells.append(f"{text} (x{plain(other.rate / roof.rate)})" if other and names is not by_name[0] else text)
        table.add_row(f"  └ {_under(roof)}" if above else roof.name, *cells, style="dim" if above else None)
    return table
