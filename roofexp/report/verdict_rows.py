"""The verdict table: a row for every point, and the summary of each kernel and precision."""

from __future__ import annotations

from collections import Counter

import msgspec

from roofexp.records.point import Cause, Point
from roofexp.report.contents import Contents, Link, Links
from roofexp.report.point_details import DetailGroup, details
from roofexp.text.numbers import percent

KINDS = {  # of a bound, for its colour; the word itself always stands beside it
    "on the bandwidth roof": "on",
    "on the compute roof": "on",
    "bandwidth-bound": "below",
    "compute-bound": "below",
    "latency-bound": "far",
    "above a roof": "above",
}


class PointRow(msgspec.Struct, frozen=True, kw_only=True):
    """One point as the table shows it. Numbers in SI; the template gives them units. ``search`` is extra text to find
    the row by, ``verdict`` the short name of what holds the point back, where rules have named it."""

    anchor: str
    point: Point
    half_width: float | None  # of the 95 % interval of the median, relative
    rate: float | None
    rate_unit: str
    intensity: float | None
    fraction: float | None
    bound: str
    kind: str
    verdict: str
    message: str
    next_move: str
    causes: list[Cause]  # the verdict's own evidence first, then what else was found
    basis: str
    search: str
    groups: list[DetailGroup]
    files: list[Link]


def verdict_rows(contents: Contents, links: Links) -> list[PointRow]:
    return [_row(point, contents, links) for point in contents.points]


def anchor(point: Point) -> str:
    return f"p{point.job}"


def _row(point: Point, contents: Contents, links: Links) -> PointRow:
    place, diagnosis, timing = point.placement, point.diagnosis, point.timing
    rate, unit = (point.flops_per_s, "FLOP/s") if point.flops_per_s else (point.bytes_per_s, "B/s")
    bound = place.bound if place else "" if point.status == "ok" else point.status
    return PointRow(
        anchor=anchor(point),
        point=point,
        half_width=(timing.high_s - timing.low_s) / 2 / timing.median_s if timing and timing.median_s else None,
        rate=rate,
        rate_unit=unit,
        intensity=place.intensity_flop_per_byte if place and point.flops_per_s else None,
        fraction=place.fraction if place else None,
        bound=bound,
        kind=KINDS.get(bound, bound),
        verdict=diagnosis.verdict.name if diagnosis else "",
        message=_message(point),
        next_move=diagnosis.verdict.next_move if diagnosis else place.next_move if place else "",
        causes=[diagnosis.verdict, *diagnosis.others] if diagnosis else [],
        basis=diagnosis.basis if diagnosis else "",
        search=_search(point),
        groups=details(point),
        files=links.of_point(point.job),
    )


def _message(point: Point) -> str:
    if point.status != "ok":
        return ": ".join(filter(None, [point.reason_kind, point.reason or "no reason is recorded"]))
    if point.diagnosis:
        verdict = point.diagnosis.verdict
        return verdict.message.removeprefix(verdict.name).lstrip(" :")  # the name stands before it
    return point.placement.cause if point.placement else "not placed"


def _search(point: Point) -> str:
    """Words of the warnings, so that a click on one finds its points."""
    words: list[str] = [point.status]
    words += [point.traffic.source] if point.traffic else []
    words += [flag.name for flag in point.counted.flags] if point.counted else []
    words += ["counters unavailable"] if point.counted and point.counted.unavailable else []
    words += ["clock unknown"] if point.timing and not point.compute_hz else []
    words += ["not placed"] if point.timing and point.placement is None else []
    return " ".join(words)


class KernelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All points of one kernel in one precision: how many ended how, and where they lie."""

    kernel: str
    precision: str
    rows: list[PointRow]

    @property
    def outcomes(self) -> list[tuple[str, str, int]]:
        """Bound (or status), its kind, and how many points."""
        numbers = Counter((row.bound or "not placed", row.kind) for row in self.rows)
        return [(bound, kind, number) for (bound, kind), number in numbers.most_common()]

    @property
    def placed(self) -> list[PointRow]:
        """From the lowest fraction to the highest."""
        return sorted((row for row in self.rows if row.fraction is not None), key=lambda row: row.fraction or 0.0)

    @property
    def span(self) -> str:
        fractions = [row.fraction or 0.0 for row in self.placed]
        if not fractions:
            return ""
        ends = fractions[0], fractions[len(fractions) // 2], fractions[-1]
        return " – ".join(dict.fromkeys(percent(value) for value in ends))


def series_of(rows: list[PointRow]) -> list[KernelSummary]:
    """In order of first appearance."""
    groups: dict[tuple[str, str], list[PointRow]] = {}
    for row in rows:
        groups.setdefault((row.point.kernel, row.point.precision), []).append(row)
    return [KernelSummary(kernel=kernel, precision=precision, rows=own) for (kernel, precision), own in groups.items()]


WIDTH, HEIGHT, END = 160, 14, 1.1  # in pixels; END is the fraction at the right edge


def strip(rows: list[PointRow]) -> str:
    """An SVG with a tick for every placed point, a path for each colour; points beyond END stand at the edge."""
    paths: dict[str, list[str]] = {}
    for row in rows:
        if row.fraction is not None:
            x = WIDTH * min(max(row.fraction, 0.0), END) / END
            paths.setdefault(row.kind, []).append(f"M{x:.1f} 2v{HEIGHT - 4}")
    ticks = "".join(f'<path class="tick {kind}" d="{"".join(moves)}"/>' for kind, moves in paths.items())
    one = WIDTH / END
    frame = f'<path class="rule" d="M0 {HEIGHT - 0.5}H{WIDTH}M{one:.1f} 0V{HEIGHT}"/>'
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg class="strip" {size} aria-hidden="true">{frame}{ticks}</svg>'
