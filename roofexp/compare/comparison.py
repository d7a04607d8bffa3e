"""The comparison of two sweeps: every pair judged, what has no partner, and what else differs between the two."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from roofexp.compare.difference import CHANGED, DISTURBED, Difference, Thresholds, differences
from roofexp.compare.matching import Pair, Side, key_of, match
from roofexp.compare.significance import Estimate, repeatability
from roofexp.errors import BadInputError
from roofexp.records.files import table_bytes, write_atomically
from roofexp.records.point import Point
from roofexp.text.numbers import engineering, percent, signed

LIBRARIES_THAT_MEASURE = ("roofexp", "python", "numpy", "numba", "cupy-cuda12x", "cupy-cuda13x", "torch")
ROOF_MOVED = 0.01
TOGETHER = 4  # points from which a common direction says something


class Unmatched(msgspec.Struct, frozen=True, kw_only=True):
    """A point of one sweep alone; ``reason``: why it has no time, where that is so."""

    label: str
    job: int
    reason: str | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """B against A. ``floor`` is what was tested against at least; a point's own may be larger."""

    version: int = 1
    a: str
    b: str
    a_commit: str | None
    b_commit: str | None
    machines: list[str]
    across: list[str]
    level: float
    floor: float
    measured_floor: float | None
    tests: int
    differences: list[Difference]
    only_a: list[Unmatched]
    only_b: list[Unmatched]
    notes: list[str]

    @property
    def changed(self) -> list[Difference]:
        """The largest change first."""
        return sorted(self.with_verdict(*CHANGED), key=_log_change)

    def with_verdict(self, *verdicts: str) -> list[Difference]:
        return [difference for difference in self.differences if difference.verdict in verdicts]


def _log_change(difference: Difference) -> float:
    ratio = difference.time_ratio if difference.significant else difference.cycles_ratio or 1.0
    return -abs(math.log(ratio))


def compare(
    a: Side, b: Side, settings: Thresholds, across: Sequence[str] = (), repeats: Iterable[Side] = ()
) -> Comparison:
    """``repeats``: further sweeps of the same thing as A, from which the run-to-run floor is measured.

    Raises BadInputError where nothing is comparable.
    """
    matching = match(a.points, b.points, across, itself=a.folder.resolve() == b.folder.resolve())
    measured = repeatability(_runs([a, *repeats], matching.pairs) + _runs([b], matching.pairs))
    settings = msgspec.structs.replace(settings, measured_floor=measured)
    compared = differences(matching.pairs, a, b, settings, across)
    return Comparison(
        a=a.name,
        b=b.name,
        a_commit=_commit(a),
        b_commit=_commit(b),
        machines=_machines(matching.pairs, a, b),
        across=list(across),
        level=settings.level,
        floor=settings.least_floor,
        measured_floor=measured,
        tests=len(compared) + sum(difference.cycles_ratio is not None for difference in compared),
        differences=compared,
        only_a=[_unmatched(point) for point in matching.only_a],
        only_b=[_unmatched(point) for point in matching.only_b],
        notes=_notes(compared, matching.pairs, a, b, matching.hint, settings.least_floor),
    )


def _runs(sides: Sequence[Side], pairs: Sequence[Pair]) -> list[list[Estimate]]:
    """The runs of each thing that was measured more than once, on one machine in one state."""
    keys = {key_of(point) for pair in pairs for point in (*pair.a, *pair.b)}
    runs: dict[tuple[str, ...], list[Estimate]] = {}
    for side in sides:
        for point in side.points:
            if point.status == "ok" and point.timing and key_of(point) in keys:
                runs.setdefault(key_of(point), []).append(side.estimate(point))
    return [estimates for estimates in runs.values() if len(estimates) > 1]


def _commit(side: Side) -> str | None:
    commit = side.description.get("git_commit")
    return f"{commit}{'-dirty' if side.description.get('git_dirty') else ''}" if commit else None


def _machines(pairs: Sequence[Pair], a: Side, b: Side) -> list[str]:
    names = [side.machine_name(point) for pair in pairs for side, point in ((a, pair.a[0]), (b, pair.b[0]))]
    return list(dict.fromkeys(names))


def _unmatched(point: Point) -> Unmatched:
    reason = None if point.status == "ok" else f"{point.status}: {point.reason or 'no reason is recorded'}"
    return Unmatched(label=point.label, job=point.job, reason=reason)


def _notes(
    compared: Sequence[Difference], pairs: Sequence[Pair], a: Side, b: Side, hint: str | None, floor: float
) -> list[str]:
    """What a reader must know before believing the table."""
    notes = [*_other_versions(a, b), *_moved_roofs(pairs, a, b), *_together(compared, floor), *_disturbed(compared)]
    return [*notes, hint] if hint else notes


def _other_versions(a: Side, b: Side) -> list[str]:
    old, new = (side.description.get("versions") or {} for side in (a, b))
    changed = [
        f"{name} {old[name]} → {new[name]}"
        for name in LIBRARIES_THAT_MEASURE
        if name in old and name in new and old[name] != new[name]
    ]
    return [f"other versions: {', '.join(changed)}"] if changed else []


def _moved_roofs(pairs: Sequence[Pair], a: Side, b: Side) -> list[str]:
    """Fractions are of each run's own roofs: where those differ, a fraction may change and the kernel not."""
    moved: dict[str, str] = {}
    for pair in pairs:
        old, new = a.roofs_of(pair.a[0]), b.roofs_of(pair.b[0])
        for roof in old.roofs if old and new and old.machine.machine_id == new.machine.machine_id else []:
            other = next((candidate for candidate in new.roofs if candidate.name == roof.name), None) if new else None
            if other is None or roof.kind == "launch" or abs(other.at(roof.compute_hz) / roof.rate - 1) < ROOF_MOVED:
                continue
            unit = "FLOP/s" if roof.kind == "compute" else "B/s"
            rates = [engineering(rate, unit) for rate in (roof.rate, other.at(roof.compute_hz))]
            moved[roof.name] = f"{roof.name} {rates[0]} → {rates[1]}"
    return [f"fractions are of each run's own roofs, and these moved: {', '.join(moved.values())}"] if moved else []


def _together(compared: Sequence[Difference], floor: float) -> list[str]:
    """A change of every kernel at once is more often the machine than the code."""
    ratios = sorted(difference.time_ratio for difference in compared)
    least = 1 + floor
    one_way = max(sum(ratio > least for ratio in ratios), sum(ratio < 1 / least for ratio in ratios))
    if len(compared) < TOGETHER or one_way < 0.75 * len(compared):
        return []
    middle = signed(ratios[len(ratios) // 2] - 1)
    return [
        f"{one_way} of {len(compared)} points moved the same way (median {middle}): "
        "look at the machine (clock, power, other programs, driver) before the code"
    ]


def _disturbed(compared: Sequence[Difference]) -> list[str]:
    signs = (*DISTURBED, "clock moved", "throttled")
    marked = [pair for pair in compared if any(flag.startswith(signs) for flag in (*pair.a.flags, *pair.b.flags))]
    if not marked:
        return []
    share = percent(len(marked) / len(compared))
    return [
        f"{len(marked)} of {len(compared)} points ({share}) were disturbed while they were measured (marked !): "
        "measure again on a quiet machine, or give --repeats"
    ]


def json_bytes(comparison: Comparison) -> bytes:
    return msgspec.json.format(msgspec.json.encode(comparison), indent=2) + b"\n"


def csv_bytes(comparison: Comparison) -> bytes:
    return table_bytes(row_of(difference) for difference in comparison.differences)


COLUMNS = (
    *("kernel", "size", "precision", "label", "verdict", "time_ratio", "low", "high", "floor", "p_value"),
    *("significant", "rate_ratio", "intensity_ratio", "fraction_change", "cycles_ratio", "cycles_p_value", "message"),
)
COLUMN_OF = {"low": "time_ratio_low", "high": "time_ratio_high"}


def row_of(difference: Difference) -> dict[str, Any]:
    """Flat, with the unit in every name; what is unknown is None."""
    row: dict[str, Any] = {COLUMN_OF.get(name, name): getattr(difference, name) for name in COLUMNS}
    for name, values in (("a", difference.a), ("b", difference.b)):
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
