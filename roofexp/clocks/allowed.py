"""Which clock modes this machine allows, without trying any: for ``python -m roofexp.doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from roofexp.clocks.left_over import by_hand, left_over
from roofexp.clocks.ncu_hold import clock_controls
from roofexp.clocks.nvml_lock import allowed_mhz, why_shared
from roofexp.clocks.refused import NEEDS_RIGHTS, RefusedError
from roofexp.devices.nvml import Nvml


class Verdict(NamedTuple):
    """On one or more modes. ``cure`` is empty where nothing stands in the way."""

    modes: str
    allowed: bool
    says: str
    cure: str = ""


def allowed_modes(nvml: Nvml | None, ncu: Path | None, journals: Path) -> Iterator[Verdict]:
    """``nvml`` None: no GPU, or one that NVML does not see."""
    yield Verdict("observe, duty", True, "always: they change nothing")
    if nvml is None:
        yield Verdict("base, boost, locked", False, "need an NVIDIA GPU that NVML sees", "clock=observe or clock=duty")
        return
    trouble = _trouble(nvml)
    yield _locked(nvml, trouble)
    yield from _by_ncu(ncu, trouble)
    for journal, entry in left_over(journals):
        asked = entry.asked if entry else "an unknown clock"
        yield Verdict(
            "left over", False, f"a killed run left {asked}; the next sweep gives it back", by_hand(journal.uuid)
        )


def _trouble(nvml: Nvml) -> tuple[str, str] | None:
    """What stands in the way of every lock, and the cure."""
    try:
        shared = why_shared(nvml, None)
    except RefusedError as error:
        return str(error), "clock=duty"
    return (f"{shared}: a lock would be theirs too", "clock.shared=true, or wait") if shared else None


def _locked(nvml: Nvml, trouble: tuple[str, str] | None) -> Verdict:
    span = allowed_mhz(nvml)
    clocks = f"clock.mhz from {span[0]} to {span[1]}" if span else "the driver does not say which clocks"
    if trouble:
        return Verdict("locked", False, f"{clocks}; {trouble[0]}", trouble[1])
    if os.geteuid() != 0:
        return Verdict("locked", False, f"{clocks}; drivers give this right to administrators only", NEEDS_RIGHTS)
    return Verdict("locked", True, f"{clocks}; allowed unless the container or a virtual GPU forbids it")


def _by_ncu(ncu: Path | None, trouble: tuple[str, str] | None) -> Iterator[Verdict]:
    if ncu is None:
        yield Verdict("base, boost", False, "need Nsight Compute (ncu)", "install it")
        return
    offered = clock_controls(ncu)
    for mode in ("base", "boost"):
        if offered is not None and mode not in offered:
            yield Verdict(mode, False, f"this ncu does not have it (2025.4 or newer), only {', '.join(offered)}")
        elif trouble:
            yield Verdict(mode, False, *trouble)
        else:
            yield Verdict(mode, True, "this ncu has it; needs the right to read counters")
