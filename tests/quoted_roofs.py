"""The table of roofs that a text quotes from a stored set of roofs, marked so that a program can check it and write it.

    <!-- roofs of outputs/reference/h200/roofs.json -->

``python -m tests.quoted_roofs README.md`` writes the table below the mark anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec

from roofexp.records.machine import Roof, RoofSet
from roofexp.text.numbers import engineering, percent

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"<!-- roofs of (\S+) -->\n((?:\|[^\n]*\n)*)")
HEAD = "| roof | rate | clock held | of the limit | without a pause | at | power |\n|---|---|---|---|---|---|---|\n"


def corrected(text: str) -> str:
    """The same text with every marked table as its file has it."""
    return MARK.sub(lambda found: f"<!-- roofs of {found[1]} -->\n{HEAD}{_rows(ROOT / found[1])}", text)


def _rows(file: Path) -> str:
    stored = msgspec.json.decode(file.read_bytes(), type=RoofSet)
    shown = [roof for roof in stored.roofs if roof.ceiling_of is None and roof.kind != "launch"]
    return "".join(f"| {' | '.join(_cells(roof))} |\n" for roof in sorted(shown, key=_order))


def _order(roof: Roof) -> tuple[bool, float]:
    return roof.kind != "bandwidth", roof.rate


def _cells(roof: Roof) -> list[str]:
    unit = "B/s" if roof.kind == "bandwidth" else "OP/s" if str(roof.precision).startswith("int") else "FLOP/s"
    held, follows = roof.sustained, roof.clock_domain == "compute"
    return [
        roof.name,
        engineering(roof.rate, unit),
        engineering(roof.compute_hz, "Hz") if roof.compute_hz and follows else "",
        percent(roof.rate / roof.limit) if roof.limit else "",
        engineering(held.rate, unit) if held else "",
        engineering(held.compute_hz, "Hz") if held and held.compute_hz else "",
        engineering(held.power_w, "W") if held and held.power_w else "",
    ]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(corrected(Path(name).read_text()))
