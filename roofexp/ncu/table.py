"""Finds the tables of launches in whatever ncu, the profiled program and a shell wrote into one file.

Three layouts, told apart by the names in their header, never by the number of columns:

- long: one row per launch and metric (details page, or any page of a session with ``--metrics``), 12 to 22 columns;
- wide: one row per launch, one column per metric, a row of units below the header (raw page);
- summary: one row per kernel and metric with its minimum, maximum and average (``--print-summary``).
"""

from __future__ import annotations

import csv
import re
from typing import Literal

import msgspec

from roofexp.ncu import explain_ncu_failure
from roofexp.ncu.foreign import EXPORT, name_text

Layout = Literal["long", "wide", "summary"]

Row = dict[str, str]

TOOL_LINE = re.compile(r"^==(PROF|WARNING|ERROR|BANNER|LOG|INFO)==\s*(.*)$")

IDENTITY = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Section Name",
    "Body Item Label",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
    "Rule Name",
    "Rule Type",
    "Rule Description",
    "Estimated Speedup Type",
    "Estimated Speedup",
    "Invocations",
    "Minimum",
    "Maximum",
    "Average",
)

_LONGEST_ROW = 50  # lines that one quoted field may run over


class ReportTable(msgspec.Struct, kw_only=True):
    """``metrics`` are the columns of a wide table that hold metrics; ``units`` is None where it has no row of units."""

    layout: Layout
    line: int  # of the header, from 1
    header: list[str]
    metrics: list[str]
    units: Row | None
    rows: list[Row]


class Contents(msgspec.Struct, kw_only=True):
    """What a file holds: tables, the tool's own lines as (kind, text), and everything else."""

    tables: list[ReportTable]
    tool_lines: list[tuple[str, str]]
    other_lines: list[str]


def read_contents(text: str) -> Contents:
    """Sorts the lines of a file; a line that fits nothing is application output."""
    contents = Contents(tables=[], tool_lines=[], other_lines=[])
    lines = [line.rstrip("\r") for line in text.split("\n")]
    delimiter = ","
    position = 0
    while position < len(lines):
        line = lines[position]
        tool = TOOL_LINE.match(line)
        header = None if tool else _header(line)
        if tool:
            contents.tool_lines.append((tool.group(1), tool.group(2).strip()))
        elif header:
            delimiter, names = header
            contents.tables.append(_table(names, position + 1))
        elif contents.tables:
            position += _add_row(contents, lines, position, delimiter)
        elif line.strip():
            contents.other_lines.append(line)
        position += 1
    return contents


def _header(line: str) -> tuple[str, list[str]] | None:
    """The delimiter and the column names, if this line heads a table of launches."""
    if "Kernel Name" not in line:
        return None
    unfinished = line[max(line.find('"ID"'), 0) :]  # the program may not have ended its last line
    for text in (line, unfinished):
        for delimiter in (",", ";", "\t"):
            names = [name.strip() for name in _cells(text, delimiter)]
            if _heads_launches(set(names)):
                return delimiter, names
    return None


def _heads_launches(names: set[str]) -> bool:
    """Whether these columns name launches and give each metric a value."""
    if "Metric Name" in names:
        values = names & {"Metric Value", "Average"}
        return bool(values) and {"Kernel Name", "Metric Unit"} <= names
    return {"Kernel Name", "ID"} <= names and len(names) > 2


def _table(names: list[str], line: int) -> ReportTable:
    layout: Layout = "wide"
    if "Metric Name" in names:
        layout = "summary" if "Average" in names else "long"
    metrics = [name for name in names if name not in IDENTITY and "Domain:" not in name and name]
    return ReportTable(
        layout=layout, line=line, header=names, metrics=metrics if layout == "wide" else [], units=None, rows=[]
    )


def _add_row(contents: Contents, lines: list[str], position: int, delimiter: str) -> int:
    """Puts one row into the last table, or its line with the rest; how many further lines the row took."""
    table = contents.tables[-1]
    line, extra = lines[position], 0
    while line.count('"') % 2 and extra < _LONGEST_ROW and position + extra + 1 < len(lines):
        following = lines[position + extra + 1]
        if TOOL_LINE.match(following) or re.match(r'^"\d+"', following):
            break
        extra += 1
        line = f"{line}\n{following}"
    cells = _cells(line, delimiter)
    row = dict(zip(table.header, cells + [""] * (len(table.header) - len(cells)), strict=False))
    if _is_units(table, row, len(cells)):
        table.units = row
    elif _is_launch(table, row, len(cells)):
        table.rows.append(row)
    else:
        contents.other_lines += [lines[position]] if lines[position].strip() else []
        return 0
    return extra


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _is_units(table: ReportTable, row: Row, cells: int) -> bool:
    """The row below a wide header that names no launch."""
    empty = not row.get("ID") and not row.get("Process ID") and not row["Kernel Name"]
    return table.layout == "wide" and not table.rows and table.units is None and empty and cells == len(table.header)


def _is_launch(table: ReportTable, row: Row, cells: int) -> bool:
    """Rows of a long table may end early (ncu leaves out the columns of rules); those of a wide table may not."""
    if cells > len(table.header) or not row["Kernel Name"]:
        return False
    if table.layout == "wide" and cells != len(table.header):
        return False
    keys = [row[key] for key in ("ID", "Process ID", "Invocations") if key in row]
    return all(re.fullmatch(r"\d[\d.,']*", key.strip()) for key in keys)


_SHOWN = 3  # lines
_SNIFFED = 400  # lines that are looked at for words of other tools
_WIDTH = 100


def what_is_it(contents: Contents) -> str:
    """One line: what stands in the file instead of a table of launches, with its first lines."""
    if contents.tables:
        return f"a table with a header in line {contents.tables[0].line}, but no row below it; {EXPORT}"
    printed = "\n".join(f"=={kind}== {text}" for kind, text in contents.tool_lines)
    explanation = explain_ncu_failure(printed, 0)
    if explanation:
        return str(explanation)
    foreign = name_text("\n".join(contents.other_lines[:_SNIFFED]))
    if foreign:
        return f"this is {foreign}"
    lines = [text for _, text in contents.tool_lines][:1] + contents.other_lines
    if not lines:
        return "the file is empty"
    shown = " | ".join(line.strip()[:_WIDTH] for line in lines[:_SHOWN])
    return f"none of ncu's tables is in it; it begins with: {shown}; a report is exported by: {EXPORT}"
