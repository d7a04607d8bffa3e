"""Which launch a row of an ncu table is about."""

from __future__ import annotations

import re

from roofexp.counters.catalogue import is_counter, is_known
from roofexp.counters.launch import Launch, Metric
from roofexp.counters.table import Row

_SHOWN = 4  # names listed in a note


def build_launch(row: Row, index: int, metrics: dict[str, Metric], notes: list[str]) -> Launch:
    """The launch that ``row`` names, with its metrics; what has no value is listed in its notes."""
    missing = [name for name, metric in metrics.items() if metric.value is None and not metric.text]
    missing = [name for name in missing if is_known(name) and is_counter(name)]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        notes = [*notes, f"no value for {shown}"]
    return Launch(
        table=index,
        process=_integer(row.get("Process ID")),
        launch=_integer(row.get("ID")),
        kernel=row["Kernel Name"].strip(),
        block=_dimensions(row.get("Block Size")),
        grid=_dimensions(row.get("Grid Size")),
        context=row.get("Context") or None,
        stream=row.get("Stream") or None,
        device=row.get("Device") or None,
        architecture=_architecture(row, metrics),
        nvtx=[name for column in row if "Domain:" in column for name in _ranges(row[column])],
        invocations=_integer(row.get("Invocations")) or 1,
        metrics=metrics,
        notes=notes,
    )


def _integer(text: str | None) -> int | None:
    """Identities are whole numbers, written with separators by some and as floats by spreadsheets."""
    if not text or not text.strip():
        return None
    text = text.strip()
    return int(float(text)) if re.fullmatch(r"\d+\.0", text) else int(re.sub(r"\D", "", text))


def _dimensions(text: str | None) -> tuple[int, ...] | None:
    found = re.findall(r"\d+", text or "")
    return tuple(int(number) for number in found) or None


def _architecture(row: Row, metrics: dict[str, Metric]) -> str | None:
    if row.get("CC"):
        return row["CC"].strip().replace(",", ".")
    parts = [metrics.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
    numbers = [part.value for part in parts if part and part.value is not None]
    return f"{int(numbers[0])}.{int(numbers[1])}" if len(numbers) == 2 else None


def _ranges(cell: str) -> list[str]:
    """``465  "<default domain>:name:none:none:none:none:none:none"``: a domain, the name, and six fields of payload."""
    names = []
    for quoted in re.findall(r'"([^"]*)"', cell):
        fields = quoted.split(":")
        names.append(":".join(fields[1:-6]) if len(fields) > 7 else quoted)
    return names
