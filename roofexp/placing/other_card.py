"""``machine=b200``: what the points of a sweep could reach at best on a published card. Limits, not measurements.

A point keeps its FLOPs and its DRAM traffic, as counted or modelled here; on a card with another cache the traffic may
differ. The least time is the longer of both at the card's limits, and so a bound that no run there can beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from roofexp.errors import BadInputError
from roofexp.placing.limits import MachineLimits, load_machine_limits, machine_names
from roofexp.placing.roofline import attainable, ridge
from roofexp.records.machine import Machine, Roof, RoofSet
from roofexp.records.point import Point
from roofexp.text.numbers import machine_short

LIMITS = "limits"  # the code version of roofs that were computed, not measured
CACHE_NOTE = "its traffic is that of a cache here, and only DRAM limits are published"
RATE_NOTE = "no {precision} rate of the card is published"


class AtBest(msgspec.Struct, frozen=True, kw_only=True):
    """A point under the limits of a card. Rates are in FLOP/s (B/s for a kernel without FLOPs), times in s; None is not
    known, and ``note`` says why."""

    point: Point
    bytes: int | None = None
    intensity: float | None = None
    ridge: float | None = None
    attainable: float | None = None
    time_s: float | None = None
    bound: str | None = None
    note: str = ""

    @property
    def speedup(self) -> float | None:
        """The time measured here over the least time there."""
        return self.point.timing.median_s / self.time_s if self.point.timing and self.time_s else None


def card_from(config: Any) -> MachineLimits | None:
    """The card of ``machine=`` as the configuration holds it. Raises BadInputError for another layout."""
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(config) if OmegaConf.is_config(config) else config
    if values is None:
        return None
    if isinstance(values, str):
        return load_machine_limits(values)
    try:
        return msgspec.convert(values, MachineLimits)
    except msgspec.ValidationError as error:
        raise BadInputError(f"machine: {error}; see conf/machine/h200.yaml") from error


def peak(card: MachineLimits, precision: str) -> float | None:
    """The highest dense peak of a precision, on CUDA or on tensor cores, as the measured roof of it is."""
    peaks = [card.peak_flops_per_s(name) for name in (precision, f"{precision}_tensor")]
    return max(filter(None, peaks), default=None)


def place_elsewhere(point: Point, card: MachineLimits) -> AtBest:
    """Where the point would lie at best. Pure."""
    assert point.work
    moved = dram_bytes(point)
    if moved is None:
        return AtBest(point=point, note=CACHE_NOTE)
    compute, bandwidth, flops = peak(card, point.precision), card.dram_bytes_per_s, point.work.flops
    if flops and compute is None:
        return AtBest(point=point, bytes=moved, note=RATE_NOTE.format(precision=point.precision))
    if not flops or compute is None:
        limit, time_s, bound = bandwidth, moved / bandwidth, "bandwidth"
        return AtBest(point=point, bytes=moved, attainable=limit, time_s=time_s if moved else None, bound=bound)
    intensity = flops / moved if moved else None
    limit = compute if intensity is None else attainable(intensity, compute, bandwidth)
    binds = intensity is not None and intensity < ridge(compute, bandwidth)
    return AtBest(
        point=point,
        bytes=moved,
        intensity=intensity,
        ridge=ridge(compute, bandwidth),
        attainable=limit,
        time_s=flops / limit,
        bound="bandwidth" if binds else "compute",
    )


def dram_bytes(point: Point) -> int | None:
    """The point's DRAM traffic here; None for one whose traffic stayed in a cache and was not counted."""
    if point.traffic and point.traffic.level == "dram":
        return point.traffic.bytes
    return point.counted.dram_bytes if point.counted else None


def roofs_of_card(card: MachineLimits, precisions: Sequence[str]) -> RoofSet:
    """The card's limits in the shape of measured roofs, so that figures draw them alike."""
    roofs = [Roof(name="dram", kind="bandwidth", level="dram", rate=card.dram_bytes_per_s, sheet=card.dram_bytes_per_s)]
    for precision in precisions:
        rate = peak(card, precision)
        if rate:
            roofs.append(Roof(name=f"{precision} limit", kind="compute", precision=precision, rate=rate, sheet=rate))
    machine = Machine(
        machine_id=short_name(card), device="cuda", name=card.name, units=card.sm_count, nominal_hz=card.boost_hz,
        memory_bytes=None,
    )  # fmt: skip
    return RoofSet(machine=machine, clock_mode="", code_version=LIMITS, measured="", seconds=0.0, roofs=roofs)


def short_name(card: MachineLimits) -> str:
    """The name of its file in conf/machine; else its own, fit for a file name."""
    names = (name for name in machine_names() if load_machine_limits(name).name == card.name)
    return next(names, machine_short(card.name))
