"""Roofs from results: pure functions. What may not be believed says so in ``Roof.incomplete``."""

from __future__ import annotations

import msgspec

from roofexp.limits import MachineLimits, card_of
from roofexp.machine import Machine, Roof
from roofexp.roofs.benchmark import HIGHEST, PRIVATE_LEVELS, Benchmark, Outcome
from roofexp.roofs.ceilings import under
from roofexp.roofs.checks import limit_check, with_checks


def assemble(outcomes: list[Outcome], machine: Machine, known: list[Roof] | None = None) -> list[Roof]:
    """Roofs from results: compute roofs, ceilings and the launch floor one by one, each bandwidth level as the envelope
    of its access mixes. A mix that could not be measured makes its roof incomplete, never silently lower. ``known``
    are the machine's roofs of before."""
    found = [o for o in outcomes if o.rate and (o.benchmark.kind != "bandwidth" or o.benchmark.ceiling_of)]
    names = {outcome.benchmark.name for outcome in found} | {roof.name for roof in known or []}
    card = card_of(machine.name)
    roofs = [_single(_promoted(outcome, names), machine, card) for outcome in found]
    mixed = [o for o in outcomes if o.benchmark.kind == "bandwidth" and not o.benchmark.ceiling_of]
    for level in dict.fromkeys(outcome.benchmark.level for outcome in mixed):
        mixes = [outcome for outcome in mixed if outcome.benchmark.level == level]
        if level is not None and any(outcome.rate for outcome in mixes):
            roofs.append(envelope(level, mixes, machine, card))
    return [under(roof, [*roofs, *(known or [])]) if roof.ceiling_of else roof for roof in roofs]


def _promoted(outcome: Outcome, measured: set[str]) -> Outcome:
    """A ceiling whose roof this machine does not have is the roof: mma.sync, where there is no wgmma."""
    above = outcome.benchmark.ceiling_of
    if above is None or above == HIGHEST or above in measured or outcome.benchmark.kind != "compute":
        return outcome
    benchmark = msgspec.structs.replace(outcome.benchmark, ceiling_of=None, cause=None)
    return msgspec.structs.replace(outcome, benchmark=benchmark)


def envelope(level: str, mixes: list[Outcome], machine: Machine, card: MachineLimits | None = None) -> Roof:
    """The highest rate over read, write, copy and triad; which mix set it is kept beside it."""
    rates = {str(o.benchmark.mix): o.rate for o in mixes if o.rate}
    missing = [f"{o.benchmark.mix} ({o.problem})" for o in mixes if not o.rate]
    best = max((o for o in mixes if o.rate), key=lambda outcome: outcome.rate or 0.0)
    assert best.rate
    private = level in PRIVATE_LEVELS[machine.device]
    limit = _bandwidth_limit(level, best.compute_hz, machine)
    roof = Roof(
        name=level,
        kind="bandwidth",
        level=level,
        rate=best.rate,
        mixes=rates,
        compute_hz=best.compute_hz,
        clock_domain="compute" if private else "none",
        per_cycle=_per_cycle(best.rate, best.compute_hz, machine) if private else None,
        limit=limit,
        sheet=card.dram_bytes_per_s if card and level == "dram" else None,
        incomplete=f"not measured: {', '.join(missing)}" if missing else None,
    )
    # what caches and memories reach of their bus differs from chip to chip: too much is an error, too little is not
    check = limit_check(best.rate, limit, too_low=0.0)
    return with_checks(roof, [check]) if check else roof


def _bandwidth_limit(level: str, clock: float | None, machine: Machine) -> float | None:
    """By arithmetic: the memory's bus and clock, or what L1 and shared memory move per cycle."""
    if level == "dram":
        return machine.limit("dram_bytes_per_s")
    per_cycle = machine.limit("l1_bytes_per_cycle")
    if level in ("l1", "shared") and per_cycle and clock and machine.units:
        return per_cycle * clock * machine.units
    return None


def _single(outcome: Outcome, machine: Machine, card: MachineLimits | None) -> Roof:
    benchmark, rate, clock = outcome.benchmark, outcome.rate, outcome.compute_hz
    assert rate
    if benchmark.kind == "launch":
        return Roof(name=benchmark.name, kind="launch", rate=rate, compute_hz=clock)
    if benchmark.kind == "bandwidth":
        return Roof(
            name=benchmark.name, kind="bandwidth", level=benchmark.level, rate=rate, compute_hz=clock,
            ceiling_of=benchmark.ceiling_of, cause=benchmark.cause,
            mixes={benchmark.mix: rate} if benchmark.mix else {},
        )  # fmt: skip
    rates = rate_per_cycle(benchmark, machine)
    limit = rates * machine.units * clock if rates and machine.units and clock else None
    is_roof = benchmark.ceiling_of is None
    roof = Roof(
        name=benchmark.name,
        kind="compute",
        rate=rate,
        precision=benchmark.counts_as or benchmark.precision,
        ceiling_of=benchmark.ceiling_of,
        cause=benchmark.cause,
        clock_domain="compute",
        compute_hz=clock,
        per_cycle=_per_cycle(rate, clock, machine),
        limit=limit if is_roof else None,
        sheet=_sheet(benchmark, card) if card and is_roof else None,
        sustained=outcome.sustained,
    )
    check = limit_check(rate, limit) if is_roof else None
    return with_checks(roof, [check]) if check else roof


def limit_names(benchmark: Benchmark) -> list[str]:
    """Under which names a table of rates may have this benchmark's; formats that only tensor cores do carry no suffix
    there."""
    if benchmark.limit:
        return [f"{benchmark.precision}_{benchmark.limit}", benchmark.precision]
    return [benchmark.precision]


def rate_per_cycle(benchmark: Benchmark, machine: Machine) -> float | None:
    """FLOP per cycle and unit from the machine's limits."""
    return next((rate for name in limit_names(benchmark) if (rate := machine.limit(f"flop_per_cycle_{name}"))), None)


def _sheet(benchmark: Benchmark, card: MachineLimits) -> float | None:
    peaks = (card.peak_flops_per_s(name) for name in limit_names(benchmark))
    return next((peak for peak in peaks if peak), None)


def _per_cycle(rate: float, clock: float | None, machine: Machine) -> float | None:
    return rate / machine.units / clock if clock and machine.units else None
