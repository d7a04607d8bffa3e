"""A roof under load that does not pause: what is left of its rate once clock, power and temperature have settled."""

from __future__ import annotations

from typing import Any

import msgspec

from roofexp.kernel import Kernel
from roofexp.machine import Sustained
from roofexp.measure import Reply, Request
from roofexp.steadiness import drift
from roofexp.timing import TimingSettings

LOAD_S = 1.5  # of load before the first look; power control takes a second to find its clock
LOOK_S = 1.5  # the rate must stay within SETTLED over this long
SETTLED = 0.01
LOOKS = 2
BATCH_S = 0.05  # launches of one sample; between samples the GPU waits for the host some 0.1 ms


def measure_sustained(kernel: Kernel, timing: TimingSettings, run: Any, clock: dict[str, Any]) -> Sustained | None:
    """At most LOAD_S + LOOKS x LOOK_S of load; the last look counts. None where the kernel cannot run here."""
    found, load_s = None, 0.0
    for look in range(LOOKS):
        before_s = LOAD_S if look == 0 else 0.1
        load_s += before_s + LOOK_S
        settings = sustained_settings(timing, before_s)
        reply: Reply = run(Request(kernel=kernel, timing=settings, cold=False, seed=1, clock=clock))
        if reply.timing is None or reply.samples is None:
            return found
        moved = abs(drift(reply.samples.time_s))
        found = _reading(kernel, reply, load_s, settled=moved <= SETTLED)
        if found.settled:
            break
    return found


def sustained_settings(timing: TimingSettings, before_s: float) -> TimingSettings:
    """Nothing ends the warm-up or the samples but time."""
    return msgspec.structs.replace(
        timing, warmup_s=before_s, steady=-1.0, budget_s=LOOK_S, batch_s=BATCH_S, target=-1.0, min_samples=1_000_000,
        max_samples=1_000_000,
    )  # fmt: skip


def _reading(kernel: Kernel, reply: Reply, load_s: float, settled: bool) -> Sustained:
    assert reply.timing
    extra = reply.clock.extra if reply.clock else {}
    power, reasons = extra.get("power_w"), extra.get("event_reasons")
    return Sustained(
        rate=kernel.work.flops / reply.timing.median_s,
        compute_hz=reply.clock.compute_hz if reply.clock else None,
        power_w=power if isinstance(power, float) else None,
        seconds=load_s,
        settled=settled,
        event_reasons=str(reasons) if reasons else None,
    )
