"""The roofs that a profiled kernel is compared with: a named machine's, or those that the report itself allows."""

from __future__ import annotations

import functools

import msgspec

from roofexp.counters.counts import Counts
from roofexp.limits import (
    MachineLimits,
    architecture_rates,
    bandwidth_envelope,
    find_rate,
    load_machine_limits,
    machine_names,
)
from roofexp.point import Flag


class ReportRoofs(msgspec.Struct, frozen=True, kw_only=True):
    """Limits at the clock of the profiled run where that is known. None: not known.

    ``compute_flops_per_s`` is the dense peak of ``precision``, the type that most FLOPs were of.
    """

    precision: str | None
    compute_flops_per_s: float | None
    bandwidth_bytes_per_s: float | None
    clock_known: bool
    source: str
    flags: list[Flag] = []


def choose_roofs(counts: Counts, machine: MachineLimits | None) -> ReportRoofs:
    """The named machine's limits; without one, peaks that the report states, else rates of its architecture x SMs."""
    kind = counts.main_type
    if machine:
        return ReportRoofs(
            precision=kind,
            compute_flops_per_s=machine.peak_flops_per_s(kind, counts.sm_hz) if kind else None,
            bandwidth_bytes_per_s=machine.dram_roof_bytes_per_s,
            clock_known=counts.sm_hz is not None,
            source=_source(machine),
            flags=[*_mismatch(counts, machine), *_incomplete(machine)],
        )
    return ReportRoofs(
        precision=kind,
        compute_flops_per_s=_own_peak(counts, kind) if kind else None,
        bandwidth_bytes_per_s=counts.dram_peak_bytes_per_s,
        clock_known=True,
        source="this GPU, by what the report says of it",
    )


@functools.cache
def known_ridges(kind: str | None, architecture: str | None) -> list[float]:
    """FLOP/B at the ridge of each known card of an architecture (of all cards where it is unknown)."""
    cards = [load_machine_limits(name) for name in machine_names()]
    same = [card for card in cards if architecture is None or card.architecture == architecture]
    peaks = [(card.peak_flops_per_s(kind), card.dram_bytes_per_s) for card in same] if kind else []
    return [peak / bandwidth for peak, bandwidth in peaks if peak]


def _own_peak(counts: Counts, kind: str) -> float | None:
    if counts.sm_hz is None:
        return None
    if kind in counts.peaks:
        return counts.peaks[kind] * counts.sm_hz
    rates = architecture_rates(counts.architecture, counts.device_name) if counts.architecture else None
    rate = find_rate(rates.flop, kind) if rates else None
    return rate * counts.sm_count * counts.sm_hz if rate and counts.sm_count else None


def _source(machine: MachineLimits) -> str:
    """The name of the card, and the mix that set its roof where that was measured."""
    if not machine.dram_mixes_bytes_per_s:
        return machine.name
    return f"{machine.name} (measured, {bandwidth_envelope(machine.dram_mixes_bytes_per_s).mix})"


def _incomplete(machine: MachineLimits) -> list[Flag]:
    """A measured DRAM roof that has not seen every access mix may be too low."""
    if not machine.dram_mixes_bytes_per_s:
        return []
    envelope = bandwidth_envelope(machine.dram_mixes_bytes_per_s)
    said = f"the dram roof is that of {envelope.mix} alone; {', '.join(envelope.missing)} were not measured"
    return [Flag("incomplete roof", said)] if envelope.missing else []


def _mismatch(counts: Counts, machine: MachineLimits) -> list[Flag]:
    """The report says on what it was made: the card, or at least the architecture and the number of SMs."""
    found = []
    if counts.architecture and counts.architecture != machine.architecture:
        found.append(f"compute capability {counts.architecture}, not {machine.architecture}")
    if counts.sm_count and counts.sm_count != machine.sm_count:
        found.append(f"{counts.sm_count:.0f} SMs, not {machine.sm_count}")
    if counts.device_name and not found and counts.device_name != machine.name:
        found.append(f"{counts.device_name}, not {machine.name}")
    return [Flag("other machine", f"the report was made on {' and '.join(found)}")] if found else []
