"""The table of placed launches as a person reads it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from roofexp.units import engineering, percent, plain

if TYPE_CHECKING:
    from roofexp.place import Placed, Placing

UNKNOWN = "-"
_LEFT = ("kernel", "type", "bound")
_NARROW = ("#", "kernel", "time", "FLOP/B", "rate", "DRAM rate", "bound", "of roof", "")
_WIDE = 130
_FILE_WIDTH = 240
_KERNEL_WIDTH = 14


def show(placings: list[Placing], records: list[Placed]) -> None:
    """One row per launch; below it what each flag and note means, with the launches that they are about."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=_FILE_WIDTH)  # a file has no edge to wrap at
    console.print(_table(placings, records, console.width))
    for mark, messages in (("!", [record.flags for record in records]), ("·", [_notes(p) for p in placings])):
        for message, about in _gathered(records, messages).items():
            where = "" if len(about) == len(records) > 1 else f" [{', '.join(about)}]"
            console.print(f"{mark} {message}{where}", markup=False, highlight=False, soft_wrap=True)


def _notes(placing: Placing) -> list[str]:
    """The table has the numbers already."""
    reason = [placing.verdict.peaks.reason] if placing.verdict.peaks else []
    return list(dict.fromkeys([*reason, *placing.verdict.notes, *placing.item.notes]))


def _table(placings: list[Placing], records: list[Placed], width: int) -> Any:
    """Columns that hold something; on a narrow screen only those that a verdict needs."""
    from rich.table import Table

    rows = [
        _cells(placing, record, number) for number, (placing, record) in enumerate(zip(placings, records, strict=True))
    ]
    names = [name for name in rows[0] if any(row[name] not in (UNKNOWN, "") for row in rows)]
    if width < _WIDE:
        names = [name for name in names if name in _NARROW]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        left = name in _LEFT
        table.add_column(
            name, justify="left" if left else "right", overflow="fold", no_wrap=name != "kernel",
            min_width=_KERNEL_WIDTH if name == "kernel" else None,
        )  # fmt: skip
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def _cells(placing: Placing, record: Placed, number: int) -> dict[str, str]:
    counts, verdict = placing.item.counts, placing.verdict
    intensity = record.ai_dram_flop_per_byte
    flops_per_s, bytes_per_s = _value(record.flops_per_s, "FLOP/s"), _value(record.dram_bytes_per_s, "B/s")
    return {
        "#": _name(record, number),
        "kernel": record.kernel,
        "time": _value(record.time_s, "s"),
        "type": counts.main_type or UNKNOWN,
        "FLOP": _value(record.flops, ""),
        "DRAM": _value(record.dram_bytes, "B"),
        "FLOP/B": UNKNOWN if intensity is None else plain(intensity),
        "rate": flops_per_s if record.flops_per_s != 0 else UNKNOWN,
        "DRAM rate": bytes_per_s,
        "bound": record.bound or UNKNOWN,
        "of roof": UNKNOWN if verdict.fraction is None else percent(verdict.fraction),
        "SM SOL": UNKNOWN if counts.sol_sm_pct is None else percent(counts.sol_sm_pct / 100),
        "of peak": UNKNOWN if verdict.peak_fraction is None else percent(verdict.peak_fraction),
        "": "!" if record.flags else "",
    }


def _name(record: Placed, number: int) -> str:
    """A launch is known by process and number; a sum of several by its row."""
    if record.launch is None:
        return str(number)
    return f"{record.process}:{record.launch}" if record.process is not None else str(record.launch)


def _gathered(records: list[Placed], messages: list[list[str]]) -> dict[str, list[str]]:
    """Each message once, with the rows that carry it."""
    found: dict[str, list[str]] = {}
    for number, (record, own) in enumerate(zip(records, messages, strict=True)):
        for message in own:
            found.setdefault(message, []).append(_name(record, number))
    return found


def _value(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else engineering(value, unit)
