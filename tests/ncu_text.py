"""ncu tables written by tests, in the layouts that ncu prints."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

DATA = Path(__file__).parent / "data" / "ncu"
IDENTITY = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
]
WHO = ["1", "7", "(256, 1, 1)", "(4096, 1, 1)"]


def columns(*names: str) -> list[str]:
    """Column names, written with bars between them."""
    return "|".join(names).split("|")


def text_of(rows: Sequence[Sequence[str]], delimiter: str = ",") -> str:
    """Quoted cells, as ncu quotes them."""
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def wide(
    launches: Sequence[Mapping[str, str]],
    units: Mapping[str, str],
    *,
    names: Sequence[str] = (),
    architecture: str = "9.0",
    delimiter: str = ",",
    with_units: bool = True,
) -> str:
    """A raw page: one row per launch; ``units`` by metric, in the order of the columns."""
    header = [*IDENTITY, "Device", "CC", *units]
    rows = [header]
    if with_units:
        rows.append([""] * (len(IDENTITY) + 2) + list(units.values()))
    for number, values in enumerate(launches):
        name = names[number] if names else "kernel(float *)"
        who = [str(number), "100", "app", "127.0.0.1", name, *WHO, "0", architecture]
        rows.append(who + [values[metric] for metric in units])
    return text_of(rows, delimiter)


def one(values: Mapping[str, tuple[str, str]], **options: object) -> str:
    """A raw page of one launch: metric to (value, unit)."""
    units = {metric: unit for metric, (_, unit) in values.items()}
    return wide([{metric: value for metric, (value, _) in values.items()}], units, **options)  # type: ignore[arg-type]
