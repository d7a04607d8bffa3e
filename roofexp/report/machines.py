"""The page's tables of roofs, clocks and machines, and what it takes to repeat the sweep."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from roofexp.records.clock_readings import mean_power_w
from roofexp.records.machine import Machine, Roof, RoofCheck, RoofSet
from roofexp.records.point import Point
from roofexp.records.samples import median
from roofexp.records.sweep_folder import JUDGED_WITH, commit_names
from roofexp.report.contents import Contents
from roofexp.report.point_details import Detail, quantity
from roofexp.text.numbers import engineering, percent, plain, signed, span

Entries = dict[str, Any]  # what a template shows, by the names that it uses


def repetition(contents: Contents) -> Entries:
    """What it takes to repeat the sweep; texts that are not recorded are ""."""
    sweep = contents.sweep
    versions = sweep.get("versions")
    return {
        "command": command_of(sweep),
        "commit": str(sweep.get("git_commit") or ""),
        "dirty": sweep.get("git_dirty"),
        "commits": commit_names(sweep),  # every state of the code that measured points
        "started": moment(str(sweep.get("started") or "")),
        "finished": moment(str(sweep.get("finished") or "")),
        "versions": versions if isinstance(versions, dict) else {},
        "config": yaml.safe_dump(contents.config, sort_keys=False, allow_unicode=True) if contents.config else "",
        "config_job": contents.config_job,
        "judged_with": sweep.get(JUDGED_WITH) or {},  # thresholds and rules that are not those of the configuration
        "varies": _varying(contents),  # overrides that differ between points, with their values
    }


def moment(stamp: str) -> str:
    """An ISO 8601 time in UTC as a person reads it; any other text as it is."""
    day, separator, clock = stamp.partition("T")
    return f"{day} {clock[:8]} UTC" if separator and clock.endswith("+00:00") else stamp


def command_of(sweep: dict[str, Any]) -> str:
    """As it must be typed: a word with brackets or spaces in it is quoted."""
    words = sweep.get("arguments")
    if not isinstance(words, list):
        return str(sweep.get("command") or "")
    mode = [] if sweep.get("plain_run") or any(str(w).startswith("experiment=") for w in words) else ["-m"]
    return shlex.join(["python", "-m", "roofexp", *map(str, words), *mode]) if words or sweep.get("command") else ""


def _varying(contents: Contents) -> list[tuple[str, list[str]]]:
    values: dict[str, dict[str, None]] = {}
    for point in contents.points:
        for key, separator, value in (override.partition("=") for override in point.overrides):
            if separator:
                values.setdefault(key.lstrip("+"), {})[value] = None
    return [(key, list(texts)) for key, texts in values.items() if len(texts) > 1]


RATE_UNITS = {"compute": "FLOP/s", "bandwidth": "B/s", "launch": "s"}


def roof_table(roofs: RoofSet) -> Entries:
    """Each roof with its ceilings under it, the highest first; ceilings of a roof that is not there at the end."""
    tops = [roof for roof in roofs.roofs if roof.ceiling_of is None]
    ordered: list[Roof] = []
    for roof in tops:
        ordered += [roof, *sorted(roofs.ceilings(roof.name), key=lambda ceiling: -ceiling.rate)]
    ordered += [roof for roof in roofs.roofs if roof not in ordered]
    seconds = f", in {engineering(roofs.seconds, 's')}" if roofs.seconds else ""
    measured = f"Measured {moment(roofs.measured)}{seconds}"
    return {
        "title": f"{roofs.machine.name}, clock mode {roofs.clock_mode}",
        "measured": measured if roofs.measured else "Computed from what the hardware is, not measured",
        "rows": [_row(roof, roofs.bandwidth("dram")) for roof in ordered],
    }


def _row(roof: Roof, dram: Roof | None) -> Entries:
    """Texts carry their units; "" is not known. ``note`` says what a reader must know of the roof."""
    unit = RATE_UNITS[roof.kind]
    has_ridge = roof.kind == "compute" and roof.ceiling_of is None
    notes = [f"only a lower bound: {roof.incomplete}"] if roof.incomplete else []
    return {
        "name": roof.name,
        "ceiling": roof.ceiling_of is not None,
        "rate": engineering(roof.rate, unit, 4),
        "clock": engineering(roof.compute_hz, "Hz", 4) if roof.compute_hz else "",
        "per_cycle": plain(roof.per_cycle, 4) if roof.per_cycle else "",
        "limit": engineering(roof.limit, unit, 4) if roof.limit else "",
        "limit_share": percent(roof.rate / roof.limit) if roof.limit else "",
        "sheet": engineering(roof.sheet, unit, 4) if roof.sheet else "",
        "sheet_share": percent(roof.rate / roof.sheet) if roof.sheet else "",
        "sustained": _sustained(roof),
        "ridge": f"{plain(roof.rate / dram.rate)} FLOP/B" if has_ridge and dram else "",
        "cause": roof.cause or "",
        "note": "; ".join([*notes, *roof.flags]),
        "checks": roof.checks,
        "mixes": [(name, engineering(rate, unit, 4)) for name, rate in roof.mixes.items()],
    }


def _sustained(roof: Roof) -> str:
    rest = roof.sustained
    if rest is None:
        return ""
    parts = [
        f"{engineering(rest.rate, RATE_UNITS[roof.kind], 4)} ({percent(rest.rate / roof.rate)})",
        engineering(rest.compute_hz, "Hz", 4) if rest.compute_hz else "",
        engineering(rest.power_w, "W") if rest.power_w else "",
        f"after {engineering(rest.seconds, 's')}" if rest.seconds else "",
        "" if rest.settled else "not settled",
        rest.event_reasons if rest.event_reasons != "none" else "",
    ]
    return ", ".join(filter(None, parts))


def check_text(check: RoofCheck) -> str:
    """What was compared: expected and found, where numbers were."""
    numbers = [
        f"{word} {plain(value, 4) if 1e-3 < abs(value) < 1e5 else engineering(value, digits=4)}"
        for word, value in (("expected", check.expected), ("found", check.found))
        if value is not None
    ]
    return "; ".join(filter(None, [check.message, ", ".join(numbers)]))


def machine_details(machine: Machine) -> Iterator[Detail]:
    """Everything that was read of it; what could not be read is named as unknown."""
    yield "machine id", machine.machine_id
    if machine.units:
        yield ("SMs" if machine.device == "cuda" else "cores in use"), str(machine.units)
    if machine.nominal_hz:
        yield "nominal clock", engineering(machine.nominal_hz, "Hz", 4)
    if machine.memory_bytes:
        yield "memory", engineering(machine.memory_bytes, "B", 4)
    for level, size in machine.cache_bytes.items():
        kept = ", survives a launch" if level in machine.kept_levels else ""
        yield f"{level.upper()} cache", f"{engineering(size, 'B', 4)}{kept}"
    for name, value in machine.details.items():
        if value is not None:
            yield quantity(name, value)
    for name, limit in machine.limits.items():
        yield _limit(name, limit, "SM" if machine.device == "cuda" else "core")
    if machine.unknown:
        yield "unknown", "; ".join(machine.unknown)


def _limit(name: str, limit: float, unit: str) -> Detail:
    if name.startswith("flop_per_cycle_"):
        precision = name.removeprefix("flop_per_cycle_").replace("_", " ")
        return f"limit, {precision}", f"{limit:g} FLOP per {unit} and cycle"
    if name.endswith("_bytes_per_cycle"):
        return f"limit, {name.removesuffix('_bytes_per_cycle').upper()}", f"{limit:g} B per {unit} and cycle"
    if name.endswith("_bytes_per_s"):
        return f"limit, {name.removesuffix('_bytes_per_s').upper()}", engineering(limit, "B/s", 4)
    return quantity(f"limit, {name}", limit)


def clock_table(contents: Contents) -> list[Entries]:
    """One row for each machine, clock mode and clock asked for."""
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in contents.points:
        if point.clock is not None:
            groups.setdefault((point.machine_id or "", point.clock_mode, point.clock.asked or ""), []).append(point)
    return [
        {"machine": contents.machine_name(machine), "mode": mode, "asked": asked, **_clocks(points)}
        for (machine, mode, asked), points in groups.items()
    ]


def _clocks(points: list[Point]) -> Entries:
    """Of points that were asked for one clock. Every text carries its unit; "" is not known."""
    held = [hz for point in points if (hz := point.compute_hz)]
    return {
        "points": len(points),
        "held": _range(held, "Hz"),
        "held_median_hz": median(held) if held else None,
        "nvml": _range(_readings(points, "nvml_sm_hz"), "Hz"),
        "apart": _apart(points),
        "memory": _range(_readings(points, "nvml_memory_hz"), "Hz"),
        "power": _range((watts for p in points if p.clock and (watts := mean_power_w(p.clock.readings))), "W"),
        "temperature": _range(_readings(points, "temperature_c"), "°C"),
        "reasons": _reasons(points),
        "sources": ", ".join(dict.fromkeys(p.clock.source for p in points if p.clock)),
    }


def _apart(points: list[Point]) -> str:
    """How far NVML's clock was from the one held, at most either way: the median point and the farthest."""
    shares = [
        nvml_hz / point.clock.compute_hz - 1
        for point in points
        if point.clock and point.clock.compute_hz and (nvml_hz := point.clock.readings.nvml_sm_hz)
    ]
    if not shares:
        return ""
    farthest = max(shares, key=abs)
    return f"{signed(median(shares))} (at most {signed(farthest)})"


def _reasons(points: list[Point]) -> str:
    words = {p.clock.readings.event_reasons or "" for p in points if p.clock}
    named = sorted({word for text in words for word in text.split()} - {"none"})
    sampled = sum(_readings(points, "sampled_s"))
    lost: dict[str, float] = {}
    for point in points:
        for cause, seconds in (point.clock.readings.lost_s() if point.clock else {}).items():
            lost[cause] = lost.get(cause, 0.0) + seconds
    shares = [
        f"{cause.replace('_', ' ')} {percent(seconds / sampled)} of the time"
        for cause, seconds in lost.items()
        if sampled and seconds / sampled > 0.001
    ]
    return ", ".join([*named, *shares]) or ("none" if any(words) else "")


def _readings(points: list[Point], name: str) -> list[float]:
    return [value for p in points if p.clock and (value := getattr(p.clock.readings, name)) is not None]


def _range(values: Iterable[float], unit: str) -> str:
    readings = list(values)
    return span(min(readings), max(readings), unit) if readings else ""
