"""The comparison as files: JSON with everything, and a flat table with one row per pair."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any

import msgspec

from roofexp.compare.comparison import Comparison
from roofexp.compare.difference import Difference
from roofexp.errors import BadInputError
from roofexp.point import write_atomically


def json_bytes(comparison: Comparison) -> bytes:
    return msgspec.json.format(msgspec.json.encode(comparison), indent=2) + b"\n"


def csv_bytes(comparison: Comparison) -> bytes:
    rows = [row_of(each) for each in comparison.differences]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def row_of(each: Difference) -> dict[str, Any]:
    """Flat, with the unit in every name; what is unknown is None."""
    row: dict[str, Any] = {
        "kernel": each.kernel,
        "size": each.size,
        "precision": each.precision,
        "label": each.label,
        "verdict": each.verdict,
        "time_ratio": each.time_ratio,
        "time_ratio_low": each.low,
        "time_ratio_high": each.high,
        "floor": each.floor,
        "p_value": each.p_value,
        "significant": each.significant,
        "rate_ratio": each.rate_ratio,
        "intensity_ratio": each.intensity_ratio,
        "fraction_change": each.fraction_change,
        "cycles_ratio": each.cycles_ratio,
        "cycles_p_value": each.cycles_p_value,
        "message": each.message,
    }
    for name, values in (("a", each.a), ("b", each.b)):
        facts = msgspec.to_builtins(values)
        row |= {f"{name}_{key}": "; ".join(v) if isinstance(v, list) else v for key, v in facts.items()}
    return row


def write(file: str, data: bytes) -> None:
    """To a file, or to the standard output for ``-``. Raises BadInputError."""
    if file == "-":
        sys.stdout.write(data.decode())
        return
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(Path(file), data)
    except OSError as error:
        raise BadInputError(f"{file}: cannot be written ({error.strerror})") from error
