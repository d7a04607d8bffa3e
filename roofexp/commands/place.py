"""``python -m roofexp.place FILE`` places the kernels of any ncu report on the roofline."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from roofexp.commands import run_command
from roofexp.counters.kernel_sums import KernelSums, from_launch, sum_by_kernel_and_shape, sum_by_operation
from roofexp.counters.report_placing import Placed, Placing, choose_roofs, judge
from roofexp.errors import EXIT_OK, BadInputError
from roofexp.ncu.catalogue import request
from roofexp.ncu.launch import Launch
from roofexp.ncu.report import read_report_bytes, read_report_file
from roofexp.placing.limits import MachineLimits, load_machine_limits, machine_names
from roofexp.text.console import open_console, plain_table
from roofexp.text.numbers import engineering, percent, plain

_NAMES_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    metrics = ",".join(request("9.0", "basic", "fp32"))
    parser.epilog = f"Collect the counters by: ncu --csv --page raw --print-units base --metrics {metrics} ..."
    parser.add_argument("file", metavar="FILE", help="ncu CSV of any page and version, .ncu-rep, or - for the input")
    parser.add_argument("--json", action="store_true", help="a list with one object per launch; null: unknown")
    parser.add_argument("--machine", metavar="NAME", help=f"the card: {', '.join(machine_names())}, or a YAML file")
    parser.add_argument(
        "--by",
        choices=list(SUMS),
        default="launch",
        help="kernel: sum launches of one name and shape on one GPU; operation: sum the kernels of an NVTX range, "
        "without ranges those that follow one another",
    )
    parser.add_argument("--decimal", choices=[".", ","], help="the mark before decimals, where the file leaves it open")
    parser.add_argument("--kernel", metavar="REGEX", help="only kernels whose name matches")
    parser.add_argument(
        "--half-lanes", type=int, choices=[1, 2], default=2, help="values per half instruction (half2: 2)"
    )
    parser.add_argument("--figure", metavar="OUT", type=Path, help="draw the roofline to OUT.png, OUT.svg and OUT.csv")


def run(options: argparse.Namespace) -> int:
    machine = load_machine_limits(options.machine) if options.machine else None
    launches = choose_launches(read_launches(options.file, options.decimal), options.kernel)
    _print(place_launches(launches, machine, by=options.by, half_lanes=options.half_lanes), options)
    return EXIT_OK


def read_launches(file: str, decimal: str | None = None) -> list[Launch]:
    """The launches of a CSV file, an .ncu-rep report, or the standard input ("-"). Raises BadInputError."""
    if file == "-":
        return read_report_bytes(sys.stdin.buffer.read(), "standard input", decimal)
    return read_report_file(Path(file), decimal)


def choose_launches(launches: list[Launch], pattern: str | None) -> list[Launch]:
    """Those whose kernel name matches. Raises BadInputError, with the names found, when none does."""
    if pattern is None:
        return launches
    try:
        name = re.compile(pattern)
    except re.error as error:
        raise BadInputError(f"--kernel {pattern!r} is not a regular expression ({error})") from error
    chosen = [launch for launch in launches if name.search(launch.kernel)]
    if not chosen:
        raise BadInputError(f"--kernel {pattern!r} matches none of the kernels found: {_names(launches)}")
    return chosen


SUMS = {
    "launch": lambda launches, half_lanes: [from_launch(launch, half_lanes) for launch in launches],
    "kernel": sum_by_kernel_and_shape,
    "operation": sum_by_operation,
}


def place_launches(
    launches: list[Launch], machine: MachineLimits | None = None, *, by: str = "launch", half_lanes: int = 2
) -> list[Placing]:
    """Every launch, or every sum by kernel or operation, under the roofs of ``machine`` or of the report itself.

    Raises BadInputError when no launch has FLOPs, DRAM traffic or a time, saying what was found.
    """
    items = SUMS[by](launches, half_lanes)
    _check(items, launches)
    placings = []
    for item in items:
        roofs = choose_roofs(item.counts, machine)
        placings.append(Placing(item=item, roofs=roofs, verdict=judge(item.counts, roofs)))
    return placings


def _check(items: list[KernelSums], launches: list[Launch]) -> None:
    """A report of occupancy alone has nothing to place; one whose counters all failed has flags to show."""
    values = [value for item in items for value in (item.counts.flops, item.counts.dram_bytes, item.counts.time_s)]
    if any(value is not None for value in values) or any(item.counts.flags for item in items):
        return
    metrics = list(dict.fromkeys(name for launch in launches for name in launch.metrics))
    shown = ", ".join(metrics[:_NAMES_SHOWN]) + (" ..." if len(metrics) > _NAMES_SHOWN else "")
    raise BadInputError(
        f"nothing to place: {_names(launches)} found (launches: {len(launches)}), but neither FLOPs nor DRAM traffic "
        f"nor a time among their metrics ({shown or 'none'}); ask ncu for {', '.join(request('9.0', 'basic', 'fp32'))}"
    )


def _names(launches: list[Launch]) -> str:
    names = list(dict.fromkeys(launch.kernel for launch in launches))
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def to_record(placing: Placing) -> Placed:
    """What JSON holds of a placing. FLOPs and bytes are whole numbers; rates come from the same run's time."""
    item, counts = placing.item, placing.item.counts
    return Placed(
        kernel=item.kernel,
        process=item.process,
        launch=item.launch,
        flops=_whole(counts.flops),
        flops_by_type={kind: _whole(value) for kind, value in counts.flops_by_type.items()},
        dram_bytes=_whole(counts.dram_bytes),
        l2_bytes=_whole(counts.l2_bytes),
        l1_bytes=_whole(counts.l1_bytes),
        time_s=counts.time_s,
        ai_dram_flop_per_byte=placing.verdict.intensity,
        flops_per_s=_rate(counts.flops, counts.time_s),
        dram_bytes_per_s=_rate(counts.dram_bytes, counts.time_s),
        bound=placing.verdict.bound,
        flags=placing.flags,
        notes=placing.notes,
        launches=item.launches,
        grid=item.grid,
        block=item.block,
        device=item.device,
        architecture=counts.architecture,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _rate(work: float | None, time_s: float | None) -> float | None:
    return work / time_s if work is not None and time_s else None


def _print(placings: list[Placing], options: argparse.Namespace) -> None:
    records = [to_record(placing) for placing in placings]
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(records), indent=2).decode())
    else:
        show(placings, records)
    if options.figure:
        from roofexp.figures.kinds.roofline import draw

        for file in draw(placings, records, options.figure):
            print(f"figure   {file}", file=sys.stderr if options.json else sys.stdout)


UNKNOWN = "-"
_LEFT = ("kernel", "type", "bound")
_NARROW = (
    "#",
    "kernel",
    "launches",
    "grid x block",
    "GPU",
    "time",
    "FLOP/B",
    "rate",
    "DRAM rate",
    "bound",
    "of roof",
    "",
)
_ONLY_WHERE_THEY_DIFFER = ("launches", "grid x block", "GPU")
_WIDE = 130
_FILE_WIDTH = 240


def show(placings: list[Placing], records: list[Placed]) -> None:
    """One row per launch; below it what each flag and note means, with the launches that they are about."""
    console = open_console(_FILE_WIDTH)
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
    rows = [
        _cells(placing, record, number) for number, (placing, record) in enumerate(zip(placings, records, strict=True))
    ]
    names = [name for name in rows[0] if any(row[name] not in (UNKNOWN, "") for row in rows)]
    names = [name for name in names if name not in _ONLY_WHERE_THEY_DIFFER or _differs(name, rows)]
    if width < _WIDE:
        names = [name for name in names if name in _NARROW]
    table = plain_table(names, right=[name for name in names if name not in _LEFT], folding=["kernel"])
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def _differs(name: str, rows: list[dict[str, str]]) -> bool:
    """Several launches in a row, a kernel in several shapes, several GPUs."""
    if name == "launches":
        return any(row[name] != "1" for row in rows)
    if name == "GPU":
        return len({row[name] for row in rows}) > 1
    return len({(row["kernel"], row[name]) for row in rows}) > len({row["kernel"] for row in rows})


def _cells(placing: Placing, record: Placed, number: int) -> dict[str, str]:
    counts, verdict = placing.item.counts, placing.verdict
    intensity = record.ai_dram_flop_per_byte
    flops_per_s, bytes_per_s = _value(record.flops_per_s, "FLOP/s"), _value(record.dram_bytes_per_s, "B/s")
    return {
        "#": _name(record, number),
        "kernel": record.kernel,
        "launches": str(record.launches),
        "grid x block": f"{_shape(record.grid)} x {_shape(record.block)}" if record.grid or record.block else UNKNOWN,
        "GPU": " ".join(part for part in (record.device, f"(CC {record.architecture})") if part)
        if record.architecture
        else record.device or UNKNOWN,
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


def _shape(sides: tuple[int, ...] | None) -> str:
    """Without the sides of 1 at its end."""
    kept = list(sides or ())
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return ",".join(str(side) for side in kept) or UNKNOWN


def _name(record: Placed, number: int) -> str:
    """Process and number of a launch; the row of a sum of several."""
    if record.launch is None:
        return str(number)
    return f"{record.process}:{record.launch}" if record.process is not None else str(record.launch)


def _gathered(records: list[Placed], messages: list[list[str]]) -> dict[str, list[str]]:
    """Each message once, with the rows that carry it."""
    rows_by_message: dict[str, list[str]] = {}
    for number, (record, own) in enumerate(zip(records, messages, strict=True)):
        for message in own:
            rows_by_message.setdefault(message, []).append(_name(record, number))
    return rows_by_message


def _value(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else engineering(value, unit)


if __name__ == "__main__":
    sys.exit(run_command("place"))
