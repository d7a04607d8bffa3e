"""Groups of the configuration that later stages compute with: typed here once, for Hydra and for the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from roofexp.config.input_files import as_type
from roofexp.config.numbers import check_numbers


class TimingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The ``timing`` group; conf/timing/default.yaml says what each value does."""

    name: str
    target: float  # half width of the 95 % interval of the median, relative
    budget_s: float  # time for samples; what was reached then is kept
    warmup_s: float  # longest warm-up
    steady: float  # warm-up ends when consecutive batches agree within this
    batch_s: float  # a hot sample is as many launches as fill this
    min_samples: int
    max_samples: int
    drift: float  # last third against first third, relative, that counts as drifting
    noise: float  # (p95 - p5) / median that counts as noisy
    timer_floors: float  # a time below this many timer floors is too short
    busy: float  # share of the machine taken by others that counts as not quiet
    timeout_s: float  # for the whole point; the worker is replaced after it
    seconds: float | None = None  # soak: the kernel back to back for so long, whatever its samples say

    @property
    def is_soak(self) -> bool:
        return self.seconds is not None


class PlacingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The ``placing`` group; conf/placing/default.yaml says what each value does."""

    on_roof: float  # at least this share of a roof is "on" it
    far_below: float  # less than this share of the attainable rate is latency-bound
    above_roof: float  # more than this share is above a roof, beyond measurement error
    near_floor: float  # a time within this many launch floors is explained by the launch
    rules: str | None = None  # a file of diagnosis rules instead of the program's own


def config_type(settings: type[msgspec.Struct], name: str, module: str) -> type:
    """The same fields as a dataclass, as OmegaConf wants its types: what has no default must be given in YAML. ``name``
    in ``module`` is where pickle finds it."""
    hints = get_type_hints(settings)
    fields: list[Any] = [
        (field.name, hints[field.name], "???" if field.required else field.default)
        for field in msgspec.structs.fields(settings)
    ]
    return dataclasses.make_dataclass(name, fields, namespace={"__module__": module})


def check_placing(placing: Mapping[str, Any]) -> None:
    """Raises BadInputError for a threshold that makes no sense."""
    check_numbers({"placing": placing})


def placing_of(config: Mapping[str, Any], where: str) -> PlacingSettings:
    """The thresholds of a stored configuration. Raises BadInputError."""
    placing: PlacingSettings = as_type(config.get("placing"), PlacingSettings, f"{where}: placing")
    check_placing(msgspec.structs.asdict(placing))
    return placing
