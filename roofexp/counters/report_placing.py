"""The roofs that a profiled kernel is compared with: a named machine's, or those that the report itself allows."""

from __future__ import annotations

import functools

import msgspec

from roofexp.config.paths import conf_folder
from roofexp.config.settings import PlacingSettings
from roofexp.config.yaml_file import read_mapping
from roofexp.counters.counts import Counts
from roofexp.counters.kernel_sums import KernelSums
from roofexp.placing.limits import (
    MachineLimits,
    architecture_rates,
    bandwidth_envelope,
    find_rate,
    load_machine_limits,
    machine_names,
)
from roofexp.placing.roofline import attainable, ridge
from roofexp.records.point import Flag
from roofexp.text.numbers import engineering, percent


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
def known_cards(architecture: str | None) -> list[MachineLimits]:
    """The published cards of an architecture; all of them where it is unknown."""
    cards = [load_machine_limits(name) for name in machine_names()]
    return [card for card in cards if architecture in (None, card.architecture)]


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
    words = f"the dram roof is that of {envelope.mix} alone; {', '.join(envelope.missing)} were not measured"
    return [Flag("incomplete roof", words)] if envelope.missing else []


def _mismatch(counts: Counts, machine: MachineLimits) -> list[Flag]:
    """The report says on what it was made: the card, or at least the architecture and the number of SMs."""
    differences = []
    if counts.architecture and counts.architecture != machine.architecture:
        differences.append(f"compute capability {counts.architecture}, not {machine.architecture}")
    if counts.sm_count and counts.sm_count != machine.sm_count:
        differences.append(f"{counts.sm_count:.0f} SMs, not {machine.sm_count}")
    if counts.device_name and not differences and counts.device_name != machine.name:
        differences.append(f"{counts.device_name}, not {machine.name}")
    return [Flag("other machine", f"the report was made on {' and '.join(differences)}")] if differences else []


NCU_BUSY_PCT = 60.0  # ncu calls a kernel latency-bound when both throughputs are below this
POINTS = 3.0  # percentage points by which two shares must differ to be worth a word
_FACTOR_TOLERANCE = 0.05
_SLOWEST = 2.0  # cards run at no less than this part of their boost clock
_HELD = 0.01  # DRAM traffic below this share of L2's: L2 serves the kernel, DRAM does not limit it
_RESIDENT = 0.001  # no tile is read a thousand times: the data lay in the cache before


class Peaks(msgspec.Struct, frozen=True):
    """Why ncu's percentage and the share of the precision's own peak differ."""

    numbers: str
    reason: str


class ReportPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """``fraction`` of the roof that binds (never clipped), ``peak_fraction`` of the peak of the precision used."""

    bound: str | None
    intensity: float | None = None  # FLOP/B at DRAM
    fraction: float | None = None
    roof: str | None = None
    ridge: float | None = None
    peak_fraction: float | None = None
    share: str | None = None  # the fraction in words
    peaks: Peaks | None = None
    flags: list[Flag] = []
    notes: list[str] = []

    @property
    def all_notes(self) -> list[str]:
        peaks = f"{self.peaks.numbers}: {self.peaks.reason}" if self.peaks else None
        return [note for note in (self.share, peaks) if note] + self.notes


class _Placed(msgspec.Struct, frozen=True, kw_only=True):
    bound: str | None
    fraction: float | None = None
    roof: str | None = None
    share: str | None = None
    notes: list[str] = []


def judge(counts: Counts, roofs: ReportRoofs) -> ReportPlacement:
    """The bound of a launch: memory-bound, compute-bound, latency-bound, or None where it cannot be told."""
    intensity = counts.flops / counts.dram_bytes if counts.flops is not None and counts.dram_bytes else None
    held = _held_by_cache(counts)
    placed = _place(counts, roofs, intensity)
    if held and placed.bound == "compute-bound":
        placed = _beside_cache(counts, placed)
    is_resident = held and (counts.dram_bytes or 0) < _RESIDENT * (counts.l2_bytes or 0)
    resident = [Flag("held by a cache", held)] if held and is_resident else []
    compute, bandwidth = roofs.compute_flops_per_s, roofs.bandwidth_bytes_per_s
    peak_fraction = _peak_fraction(counts, roofs)
    peaks = explain_peaks(counts.sol_sm_pct, roofs.precision, peak_fraction) if roofs.clock_known else None
    return ReportPlacement(
        bound=placed.bound,
        intensity=intensity,
        fraction=placed.fraction,
        roof=placed.roof,
        ridge=ridge(compute, bandwidth) if compute and bandwidth else None,
        peak_fraction=peak_fraction,
        share=placed.share,
        peaks=peaks,
        flags=[*roofs.flags, *resident, *_above(placed, peak_fraction, roofs)],
        notes=[*placed.notes, *([held] if held and not resident else [])],
    )


def _held_by_cache(counts: Counts) -> str | None:
    """Set where next to nothing of the traffic reached DRAM."""
    moved, at_l2 = counts.dram_bytes, counts.l2_bytes
    if moved is None or not at_l2 or moved >= _HELD * at_l2:
        return None
    share = f"DRAM moved {engineering(moved, 'B')}, L2 {engineering(at_l2, 'B')}"
    return f"{share}: the intensity at DRAM does not tell what limits the kernel"


def _beside_cache(counts: Counts, placed: _Placed) -> _Placed:
    """A kernel whose data lie in a cache is right of the ridge whatever limits it: it is compute-bound where it
    reaches the roof, else what ncu's throughputs say."""
    if placed.fraction is None or placed.fraction >= placing_settings().on_roof:
        return placed
    by_ncu = _by_throughput(counts, "the data lie in a cache")
    return msgspec.structs.replace(placed, bound=by_ncu.bound, notes=[*placed.notes, *by_ncu.notes])


def explain_peaks(sol_pct: float | None, precision: str | None, peak_fraction: float | None) -> Peaks | None:
    """Set where ncu's SM throughput and the share of the precision's own peak differ by more than a few points."""
    if sol_pct is None or precision is None or peak_fraction is None:
        return None
    own_pct = 100 * peak_fraction
    if abs(sol_pct - own_pct) <= POINTS:
        return None
    numbers = f"ncu's SM throughput is {sol_pct:.1f} %, the share of the {precision} peak {own_pct:.1f} %"
    factor = round(own_pct / sol_pct) if sol_pct else 0
    if factor >= 2 and abs(own_pct / sol_pct / factor - 1) <= _FACTOR_TOLERANCE:
        reason = f"ncu compares with a mode of the same pipe that is {factor} times as fast as {precision}"
    elif sol_pct > own_pct:
        reason = f"ncu's SM throughput is that of the SM's busiest unit, here another one than {precision} arithmetic"
    else:
        reason = "the two are measured against different peaks"
    return Peaks(numbers, reason)


def _place(counts: Counts, roofs: ReportRoofs, intensity: float | None) -> _Placed:
    if counts.flops is None:
        uncounted = not any(flag.name == "flops incomplete" for flag in counts.flags)
        return _by_throughput(counts, "no FLOPs are known") if uncounted else _Placed(bound=None)
    if counts.time_s is None or counts.dram_bytes is None:
        missing = "time" if counts.time_s is None else "DRAM traffic"
        return _by_throughput(counts, f"no {missing} is known")
    if counts.flops == 0:
        return _place_copy(counts, roofs)
    if roofs.compute_flops_per_s is None or roofs.bandwidth_bytes_per_s is None:
        return _by_known_cards(counts, roofs, intensity)
    return _under_both(counts, roofs, intensity, roofs.compute_flops_per_s, roofs.bandwidth_bytes_per_s)


def _place_copy(counts: Counts, roofs: ReportRoofs) -> _Placed:
    """A kernel without FLOPs has no place on log axes, but a share of the bandwidth."""
    assert counts.time_s is not None
    assert counts.dram_bytes is not None
    if not counts.dram_bytes or not counts.time_s:
        return _by_throughput(counts, "neither FLOPs nor DRAM traffic were counted")
    notes = ["no FLOPs: intensity 0, drawn beside the roofline"]
    if not roofs.bandwidth_bytes_per_s:
        placed = _by_known_cards(counts, roofs, 0.0)
        return msgspec.structs.replace(placed, notes=[*notes, *placed.notes])
    fraction = counts.dram_bytes / counts.time_s / roofs.bandwidth_bytes_per_s
    share = f"{percent(fraction)} of the DRAM bandwidth of {roofs.source}"
    return _far_below(counts, _Placed(bound="memory-bound", fraction=fraction, roof="dram", share=share, notes=notes))


def _under_both(
    counts: Counts, roofs: ReportRoofs, intensity: float | None, compute: float, bandwidth: float
) -> _Placed:
    assert counts.flops is not None
    assert counts.time_s
    if intensity is None:  # everything came from the caches
        limit, memory, notes = compute, False, ["no DRAM traffic: intensity undefined"]
    else:
        limit, memory, notes = attainable(intensity, compute, bandwidth), intensity < ridge(compute, bandwidth), []
    fraction = counts.flops / counts.time_s / limit
    roof = "dram" if memory else str(roofs.precision)
    share = f"{percent(fraction)} of the {roof} roof of {roofs.source}"
    bound = "memory-bound" if memory else "compute-bound"
    return _far_below(counts, _Placed(bound=bound, fraction=fraction, roof=roof, share=share, notes=notes))


def _far_below(counts: Counts, placed: _Placed) -> _Placed:
    """Far below its roof a kernel waits for latency, unless ncu saw another unit busy."""
    assert placed.fraction is not None
    if placed.fraction >= placing_settings().far_below:
        return placed
    memory, compute = counts.sol_memory_pct or 0.0, counts.sol_sm_pct or 0.0
    if max(memory, compute) < NCU_BUSY_PCT:
        return msgspec.structs.replace(placed, bound="latency-bound")
    if memory >= compute:
        words = f"the memory path on the chip (L1, shared memory or L2) is {memory:.0f} % busy, DRAM is not what binds"
        return msgspec.structs.replace(placed, bound="memory-bound", notes=[*placed.notes, words])
    words = f"a unit of the SM is {compute:.0f} % busy, though not with these FLOPs"
    return msgspec.structs.replace(placed, bound="compute-bound", notes=[*placed.notes, words])


def _by_known_cards(counts: Counts, roofs: ReportRoofs, intensity: float | None) -> _Placed:
    """The bound where it is the same on every known card of this architecture that could have reached the rate."""
    assert counts.time_s
    limits = placing_settings()
    placings = [p for card, hz in _cards_and_clocks(counts) if (p := _under_card(counts, roofs, card, hz, intensity))]
    # a card that it would pass is another one; one faster than all that are known is not far below its roofs
    possible = [p for p in placings if p.fraction is not None and p.fraction <= limits.above_roof] or placings
    ask = "name the card with --machine"
    of = f" of compute capability {counts.architecture}" if counts.architecture else ""
    if not possible:
        return _by_throughput(counts, f"no known card{of} has a roof for {roofs.precision or 'DRAM'}: {ask}")
    first, shares = possible[0], sorted(placed.fraction or 0.0 for placed in possible)
    if any(placed.bound != first.bound for placed in possible):
        return _by_throughput(counts, f"the known cards{of} differ in what bounds this kernel: {ask}")
    low, high = percent(shares[0]), percent(shares[-1])
    span = low if low == high else f"{low} to {high}"
    note = f"{first.bound} on every known card{of}, at {span} of its roof; share unknown: {ask}"
    return _Placed(bound=first.bound, notes=[*first.notes, note])


def _cards_and_clocks(counts: Counts) -> list[tuple[MachineLimits, float | None]]:
    """Where the clock is unknown, the boost clock and the slowest that a card may have run at."""
    cards = known_cards(counts.architecture)
    if counts.sm_hz:
        return [(card, counts.sm_hz) for card in cards]
    return [pair for card in cards for pair in ((card, None), (card, card.boost_hz / _SLOWEST))]


def _under_card(
    counts: Counts, roofs: ReportRoofs, card: MachineLimits, hz: float | None, intensity: float | None
) -> _Placed | None:
    """Under what the report says of its own roofs and a card says of the rest; None where that is not all."""
    assert counts.time_s
    bandwidth = roofs.bandwidth_bytes_per_s or card.dram_bytes_per_s
    if not counts.flops:
        share = (counts.dram_bytes or 0) / counts.time_s / bandwidth
        return _far_below(counts, _Placed(bound="memory-bound", fraction=share))
    peak = roofs.compute_flops_per_s or (card.peak_flops_per_s(roofs.precision, hz) if roofs.precision else None)
    return _under_both(counts, roofs, intensity, peak, bandwidth) if peak else None


def _by_throughput(counts: Counts, why: str) -> _Placed:
    """ncu's own two percentages, where the roofline cannot be drawn."""
    memory = counts.sol_memory_pct if counts.sol_memory_pct is not None else counts.sol_dram_pct
    if memory is None or counts.sol_sm_pct is None:
        return _Placed(bound=None, notes=[f"not placed: {why}"])
    note = f"{why}; judged by ncu's throughputs (SM {counts.sol_sm_pct:.1f} %, memory {memory:.1f} %)"
    if max(memory, counts.sol_sm_pct) < NCU_BUSY_PCT:
        return _Placed(bound="latency-bound", notes=[note])
    return _Placed(bound="memory-bound" if memory >= counts.sol_sm_pct else "compute-bound", notes=[note])


def _peak_fraction(counts: Counts, roofs: ReportRoofs) -> float | None:
    """FLOP/s of the main precision over its own dense peak."""
    flops = counts.flops_by_type.get(roofs.precision) if roofs.precision else None
    if not flops or not counts.time_s or not roofs.compute_flops_per_s:
        return None
    return flops / counts.time_s / roofs.compute_flops_per_s


def _above(placed: _Placed, peak_fraction: float | None, roofs: ReportRoofs) -> list[Flag]:
    """Shares above 100 % stay as they are and are explained."""
    shares = {f"{placed.roof} roof": placed.fraction, f"{roofs.precision} peak": peak_fraction}
    for name, share in shares.items():
        if share is not None and share > placing_settings().above_roof:
            why = "data that stayed in a cache, another clock than the roof's, a wrong count, or a roof set too low"
            return [Flag("above a roof", f"{100 * share:.1f} % of the {name} of {roofs.source}: {why}")]
    return []


@functools.cache
def placing_settings() -> PlacingSettings:
    """The thresholds of conf/placing/default.yaml, which sweeps use as well."""
    return msgspec.convert(read_mapping(conf_folder() / "placing" / "default.yaml"), PlacingSettings)


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """One launch, or what ``--by`` sums, as JSON has it. SI units; None (null) is not known.

    With ``launches`` above 1 and no sum, the numbers are those of the average launch of a per-kernel summary.
    """

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
    launches: int
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    device: str | None
    architecture: str | None


class Placing(msgspec.Struct, frozen=True, kw_only=True):
    """Counters with the roofs that they were compared with and where they lie under them."""

    item: KernelSums
    roofs: ReportRoofs
    verdict: ReportPlacement

    @property
    def flags(self) -> list[str]:
        return [f"{flag.name}: {flag.message}" for flag in [*self.item.counts.flags, *self.verdict.flags]]

    @property
    def notes(self) -> list[str]:
        return list(dict.fromkeys([*self.verdict.all_notes, *self.item.notes]))
