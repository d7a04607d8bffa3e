"""Clock modes: what each asks of a device's clocks, and the roofs that belong to it.

The modules beside this one change clocks, and only for clock=base, clock=boost and clock=locked, or to undo what an
earlier run left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from roofexp.errors import BadInputError
from roofexp.records.machine import RoofSet
from roofexp.records.point import Point

NOTHING_SET = "observe"  # the roofs of a device whose clocks nobody holds
HELD = ("base", "boost", "locked")  # modes that change the device's clocks while points are timed
CLOCK_NAMES = {"base": "base clock", "boost": "boost clock"}


def asked_for(clock: Mapping[str, Any]) -> str | None:
    """What the ``clock`` group of the configuration asks for; None: nothing."""
    mode = clock.get("mode")
    if mode == "duty":
        return f"duty {float(clock['duty']):g}" if clock.get("duty") is not None else "duty"
    if mode == "locked":
        return f"{clock['mhz']} MHz locked" if clock.get("mhz") is not None else "locked"
    return CLOCK_NAMES.get(str(mode))


def check_clock(clock: Mapping[str, Any]) -> None:
    """Raises BadInputError for a mode without the value that it needs, or with one that makes no sense."""
    mode, duty, mhz = clock.get("mode"), clock.get("duty"), clock.get("mhz")
    if mode == "locked" and (mhz is None or int(mhz) <= 0):
        raise BadInputError(f"clock.mhz={_shown(mhz)}: clock=locked needs a clock in MHz, e.g. clock.mhz=1200")
    if mode == "duty" and (duty is None or not 0 < float(duty) <= 1):
        raise BadInputError(f"clock.duty={_shown(duty)}: the share of the time to work, above 0 and at most 1")
    period_s, sample_s = clock.get("period_s", 0.2), clock.get("sample_s", 0.02)
    if mode == "duty" and not 0.01 <= float(period_s) <= 60:
        raise BadInputError(f"clock.period_s={period_s:g}: one batch and its pause, 0.01 to 60 s")
    if not 0.001 <= float(sample_s) <= 10:
        raise BadInputError(f"clock.sample_s={sample_s:g}: between two readings beside the timing, 0.001 to 10 s")


def roofs_mode(clock_mode: str, asked: str | None) -> str:
    """The clock mode whose roofs a point is compared with.

    Compute roofs are kept per cycle and redrawn at the clock that the point held, so pauses need none of their own.
    A locked clock does: caches and memory may follow it in another way, so each MHz has a set.
    """
    if clock_mode == "duty":
        return NOTHING_SET
    return f"locked_{asked.split()[0]}MHz" if clock_mode == "locked" and asked and asked[0].isdigit() else clock_mode


def find_roofs(sets: Iterable[RoofSet], machine_id: str | None, clock_mode: str, asked: str | None) -> RoofSet | None:
    """The roofs of a point among those of its sweep: of its clock mode, else (a lock was refused) those of a device
    that nobody held, else any of its machine."""
    mode = roofs_mode(clock_mode, asked)
    own = [roofs for roofs in sets if roofs.machine.machine_id == machine_id]
    return max(own, key=lambda roofs: (roofs.clock_mode == mode, roofs.clock_mode == NOTHING_SET), default=None)


def roofs_of(point: Point, sets: Iterable[RoofSet]) -> RoofSet | None:
    """As ``find_roofs``."""
    return find_roofs(sets, point.machine_id, point.clock_mode, point.clock_asked)


def _shown(value: Any) -> str:
    return "null" if value is None else f"{value:g}"
