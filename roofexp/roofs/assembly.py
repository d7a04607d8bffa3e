"""Builds roofs from benchmark results and checks them against what the hardware can do by arithmetic."""

from __future__ import annotations

import msgspec

from roofexp.placing.limits import MachineLimits, card_of
from roofexp.records.machine import Machine, Roof, RoofCheck
from roofexp.roofs.benchmark import HIGHEST, PRIVATE_LEVELS, Benchmark, Outcome
from roofexp.text.numbers import percent

TOO_HIGH = 1.02  # of the limit: the clock or the table of rates must be wrong
TOO_LOW = 0.90  # of the limit: published, with a flag


def limit_check(rate: float, limit: float | None, too_low: float = TOO_LOW) -> RoofCheck | None:
    """A roof against arithmetic at the clock that it held; None where the limit is not known."""
    if not limit:
        return None
    message = ""
    if rate > TOO_HIGH * limit:
        message = (
            f"{percent(rate / limit)} of what the units can do at the clock held: clock or table of rates is wrong"
        )
    elif rate < too_low * limit:
        message = f"only {percent(rate / limit)} of what the units can do at the clock held"
    elif rate > limit:
        return RoofCheck(name="limit", passed=True, expected=limit, found=rate, message=_above(rate, limit))
    return RoofCheck(name="limit", passed=not message, expected=limit, found=rate, message=message)


def with_checks(roof: Roof, checks: list[RoofCheck]) -> Roof:
    """The roof with these checks in the place of earlier ones of the same names. One that failed makes it incomplete:
    it is published as a lower bound, with the reason."""
    names = {check.name for check in checks}
    kept = [*(check for check in roof.checks if check.name not in names), *checks]
    said = [f"{check.name}: {check.message}" for check in kept if not check.passed]
    before = roof.incomplete if roof.incomplete and roof.incomplete.startswith("not measured") else None
    reasons = [*([before] if before else []), *said]
    return msgspec.structs.replace(roof, checks=kept, incomplete="; ".join(reasons) or None)


def _above(rate: float, limit: float) -> str:
    """Within what two readings of a clock can be wrong by that moves between them."""
    return f"{percent(rate / limit - 1)} above what the units can do at the clock read: it moved meanwhile"


def under(ceiling: Roof, roofs: list[Roof]) -> Roof:
    """The ceiling with the name of its roof, found among ``roofs``; as it is where that is not there. One that was not
    measured below its roof does not claim its cause."""
    above = roof_above(ceiling, roofs)
    if above is None:
        return ceiling
    placed = msgspec.structs.replace(ceiling, ceiling_of=above.name)
    check = _limit(placed, above)
    placed = with_checks(placed, [check]) if check else placed
    whole, words = measured_above(placed, above)
    if placed.rate < whole:
        return placed
    return msgspec.structs.replace(
        placed, cause=f"not below {words}: no loss seen where {ceiling.cause or ceiling.name}"
    )


def roof_above(ceiling: Roof, roofs: list[Roof]) -> Roof | None:
    if ceiling.ceiling_of != HIGHEST:
        return next((roof for roof in roofs if roof.name == ceiling.ceiling_of), None)
    above = [r for r in roofs if r.kind == "compute" and r.precision == ceiling.precision and r.ceiling_of is None]
    return max(above, key=lambda roof: roof.rate, default=None)


def measured_above(ceiling: Roof, above: Roof) -> tuple[float, str]:
    """What a ceiling is compared with, and its name: of a memory level the same mix where the ceiling has one, since
    the envelope may be that of reads and writes together."""
    mix = next(iter(ceiling.mixes), None)
    if mix in above.mixes:
        return above.mixes[mix], f"the {mix} roof"
    return above.rate, "the roof"


def _limit(ceiling: Roof, above: Roof) -> RoofCheck | None:
    """The roof's limit at the clock that the ceiling held."""
    if ceiling.kind != "compute" or not (above.limit and above.compute_hz and ceiling.compute_hz):
        return None
    return limit_check(ceiling.rate, above.limit * ceiling.compute_hz / above.compute_hz, too_low=0.0)


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
