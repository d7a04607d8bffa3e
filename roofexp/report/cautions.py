"""What a reader must know before believing the page, worst first: it stands at the top of it."""

from __future__ import annotations

import datetime
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from roofexp.records.machine import RoofSet
from roofexp.records.point import Point
from roofexp.records.sweep_folder import commit_names
from roofexp.report.contents import Contents
from roofexp.text.numbers import percent

Level = Literal["wrong", "caution", "note"]
JUNIT = "gate.xml"
LEVELS: tuple[Level, ...] = ("wrong", "caution", "note")
ABOVE_LIMIT = 1.01  # of a roof over its limit: beyond what a clock reading is wrong by
OLD_DAYS = 30  # roofs measured longer before their points than this are pointed out


class CautionEntry(NamedTuple):
    """One message and the points that it holds for; no points: it holds for the sweep."""

    message: str
    points: list[Point]


class Caution(NamedTuple):
    level: Level
    title: str
    entries: list[CautionEntry]
    search: str | None = None  # the word that finds these points in the table

    @property
    def points(self) -> int:
        return sum(len(entry.points) for entry in self.entries)


def cautions(contents: Contents) -> list[Caution]:
    """All of them, grouped by kind, the worst level first."""
    every = [
        *_outcomes(contents.points),
        *_sweep(contents),
        *_gate(contents),
        *_unexpected(contents.points),
        *_flags(contents.points),
        *_counters(contents.points),
        *_traffic(contents.points),
        *_clocks(contents.points),
        *_unplaced(contents),
        *(caution for roofs in contents.roofs for caution in _roofs(roofs, contents)),
        *_source(contents),
    ]
    return sorted(every, key=lambda caution: LEVELS.index(caution.level))


def _outcomes(points: list[Point]) -> Iterator[Caution]:
    """Failed and skipped points, each kind of reason once."""
    for status, level in (("failed", "wrong"), ("skipped", "caution")):
        kinds: dict[str, list[Point]] = {}
        for point in points:
            if point.status == status:
                kinds.setdefault(point.reason_kind or "", []).append(point)
        for kind, group in kinds.items():
            title = f"{status}: {kind}" if kind else status
            entries = by_message((point.reason or "no reason is recorded", point) for point in group)
            yield Caution(level, title, entries, status)  # type: ignore[arg-type]


def _sweep(contents: Contents) -> Iterator[Caution]:
    sweep = contents.sweep
    states = ", ".join(commit_names(sweep))
    yield from _of_sweep("wrong", "files that could not be read", contents.problems)
    if str(sweep.get("status", "")).upper() == "KILLED" or (sweep.get("started") and not sweep.get("finished")):
        message = "the sweep was stopped; the page shows the points measured until then; continue it with resume="
        yield from _of_sweep("caution", "sweep not finished", [message])
    if sweep.get("git_dirty"):
        yield from _of_sweep("caution", "uncommitted changes", [f"commit them and measure again: {states}"])
    elif not sweep.get("git_commit"):
        message = "the sweep does not record which version of the code measured it"
        yield from _of_sweep("note", "git commit unknown", [message])
    if len(sweep.get("commits") or []) > 1:
        yield from _of_sweep("note", "several commits", [f"the sweep was resumed with other code: {states}"])


def _gate(contents: Contents) -> Iterator[Caution]:
    """Rules that the sweep had to keep and did not, from the JUnit file that the gate left."""
    file = contents.folder / JUNIT
    try:
        failures = ElementTree.parse(file).getroot().iter("failure") if file.is_file() else ()
        messages = [(failure.text or failure.get("message") or "").strip() for failure in failures]
    except (ElementTree.ParseError, OSError) as error:
        messages = [f"{file.name} cannot be read: {error}"]
    yield from _of_sweep("wrong", "gate broken", messages)


def _unexpected(points: list[Point]) -> Iterator[Caution]:
    """Planted faults and their healthy twins that got another verdict than theirs."""
    messages = [
        (f"{point.expect} expected, {point.diagnosis.verdict.name} found", point)
        for point in points
        if point.diagnosis and point.as_expected is False
    ]
    if messages:
        yield Caution("caution", "not the verdict expected", by_message(messages))


def _flags(points: list[Point]) -> Iterator[Caution]:
    kinds: dict[str, list[tuple[str, Point]]] = {}
    for point in points:
        for flag in dict.fromkeys([*point.flags, *(point.counted.flags if point.counted else [])]):
            kinds.setdefault(flag.name, []).append((flag.message, point))
    for name, messages in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        yield Caution("caution", name, by_message(messages), name)


def _counters(points: list[Point]) -> Iterator[Caution]:
    without = [(p.counted.unavailable, p) for p in points if p.counted and p.counted.unavailable]
    if without:
        yield Caution("caution", "counters unavailable", by_message(without), "counters unavailable")


def _traffic(points: list[Point]) -> Iterator[Caution]:
    modelled = [point for point in points if point.traffic and point.traffic.source == "modelled"]
    if modelled:
        why = "the bytes come from the formula of the kernel and were not counted, so the intensity is an upper bound"
        yield Caution("note", "traffic modelled", [CautionEntry(why, modelled)], "modelled")


def _clocks(points: list[Point]) -> Iterator[Caution]:
    unknown = [point for point in points if point.timing and point.compute_hz is None]
    messages = ((p.clock.source if p.clock else "the clock was not read", p) for p in unknown)
    if unknown:
        yield Caution("caution", "clock unknown", by_message(messages), "clock unknown")


def _unplaced(contents: Contents) -> Iterator[Caution]:
    """Points without a verdict that no flag explains."""
    unplaced = [p for p in contents.points if p.timing and p.placement is None and not p.flags]
    if unplaced:
        why = "no roofs belong to this sweep" if not contents.roofs else "the points were measured without roofs"
        entry = CautionEntry(f"{why}, so there is no fraction and no verdict", unplaced)
        yield Caution("caution", "not placed", [entry], "not placed")


def _roofs(roofs: RoofSet, contents: Contents) -> Iterator[Caution]:
    where = f" ({roofs.machine.name}, {roofs.clock_mode})" if len(contents.roofs) > 1 else ""
    if roofs.disturbed:
        message = "other programs or a quota disturbed them, so they may be too low; measure again with roofs=measure"
        yield from _of_sweep("caution", f"roofs disturbed{where}", [message])
    incomplete = [f"{roof.name}: {roof.incomplete}" for roof in roofs.roofs if roof.incomplete]
    yield from _of_sweep("caution", f"roofs incomplete{where}: only lower bounds", incomplete)
    failed = [
        f"{roof.name}: check of {check.name} failed{f', {check.message}' if check.message else ''}"
        for roof in roofs.roofs
        for check in roof.checks
        if not check.passed
    ]
    yield from _of_sweep("caution", f"roofs that failed a check{where}", failed)
    above = [
        f"{roof.name}: measured at {percent(roof.rate / roof.limit)} of the limit"
        for roof in roofs.roofs
        if roof.limit and roof.kind != "launch" and roof.rate > ABOVE_LIMIT * roof.limit
    ]
    yield from _of_sweep("wrong", f"roofs above their limit{where}", above)
    unavailable = [f"{name}: {reason}" for name, reason in roofs.unavailable.items()]
    yield from _of_sweep("note", f"roofs that could not be measured{where}", unavailable)
    days = _days_between(roofs.measured, str(contents.sweep.get("started") or ""))
    if days is not None and days > OLD_DAYS:
        message = f"measured on {roofs.measured[:10]}, {days} days before the points; measure again with roofs=measure"
        yield from _of_sweep("note", f"roofs are old{where}", [message])


def _source(contents: Contents) -> Iterator[Caution]:
    if contents.source == "table":
        message = "the page was made from points.csv, which has no shapes, checks, messages of flags and raw samples"
        yield from _of_sweep("note", "records not at hand", [message])


def by_message(messages: Iterable[tuple[str, Point]]) -> list[CautionEntry]:
    """Each message once, with all its points; the message of most points first."""
    points_by_message: dict[str, list[Point]] = {}
    for message, point in messages:
        points_by_message.setdefault(message, []).append(point)
    entries = [CautionEntry(message, points) for message, points in points_by_message.items()]
    return sorted(entries, key=lambda entry: -len(entry.points))


def _of_sweep(level: Level, title: str, messages: list[str]) -> Iterator[Caution]:
    """One that holds for the sweep and not for single points; none without a message."""
    if messages:
        yield Caution(level, title, [CautionEntry(message, []) for message in messages])


def _days_between(first: str, then: str) -> int | None:
    try:
        start, end = (datetime.datetime.fromisoformat(text) for text in (first, then))
        return (end.replace(tzinfo=None) - start.replace(tzinfo=None)).days
    except ValueError:
        return None
