"""``python -m roofexp.place FILE``: any ncu report, by whomever it was made, placed on the roofline."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from roofexp.counters.catalogue import request
from roofexp.counters.item import Item, from_launch, sum_by_kernel
from roofexp.counters.launch import Launch
from roofexp.counters.rep_file import ENDINGS, read_rep_file
from roofexp.counters.report import read_report, read_report_file
from roofexp.counters.roofs import ReportRoofs, choose_roofs
from roofexp.counters.verdict import Verdict, judge
from roofexp.errors import EXIT_BAD_INPUT, EXIT_OK, BadInputError
from roofexp.limits import MachineLimits, load_machine_limits, machine_names

_NAMES_SHOWN = 20


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """One launch, or one kernel with ``--by kernel``, as JSON has it. SI units; None (null) is not known."""

    kernel: str
    process: int | None
    launch: int | None
    flops: int | None
    flops_by_type: dict[str, int | None]
    dram_bytes: int | None
    l2_bytes: int | None
    l1_bytes: int | None
    time_s: float | None
    ai_dram_flop_per_byte: float | None
    flops_per_s: float | None
    dram_bytes_per_s: float | None
    bound: str | None
    flags: list[str]
    notes: list[str]


class Placing(msgspec.Struct, frozen=True, kw_only=True):
    """An item with the roofs that it was compared with and where it lies under them."""

    item: Item
    roofs: ReportRoofs
    verdict: Verdict

    @property
    def flags(self) -> list[str]:
        return [f"{flag.name}: {flag.message}" for flag in [*self.item.counts.flags, *self.verdict.flags]]

    @property
    def notes(self) -> list[str]:
        return list(dict.fromkeys([*self.verdict.all_notes, *self.item.notes]))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 for an input that cannot be placed."""
    options = _parser().parse_args(arguments)
    try:
        machine = load_machine_limits(options.machine) if options.machine else None
        launches = choose_launches(read_launches(options.file), options.kernel)
        placings = place_launches(launches, machine, by_kernel=options.by == "kernel", half_lanes=options.half_lanes)
        _print(placings, options)
    except BadInputError as error:
        print(f"roofexp.place: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m roofexp.place",
        description="Places the kernels of an Nsight Compute report on the roofline.",
        epilog="Counters for it: ncu --csv --page raw --print-units base --metrics "
        f"{','.join(request('9.0', 'basic', 'fp32'))} ...",
    )
    parser.add_argument("file", metavar="FILE", help="ncu CSV of any page and version, .ncu-rep, or - for the input")
    parser.add_argument("--json", action="store_true", help="a list with one object per launch; null is not known")
    parser.add_argument("--machine", metavar="NAME", help=f"the card: {', '.join(machine_names())}, or a YAML file")
    parser.add_argument("--by", choices=["launch", "kernel"], default="launch", help="kernel: sum launches of one name")
    parser.add_argument("--kernel", metavar="REGEX", help="only kernels whose name matches")
    parser.add_argument(
        "--half-lanes", type=int, choices=[1, 2], default=2, help="values per half instruction (half2: 2)"
    )
    parser.add_argument("--figure", metavar="OUT", type=Path, help="draw the roofline to OUT.png, OUT.svg and OUT.csv")
    return parser


def read_launches(file: str) -> list[Launch]:
    """The launches of a CSV file, an .ncu-rep report, or the standard input ("-"). Raises BadInputError."""
    if file == "-":
        return read_report(sys.stdin.read(), "standard input")
    path = Path(file)
    return read_rep_file(path) if path.suffix in ENDINGS else read_report_file(path)


def choose_launches(launches: list[Launch], pattern: str | None) -> list[Launch]:
    """Those whose kernel name matches. Raises BadInputError, with the names found, when none does."""
    if pattern is None:
        return launches
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise BadInputError(f"--kernel {pattern!r} is not a regular expression ({error})") from error
    chosen = [launch for launch in launches if wanted.search(launch.kernel)]
    if not chosen:
        raise BadInputError(f"--kernel {pattern!r} matches none of the kernels found: {_names(launches)}")
    return chosen


def place_launches(
    launches: list[Launch], machine: MachineLimits | None = None, *, by_kernel: bool = False, half_lanes: int = 2
) -> list[Placing]:
    """Every launch, or every kernel, under the roofs of ``machine`` or of the report itself.

    Raises BadInputError when no launch has FLOPs, DRAM traffic or a time, saying what was found.
    """
    items = (
        sum_by_kernel(launches, half_lanes) if by_kernel else [from_launch(launch, half_lanes) for launch in launches]
    )
    _check(items, launches)
    placings = []
    for item in items:
        roofs = choose_roofs(item.counts, machine)
        placings.append(Placing(item=item, roofs=roofs, verdict=judge(item.counts, roofs)))
    return placings


def _check(items: list[Item], launches: list[Launch]) -> None:
    """A report of occupancy alone has nothing to place; one whose counters all failed has flags to show."""
    known = [(item.counts.flops, item.counts.dram_bytes, item.counts.time_s) for item in items]
    if any(value is not None for values in known for value in values) or any(item.counts.flags for item in items):
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
        from roofexp.counters.show import show

        show(placings, records)
    if options.figure:
        from roofexp.counters.figure import draw

        for file in draw(placings, records, options.figure):
            print(f"figure   {file}", file=sys.stderr if options.json else sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
