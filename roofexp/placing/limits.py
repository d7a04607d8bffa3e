"""What a GPU could do by arithmetic: units x rate per clock x clock. A limit is computed, a roof is measured.

Rates per architecture stand in ``limits.yaml``; published cards in ``conf/machine/*.yaml``. All units SI.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.paths import conf_folder
from roofexp.config.yaml_file import read_mapping
from roofexp.errors import BadInputError

MIXES = ("read", "write", "copy", "triad")  # the access mixes that a DRAM roof must have been measured with
_OWN_CLOCK = ("fp64_tensor",)  # tensor work that holds the boost clock of the CUDA cores

# precisions that exist on tensor cores only are written without the suffix
_TENSOR = ("tf32", "fp8", "fp6", "fp4", "int8", "int4")


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """FLOP (or operations) per cycle and SM by precision, dense; bytes per cycle and SM of L1 and shared memory."""

    architecture: str
    flop: dict[str, int]
    l1_bytes: int
    tensor_clock: bool = False  # tensor cores hold a lower boost clock than CUDA cores


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A bandwidth roof: the best of the measured access mixes, in B/s, and the mix that set it."""

    bytes_per_s: float
    mix: str
    missing: list[str]  # mixes that were not measured: the roof is incomplete and may be too low


class MachineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """One published card; see conf/machine/h200.yaml. ``dram_mixes_bytes_per_s`` may hold what was measured on it."""

    name: str
    architecture: str
    sm_count: int
    boost_hz: float
    tensor_boost_hz: float
    flop_per_cycle_per_sm: dict[str, int]
    dram_bytes_per_s: float
    dram_bytes_per_s_by_clock: float | None = None
    l2_bytes: int | None = None
    l1_bytes_per_cycle_per_sm: int | None = None
    dram_mixes_bytes_per_s: dict[str, float] = {}
    sources: list[str] = []
    driver_names: list[str] = []  # under which the driver knows it, where that is not ``name``

    def rate(self, precision: str) -> int | None:
        """FLOP per cycle and SM; ``tf32_tensor`` is ``tf32``, which tensor cores alone can do."""
        return find_rate(self.flop_per_cycle_per_sm, precision)

    def clock_hz(self, precision: str) -> float:
        """The boost clock that the precision's published peak is made of."""
        return self.tensor_boost_hz if is_tensor(precision) and precision not in _OWN_CLOCK else self.boost_hz

    def peak_flops_per_s(self, precision: str, hz: float | None = None) -> float | None:
        """SMs x rate x clock, dense; at the published boost clock unless ``hz`` is given. None: not known."""
        rate = self.rate(precision)
        return None if rate is None else self.sm_count * rate * (hz or self.clock_hz(precision))

    @property
    def dram_roof_bytes_per_s(self) -> float:
        """The measured envelope where there is one, else the data sheet."""
        if self.dram_mixes_bytes_per_s:
            return bandwidth_envelope(self.dram_mixes_bytes_per_s).bytes_per_s
        return self.dram_bytes_per_s


def is_tensor(precision: str) -> bool:
    return "_tensor" in precision or precision.removesuffix("_fp16_accumulate") in _TENSOR


def find_rate(rates: Mapping[str, int], precision: str) -> int | None:
    """The entry of a precision, with or without "_tensor" where only tensor cores can do it."""
    if precision in rates:
        return rates[precision]
    bare = precision.replace("_tensor", "")
    return rates.get(bare) if is_tensor(bare) else None


def bandwidth_envelope(mixes: Mapping[str, float]) -> Envelope:
    """The roof over read, write, copy and triad: read-heavy kernels pass a roof from triad alone by 5 to 9 %."""
    if not mixes:
        raise BadInputError(f"a bandwidth roof needs at least one measured mix of {', '.join(MIXES)}")
    best = max(mixes, key=lambda mix: mixes[mix])
    return Envelope(bytes_per_s=mixes[best], mix=best, missing=[mix for mix in MIXES if mix not in mixes])


def architecture_rates(architecture: str, name: str | None = None) -> Rates | None:
    """Rates of a compute capability such as "9.0"; None for one before 7.0.

    A capability between two known ones has the rates of the one before it. ``name`` of the card tells GeForce from
    professional cards: where they differ and the name is unknown, those rates are left out.
    """
    rates = _rates()
    key = nearest_architecture(architecture, list(rates))
    if key is None:
        return None
    entry = rates[key]
    flop, geforce = dict(entry["flop"]), entry.get("geforce", {})
    if name is None:
        flop = {precision: rate for precision, rate in flop.items() if precision not in geforce}
    elif "GeForce" in name:
        flop |= geforce
    return Rates(
        architecture=architecture, flop=flop, l1_bytes=entry["l1_bytes"], tensor_clock=entry.get("tensor_clock", False)
    )


def nearest_architecture(architecture: str, known: list[str]) -> str | None:
    """The architecture itself or the last known one before it ("8.7" is read as "8.6", "10.3" as "10.0")."""
    version = _version(architecture)
    return max((key for key in known if _version(key) <= version), key=_version, default=None)


def _version(architecture: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in architecture.split("."))
    except ValueError as error:
        raise BadInputError(f"compute capability {architecture!r}; it is written like 9.0") from error


def machine_names() -> list[str]:
    """The cards that ``--machine`` knows."""
    return sorted(file.stem for file in (conf_folder() / "machine").glob("*.yaml"))


def load_machine_limits(name: str) -> MachineLimits:
    """A card of conf/machine by name, or a YAML file of the same layout by path. Raises BadInputError."""
    if name in machine_names():
        file = conf_folder() / "machine" / f"{name}.yaml"
    else:
        file = Path(name)
        if file.suffix not in (".yaml", ".yml") or not file.is_file():
            known = ", ".join(machine_names())
            raise BadInputError(f"machine {name!r} is not known; known: {known}, or the path of a YAML file")
    try:
        return msgspec.convert(read_mapping(file), MachineLimits)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{file}: {error}") from error


@functools.cache
def card_of(driver_name: str) -> MachineLimits | None:
    """The published card that the driver calls exactly so; None for one that is not in conf/machine. A similar name is
    another card: H100 PCIe and H100 SXM differ by a third."""
    for name in machine_names():
        card = load_machine_limits(name)
        if driver_name in (card.name, *card.driver_names):
            return card
    return None


@functools.cache
def _rates() -> dict[str, Any]:
    return read_mapping(Path(__file__).with_name("limits.yaml"))
