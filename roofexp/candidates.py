"""The points of a sweep that hardware counters are wanted for, rebuilt from their folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from roofexp.counters.join import join_failure
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel, build_kernel
from roofexp.point import Point, read_point, write_point
from roofexp.roofline import PlacingSettings
from roofexp.stored import stored_config


class CountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The ``counters`` group of the configuration; see conf/counters/basic.yaml."""

    level: str
    phase: str = "sweep"
    ncu: str | None = None
    metrics: list[str] | None = None
    cache_control: str = "auto"
    replay_mode: str = "kernel"
    timeout_s: float = 120.0
    keep_reports: bool = False

    @property
    def level_asked(self) -> str | None:
        """The catalogue's level; None where metrics are named instead."""
        return None if self.metrics else {"auto": "basic"}.get(self.level, self.level)


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which points to count, and how. ``override`` replaces keys of their own ``counters`` group; ``default`` is the
    level of those that were timed without; ``phase`` leaves out points of the other phase, ``again`` none."""

    override: dict[str, Any] = {}
    default: str = "none"
    phase: str | None = None
    again: bool = False

    def settings(self, stored: dict[str, Any]) -> CountSettings | None:
        """None where no counters are wished. Raises msgspec.ValidationError."""
        settings = msgspec.convert({**stored, **self.override}, CountSettings)
        if settings.level == "none":
            settings = msgspec.structs.replace(settings, level=self.default)
        other_phase = self.phase is not None and settings.phase != self.phase
        return None if settings.level == "none" or other_phase else settings


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A point to be counted, rebuilt from its folder."""

    folder: Path
    point: Point
    kernel: Kernel
    settings: CountSettings
    placing: PlacingSettings
    device: str  # cuda or cuda:<index>

    @property
    def session(self) -> tuple[str, str, str, str | None, bytes]:
        """Points that agree in this share a session of ncu."""
        settings = msgspec.json.encode(self.settings)
        return self.device, self.point.clock_mode, self.point.cache_state, self.point.machine_id, settings

    @property
    def half_lanes(self) -> int:
        code = self.kernel.implementations.get("cuda") if self.point.implementation == "cuda" else None
        return int((code or {}).get("half_lanes") or 2)


def gpu_points(folders: Iterable[Path]) -> list[tuple[Path, Point]]:
    """Points that a GPU measured, in job order."""
    found = []
    for folder in folders:
        try:
            point = read_point(folder / "point.json")
        except (ValueError, OSError):
            continue
        if point.device == "cuda" and point.status == "ok" and point.implementation:
            found.append((folder, point))
    return sorted(found, key=lambda pair: pair[1].job)


def candidate_of(folder: Path, point: Point, wish: Wish) -> Candidate | None:
    """None for a point that wants no counters or has them; one that cannot be rebuilt is marked."""
    settings = None
    try:
        config = stored_config(folder)
        settings = wish.settings(config["counters"])
        if settings is None or (_has(point, settings) and not wish.again):
            return None
        kernel = build_kernel(config["kernel"], config["precision"], config["size"], config["fill"])
        placing = PlacingSettings(**config["placing"])
    except (BadInputError, KeyError, TypeError, msgspec.ValidationError) as error:
        level = settings.level_asked if settings else None
        write_point(folder, join_failure(point, f"its stored configuration cannot be used: {error}", level, "refused"))
        return None
    device = str(config["device"])
    return Candidate(
        folder=folder,
        point=point,
        kernel=kernel,
        settings=settings,
        placing=placing,
        device=device if device.startswith("cuda") else "cuda",
    )


def _has(point: Point, settings: CountSettings) -> bool:
    counted = point.counted
    return counted is not None and counted.unavailable is None and counted.level == settings.level_asked
