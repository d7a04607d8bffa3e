"""Numbers that a text quotes from published sweeps, marked so that a program can check them and put them right.

A table: the comment before it names the folder, the columns of points.csv that find a row, and those that are quoted.

    <!-- numbers of outputs/reference/h200/llm_kernels by kernel size precision: time_s fraction -->
    | kernel | size | precision | time | of its roof |

A number in a sentence:

    <!-- outputs/reference/h200/llm_kernels kernel=gemm_torch size=8192: flops_per_s -->678 TFLOP/s<!-- -->

``python -m tests.quoted_numbers README.md`` writes the right numbers into the file.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

from roofexp.text.numbers import engineering, percent, plain

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"<!-- numbers of (\S+) by ([^:]+): ([^>]+?) -->\n((?:\|[^\n]*\n)+)")
WORD = re.compile(r"<!-- (\S+/\S+) ([^:>]+): (\w+) -->([^<]*)<!-- -->")
Rows = list[dict[str, str]]


def corrected(text: str) -> str:
    """The same text with every marked number as points.csv has it. Raises ValueError for one that is not found."""
    text = TABLE.sub(_table, text)
    return WORD.sub(_word, text)


def quotations(text: str) -> int:
    """How many numbers are marked."""
    tables = [len(found[3].strip().split("\n")[2:]) * len(found[2].split()) for found in TABLE.findall(text)]
    return sum(tables) + len(WORD.findall(text))


def shown(column: str, row: dict[str, str]) -> str:
    """The value as a reader sees it, by the unit in its column's name."""
    if not row.get(column):
        raise ValueError(f"{column} is empty or unknown in the row of {row.get('kernel')} {row.get('size')}")
    try:
        value = float(row[column])
    except ValueError:
        return row[column]
    for ending, unit in (
        ("flops_per_s", "FLOP/s"),
        ("bytes_per_s", "B/s"),
        ("_hz", "Hz"),
        ("_bytes", "B"),
        ("_s", "s"),
    ):
        if column.endswith(ending):
            return engineering(value, unit)
    return percent(value) if column.endswith("fraction") else plain(value)


def _table(match: re.Match[str]) -> str:
    folder, keys, columns, table = match[1], match[2].split(), match[3].split(), match[4]
    head, rule, *lines = table.strip().split("\n")
    rows = _read(folder)
    corrected_lines = [_line(line, keys, columns, rows, folder) for line in lines]
    comment = match[0][: match[0].index("\n")]
    return "\n".join([comment, head, rule, *corrected_lines]) + "\n"


def _line(line: str, keys: list[str], columns: list[str], rows: Rows, folder: str) -> str:
    """Cells after those that find the row are quoted numbers; further ones are words of the writer."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    row = _find(rows, dict(zip(keys, cells, strict=False)), folder)
    rest = cells[len(keys) + len(columns) :]
    return f"| {' | '.join([*cells[: len(keys)], *(shown(column, row) for column in columns), *rest])} |"


def _word(match: re.Match[str]) -> str:
    wanted = dict(pair.split("=", 1) for pair in match[2].split())
    value = shown(match[3], _find(_read(match[1]), wanted, match[1]))
    return f"<!-- {match[1]} {match[2]}: {match[3]} -->{value}<!-- -->"


def _read(folder: str) -> Rows:
    file = ROOT / folder / "points.csv"
    if not file.is_file():
        raise ValueError(f"{folder} holds no points.csv")
    with file.open(newline="") as table:
        return list(csv.DictReader(table))


def _find(rows: Rows, wanted: dict[str, str], folder: str) -> dict[str, str]:
    found = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    if len(found) != 1:
        raise ValueError(f"{folder}: {len(found)} rows with {wanted}, instead of one")
    return found[0]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        file.write_text(corrected(file.read_text()))
