"""Whether a sweep that was measured again gives the same results, point by point, and how that is printed.

Fractions of the roof are compared, which another machine can share; times are compared where there is no fraction, and
on the same machine only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from roofexp.clocks import roofs_of
from roofexp.config.settings import PlacingSettings
from roofexp.placing.roofline import model_traffic, place
from roofexp.records.files import table_bytes
from roofexp.records.machine import Machine, RoofSet
from roofexp.records.point import Point
from roofexp.records.samples import median
from roofexp.text.console import open_console, plain_table
from roofexp.text.numbers import engineering, percent, signed

AgreementVerdict = Literal["agrees", "explained", "differs", "not compared", "failed"]

CAUSES = (  # flags that say why one and the same point may come out differently
    *("noisy", "drifting", "too short", "machine not quiet", "clock moved", "throttled"),
    *("incomplete roof", "clock mismatch"),
)


class Tolerance(msgspec.Struct, frozen=True, kw_only=True):
    """Relative differences: of any one point, and of the median point."""

    point: float = 0.05
    median: float = 0.02


class PointAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """One point, then and now. ``difference`` is new / old - 1 of ``basis``."""

    job: int
    label: str
    basis: Literal["fraction", "time"] | None = None
    old: float | None = None
    new: float | None = None
    difference: float | None = None
    old_time_s: float | None = None
    new_time_s: float | None = None
    time_difference: float | None = None
    old_roof: str | None = None
    new_roof: str | None = None
    verdict: AgreementVerdict
    note: str = ""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """The rows and what they say together. ``median`` is of the sizes of the differences, ``worst`` the largest."""

    rows: list[PointAgreement]
    tolerance: Tolerance
    median: float | None
    worst: float | None

    @property
    def holds(self) -> bool:
        """Whether the sweep was reproduced: something was compared, and nothing differs without a cause."""
        bad = any(row.verdict in ("differs", "failed") for row in self.rows)
        return not bad and self.median is not None and self.median <= self.tolerance.median


class PlacedSweep(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep as it is compared: its points by job, with the roofs and machines that they were placed under."""

    points: dict[int, Point]
    roofs: list[RoofSet]
    machines: dict[str, Machine]
    placing: PlacingSettings


PlacedSweeps = tuple[PlacedSweep, PlacedSweep]


def agreement(old: PlacedSweep, new: PlacedSweep, jobs: Iterable[int], tolerance: Tolerance) -> Agreement:
    """Compares the points of ``jobs``, matched by their numbers."""
    rows = [_row(job, old, new, tolerance) for job in jobs]
    sizes = [abs(row.difference) for row in rows if row.difference is not None]
    return Agreement(
        rows=rows,
        tolerance=tolerance,
        median=median(sizes) if sizes else None,
        worst=max(sizes, default=None),
    )


def _row(job: int, old: PlacedSweep, new: PlacedSweep, tolerance: Tolerance) -> PointAgreement:
    before, after = old.points[job], new.points.get(job)
    label = describe(before)
    verdict: AgreementVerdict = "not compared"
    if before.status != "ok":
        note = f"{before.status} then: {before.reason}"
    elif after is None:
        note = "not measured now"
    elif after.status != "ok":
        verdict = "failed" if after.status == "failed" else verdict
        note = f"{after.status} now: {after.reason}"
    else:
        return _compared(job, label, (before, after), (old, new), tolerance)
    return PointAgreement(job=job, label=label, verdict=verdict, note=note)


def _compared(
    job: int, label: str, pair: tuple[Point, Point], sides: PlacedSweeps, tolerance: Tolerance
) -> PointAgreement:
    fractions, note = _fractions(pair, sides)
    times = (pair[0].time_s, pair[1].time_s)
    same = pair[0].machine_id == pair[1].machine_id
    basis: Literal["fraction", "time"] | None = "fraction" if None not in fractions else "time" if same else None
    old, new = fractions if basis == "fraction" else times if basis == "time" else (None, None)
    difference = relative_difference(old, new)
    roofs = [point.placement.roof if point.placement else None for point in pair]
    if roofs[0] != roofs[1]:
        note = "; ".join(filter(None, [note, f"bound by {roofs[0]} then, {roofs[1]} now"]))
    verdict, cause = _verdict(difference, pair, tolerance)
    return PointAgreement(
        job=job,
        label=label,
        basis=basis,
        old=old,
        new=new,
        difference=difference,
        old_time_s=times[0],
        new_time_s=times[1],
        time_difference=relative_difference(*times) if same else None,
        old_roof=roofs[0],
        new_roof=roofs[1],
        verdict=verdict,
        note="; ".join(filter(None, [cause, note])),
    )


def relative_difference(old: float | None, new: float | None) -> float | None:
    """new / old - 1; None where either is not known."""
    return new / old - 1 if old and new is not None else None


def _verdict(difference: float | None, pair: tuple[Point, Point], tolerance: Tolerance) -> tuple[AgreementVerdict, str]:
    if difference is None:
        return "not compared", "no roof to compare with"
    if abs(difference) <= tolerance.point:
        return "agrees", ""
    then, now = ({flag.name for flag in point.flags} & set(CAUSES) for point in pair)
    when = {name: "then and now" if name in then & now else "then" if name in then else "now" for name in CAUSES}
    causes = [f"{name} {when[name]}" for name in CAUSES if name in then | now]
    return ("explained", ", ".join(causes)) if causes else ("differs", "")


Fractions = tuple[float | None, float | None]


def _fractions(pair: tuple[Point, Point], sides: PlacedSweeps) -> tuple[Fractions, str]:
    """Fractions of the roof on one basis: where only one of the two counted its traffic, both take the formula's."""
    if len({point.traffic.source for point in pair if point.traffic}) < 2:
        return (_fraction(pair[0]), _fraction(pair[1])), ""
    both = (_modelled_fraction(pair[0], sides[0]), _modelled_fraction(pair[1], sides[1]))
    return both, "traffic by the formula on both sides: it was counted on one only"


def _fraction(point: Point) -> float | None:
    return point.placement.fraction if point.placement else None


def _modelled_fraction(point: Point, side: PlacedSweep) -> float | None:
    """The fraction as it would be without counters."""
    roofs, machine = roofs_of(point, side.roofs), side.machines.get(point.machine_id or "")
    if roofs is None or machine is None or point.work is None:
        return None
    traffic = model_traffic(point.work, machine, point.cache_state == "cold")
    placement, _ = place(msgspec.structs.replace(point, traffic=traffic), roofs, side.placing)
    return placement.fraction if placement else None


def describe(point: Point) -> str:
    """The point's label with what else was asked for it."""
    named = {point.kernel, str(point.size), point.precision}
    extra = [word for word in point.overrides if word.split("=", 1)[-1] not in named and not word.startswith("case=")]
    own = [word for word in extra if word.split("=", 1)[0].split(".")[0] in ("kernel", "clock", "cache", "fill")]
    return " ".join([point.label, *own])


def table_csv(rows: Sequence[PointAgreement]) -> bytes:
    """reproduced.csv: one row per point."""
    return table_bytes((msgspec.structs.asdict(row) for row in rows), PointAgreement.__struct_fields__)


COLUMNS = ("point", "of roof then", "now", "difference", "time then", "now", "difference", "verdict")
ROWS = 80  # a longer sweep shows the points that do not agree, and some of the others
WORDS = {"agrees": "agree", "differs": "differ", "explained": "explained by flags"}


def print_agreement(
    result: Agreement, sides: PlacedSweeps, sweeps: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> None:
    print()
    for when, side, sweep in zip(("then", "now"), sides, sweeps, strict=True):
        print(f"{when:<8} {origin(side, sweep)}")
    table = plain_table(COLUMNS, right=COLUMNS[1:-1])
    for row in _shown(result.rows):
        table.add_row(*_agreement_cells(row))
    open_console().print(table)
    for row in result.rows:
        if row.note:
            print(f"  {row.label}: {row.note}")
    print(agreement_line(result))


def origin(side: PlacedSweep, sweep: Mapping[str, Any]) -> str:
    """NVIDIA H200, 2026-11-30, commit 607e62c."""
    ids = dict.fromkeys(point.machine_id for point in side.points.values() if point.machine_id)
    names = [machine.name for key in ids if (machine := side.machines.get(key))]
    commit = str(sweep.get("git_commit") or "unknown")[:7]
    changes = " with uncommitted changes" if sweep.get("git_dirty") else ""
    where = ", ".join(dict.fromkeys(names)) or "unknown machine"
    return f"{where}, {str(sweep.get('started'))[:16]}, commit {commit}{changes}"


def agreement_line(result: Agreement) -> str:
    """The outcome in one line, with the numbers that made it."""
    counts = Counter(row.verdict for row in result.rows)
    outcomes = ", ".join(f"{count} {WORDS.get(verdict, verdict)}" for verdict, count in counts.items())
    if result.median is None or result.worst is None:
        return f"nothing could be compared: {outcomes}"
    limits = f"allowed: {percent(result.tolerance.median)}, {percent(result.tolerance.point)}"
    outcome = "reproduced" if result.holds else "not reproduced"
    sizes = f"median difference {percent(result.median)}, largest {percent(result.worst)}"
    return f"{outcome}: {outcomes}; {sizes} ({limits})"


def _shown(rows: list[PointAgreement]) -> list[PointAgreement]:
    wrong = [row for row in rows if row.verdict != "agrees"]
    return rows if len(rows) <= ROWS else [*wrong, *[row for row in rows if row.verdict == "agrees"]][:ROWS]


def _agreement_cells(row: PointAgreement) -> list[str]:
    shares = [percent(value) if row.basis == "fraction" and value is not None else "" for value in (row.old, row.new)]
    times = ["" if value is None else engineering(value, "s") for value in (row.old_time_s, row.new_time_s)]
    changes = [row.difference if row.basis == "fraction" else None, row.time_difference]
    of_roof, of_time = ("" if change is None else signed(change) for change in changes)
    return [row.label, *shares, of_roof, *times, of_time, row.verdict]
