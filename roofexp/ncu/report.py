"""Any page of any ncu version, as launches with metrics in SI units.

Accepted: long pages of 12 to 22 columns, the wide raw page, per-kernel summaries, from 2020 on; scaled or base units;
grouped numbers, decimal commas, commas, semicolons or tabs between cells; lines of ncu and of the profiled program
around and within the table. A value that ncu did not have is missing (None), never 0.
"""

from __future__ import annotations

import codecs
import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from roofexp.errors import BadInputError
from roofexp.ncu import explain_ncu_failure, find_ncu, ncu_environment
from roofexp.ncu.catalogue import is_counter, is_known
from roofexp.ncu.foreign import EXPORT, REP_START, name_bytes
from roofexp.ncu.launch import Launch, Metric, build_launch, metric_name, shape_of
from roofexp.ncu.numbers import (
    AmbiguousNumberError,
    Convention,
    UnknownUnitError,
    choose_convention,
    convert,
    parse_number,
    to_base,
)
from roofexp.ncu.table import Contents, ReportTable, Row, read_contents, what_is_it

_SNIFFED = 4096  # bytes looked at to tell text from binary
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_VALUE_COLUMNS = {"long": "Metric Value", "summary": "Average"}


def read_report_file(path: Path, decimal: str | None = None) -> list[Launch]:
    """The launches of an ncu CSV file or an .ncu-rep report, told apart by their first bytes. Raises BadInputError."""
    try:
        with path.open("rb") as file:
            start = file.read(_SNIFFED)
        if _is_rep(start, path):
            return read_rep_file(path)
        return read_report_bytes(path.read_bytes(), str(path), decimal)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror})") from error


def _is_rep(start: bytes, path: Path) -> bool:
    """Raises BadInputError for a file of another kind."""
    foreign = name_bytes(start, path.name)
    packed = path.suffix == ".ncu-repz" and b"\0" in start
    if foreign and not packed:
        raise BadInputError(f"{path}: this is {foreign}")
    return packed or start.startswith(REP_START) or (path.suffix in ENDINGS and b"Kernel Name" not in start)


def read_report_bytes(data: bytes, where: str, decimal: str | None = None) -> list[Launch]:
    """The launches of a CSV text in UTF-8 or, as PowerShell writes it, UTF-16. Raises BadInputError."""
    foreign = name_bytes(data[:_SNIFFED], where)
    if foreign:
        raise BadInputError(f"{where}: this is {foreign}")
    if b"\0" in data[:_SNIFFED] and not data.startswith(_UTF16):
        kind = "a report that only ncu reads, name its file" if data.startswith(REP_START) else "a binary file, not CSV"
        raise BadInputError(f"{where}: {kind}; or export the report (.ncu-rep) by: {EXPORT}")
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    return read_report(data.decode(encoding, errors="replace"), where, decimal)


def read_report(text: str, where: str, decimal: str | None = None) -> list[Launch]:
    """The launches in ``text``, in the order in which they were printed; ``where`` names the file in errors.

    ``decimal`` is the mark before decimals, "." or ","; None: as the numbers themselves say. Raises BadInputError for a
    text without a launch (saying what was found), for numbers that say two things, and for a known metric with a unit
    that cannot be brought to SI.
    """
    contents = read_contents(text)
    if not any(table.rows for table in contents.tables):
        raise BadInputError(f"{where}: no launch to read: {what_is_it(contents)}")
    try:
        convention = Convention(decimal) if decimal else choose_convention(_numbers(contents), _ranges_of(contents))
    except AmbiguousNumberError as error:
        grouped = str(error).replace(".", "")
        raise BadInputError(
            f"{where}: {error} may be {error} (--decimal .) or {grouped} (--decimal ,), and no other number of the "
            "file decides; say which by --decimal"
        ) from error
    launches = []
    for index, table in enumerate(contents.tables):
        launches += _read_wide(table, index, convention, where) if table.layout == "wide" else []
        launches += _read_long(table, index, convention, where) if table.layout != "wide" else []
    return [_with_notes(launch, contents, convention) for launch in launches]


def _ranges_of(contents: Contents) -> Iterator[list[str]]:
    """Minimum, average and maximum of each row of the summaries."""
    for table in contents.tables:
        if table.layout == "summary":
            yield from ([row.get(name, "") for name in ("Minimum", "Average", "Maximum")] for row in table.rows)


def _numbers(contents: Contents) -> Iterator[str]:
    """The cells that may hold numbers."""
    for table in contents.tables:
        columns = table.metrics or [_VALUE_COLUMNS[table.layout]]
        for row in table.rows:
            for column in columns:
                yield row[column]


def _read_wide(table: ReportTable, index: int, convention: Convention, where: str) -> list[Launch]:
    if table.units is None:
        _check_unscaled(table, convention, where)
    named: list[tuple[str, str, str]] = []  # column, metric, unit
    for column in table.metrics:
        unit = table.units[column] if table.units else _unscaled_unit(column)
        named.append((column, metric_name(column, _base(unit), "", 0), unit))
    notes = [] if table.units else ["the table has no row of units: base units assumed"]
    launches = []
    for row in table.rows:
        metrics = {name: _metric(name, row[column], unit, convention, where) for column, name, unit in named}
        launches.append(build_launch(row, index, metrics, notes))
    return launches


def _read_long(table: ReportTable, index: int, convention: Convention, where: str) -> list[Launch]:
    """Rows belong together by host, process and launch number; in a summary, by process, kernel and configuration."""
    keys = ["Host Name", "Process ID", "ID"]
    if table.layout == "summary":
        keys = ["Host Name", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device", "CC"]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in table.rows:
        groups.setdefault(tuple(row.get(key, "") for key in keys), []).append(row)
    column = _VALUE_COLUMNS[table.layout]
    notes = ["average over the launches of a per-kernel summary"] if table.layout == "summary" else []
    return [
        build_launch(rows[0], index, _long_metrics(rows, column, convention, where), [*notes, *_rules(rows)])
        for rows in groups.values()
    ]


def _rules(rows: list[Row]) -> list[str]:
    """What ncu's own rules say of a launch, by name and kind, with the speedup that they expect."""
    notes = []
    for row in rows:
        text = " ".join(row.get("Rule Description", "").split())
        if text:
            name, kind = row.get("Rule Name", "").strip(), row.get("Rule Type", "").strip()
            gain, extent = row.get("Estimated Speedup", "").strip(), row.get("Estimated Speedup Type", "").strip()
            expected = f" (estimated speedup {gain} %{f', {extent}' if extent else ''})" if gain else ""
            notes.append(f"ncu's rule {name or 'without a name'}{f' ({kind})' if kind else ''}: {text}{expected}")
    return list(dict.fromkeys(notes))


def _long_metrics(rows: list[Row], column: str, convention: Convention, where: str) -> dict[str, Metric]:
    """The first row of a metric counts: sections repeat each other's metrics."""
    metrics: dict[str, Metric] = {}
    seen: dict[tuple[str, str, str], int] = {}
    for row in rows:
        label, item, unit = (
            row["Metric Name"].strip(),
            row.get("Body Item Label", "").strip(),
            row["Metric Unit"].strip(),
        )
        if not label:  # the row of a rule
            continue
        place = (row.get("Section Name", ""), item, label)
        name = metric_name(label, _base(unit), item, seen.get(place, 0))
        seen[place] = seen.get(place, 0) + 1
        if name not in metrics:
            metrics[name] = _metric(name, row[column], unit, convention, where)
    return metrics


def _metric(name: str, text: str, unit: str, convention: Convention, where: str) -> Metric:
    try:
        value = parse_number(text, convention)
    except ValueError:
        return Metric(None, _base(unit), "" if is_known(name) else text.strip())
    try:
        return Metric(None, to_base(unit)[1]) if value is None else Metric(*convert(value, unit))
    except UnknownUnitError as error:
        if is_known(name):
            raise BadInputError(
                f"{where}: {name} has the unit {unit!r}; known are bytes, seconds, hertz, cycles, counts and %, "
                "with or without K, M, G"
            ) from error
        return Metric(value, unit)


def _base(unit: str) -> str:
    try:
        return to_base(unit)[1]
    except UnknownUnitError:
        return unit


def _unscaled_unit(metric: str) -> str:
    """What ncu prints a metric in with ``--print-units base``."""
    if metric.endswith((".per_second", "per_second")):
        return "byte/s" if "bytes" in metric else "hz" if "cycles" in metric else ""
    if "time_duration" in metric:
        return "ns"
    return "byte" if "bytes" in metric and ".pct" not in metric else ""


def _check_unscaled(table: ReportTable, convention: Convention, where: str) -> None:
    """Sums of bytes, instructions and nanoseconds are whole numbers, unless they were scaled."""
    for row in table.rows:
        for column in table.metrics:
            try:
                value = parse_number(row[column], convention) if column.endswith(".sum") else None
            except ValueError:
                continue
            if value is not None and value != int(value):
                raise BadInputError(
                    f"{where}: the table has no row of units and {column}={row[column]} looks scaled; "
                    "export it again with --print-units base"
                )


def _with_notes(launch: Launch, contents: Contents, convention: Convention) -> Launch:
    """Warnings of the tool hold for every launch; its errors for those that have no values."""
    values = [value for name, value in launch.values.items() if is_counter(name)]
    failed = bool(values) and all(value is None for value in values)
    kinds = ("WARNING", "ERROR") if failed else ("WARNING",)
    notes = [text for kind, text in contents.tool_lines if kind in kinds]
    if convention.note:
        notes.append(convention.note)
    return msgspec.structs.replace(launch, notes=[*launch.notes, *dict.fromkeys(notes)])


ENDINGS = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")

IMPORT_TIMEOUT_S = 600.0


def read_rep_file(path: Path, ncu: Path | None = None) -> list[Launch]:
    """The launches of a report file, by ``ncu`` or the one that is found on this machine.

    Raises BadInputError where neither ncu nor its package is there, or it fails.
    """
    program = ncu or find_ncu(None)
    if program:
        return _through_ncu(str(program), path)
    if importlib.util.find_spec("ncu_report"):
        return _through_package(path)
    raise BadInputError(
        f"{path}: a report of this kind is read by ncu, which was not found; install Nsight Compute or "
        "`pip install ncu-report`, or export the report where it was made: "
        f"{EXPORT.replace('REPORT.ncu-rep', path.name)} > report.csv"
    )


def _through_ncu(ncu: str, path: Path) -> list[Launch]:
    command = [ncu, "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S, check=False, env=ncu_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInputError(f"{path}: {ncu} could not import it ({error})") from error
    if done.returncode != 0:
        explanation = explain_ncu_failure(done.stdout + done.stderr, done.returncode)
        raise BadInputError(f"{path}: {explanation}")
    return read_report(done.stdout, str(path), decimal=".")


def _through_package(path: Path) -> list[Launch]:
    package: Any = importlib.import_module("ncu_report")
    try:
        report = package.load_report(str(path))
    except Exception as error:  # whatever the package raises for a file that it cannot read
        raise BadInputError(f"{path}: ncu_report cannot read it ({error})") from error
    launches = []
    for index in range(report.num_ranges()):
        actions = report.range_by_idx(index)
        launches += [_launch(actions.action_by_idx(i), i, index) for i in range(actions.num_actions())]
    if not launches:
        raise BadInputError(f"{path}: the report holds no launches")
    return launches


def _launch(action: Any, number: int, table: int) -> Launch:
    metrics = {name: _metric_of_action(name, action.metric_by_name(name)) for name in action.metric_names()}
    parts = [metrics.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
    version = [str(int(part.value)) for part in parts if part and part.value is not None]
    return Launch(
        table=table,
        process=None,
        launch=number,
        kernel=action.name(),
        block=shape_of(metrics, "block"),
        grid=shape_of(metrics, "grid"),
        device=_device_number(metrics),
        nvtx=_ranges(action),
        architecture=".".join(version) if len(version) == 2 else None,
        metrics=metrics,
    )


def _device_number(metrics: dict[str, Metric]) -> str | None:
    number = metrics.get("launch__device_id")
    return None if number is None or number.value is None else f"{number.value:.0f}"


def _ranges(action: Any) -> list[str]:
    state = action.nvtx_state()
    domains = [state.domain_by_id(index) for index in state.domains()] if state else []
    return [str(name) for domain in domains for name in domain.push_pop_ranges()]


def _metric_of_action(name: str, metric: Any) -> Metric:
    """Words are kept as words; a unit that is not known stops the reading only where something is made of it."""
    value, unit = metric.value(), metric.unit() or ""
    if isinstance(value, str):
        return Metric(None, "", value)
    if value is None or value != value:  # nan
        return Metric(None, unit)
    try:
        return Metric(*convert(value, unit))
    except UnknownUnitError as error:
        if is_known(name):
            raise BadInputError(f"{name} has the unit {unit!r}, which is not known") from error
        return Metric(value, unit)
