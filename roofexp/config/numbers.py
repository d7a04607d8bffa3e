"""Which numbers the configuration may hold. Hydra checks types; a NaN, an infinity or 10^30 has the right type."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from roofexp.errors import BadInputError

LARGEST = 2**63 - 1  # what records, the worker's messages and tables can hold


class Allowed(NamedTuple):
    """The numbers from ``least`` to ``most``; ``above``: without ``least`` itself."""

    least: float
    most: float
    above: bool = False
    meaning: str = ""

    def __contains__(self, value: object) -> bool:
        assert isinstance(value, (int, float))
        return self.least <= value <= self.most and not (self.above and value == self.least)

    @property
    def text(self) -> str:
        if self.meaning:
            return self.meaning
        if self.least == -self.most:
            return "a finite number"
        least = f"more than {self.least:g}" if self.above else f"{self.least:g} or more"
        return (
            f"{least}, at most 2^63 - 1"
            if self.most == LARGEST
            else f"{least}, finite"
            if self.most == FINITE
            else least
        )


FINITE = math.nextafter(math.inf, 0.0)
RULES = {  # the first pattern that fits a key holds
    r"size": Allowed(1, LARGEST),
    r"seed": Allowed(0, LARGEST),
    r"kernel\.scalars\..*": Allowed(-FINITE, FINITE),
    r"kernel\.params\..*": Allowed(-LARGEST, LARGEST, meaning="a number from -2^63 to 2^63"),
    r"(kernel\.tolerance\..*|precision\.tolerance)": Allowed(0, FINITE),
    r"timing\.min_samples": Allowed(1, LARGEST),
    r"timing\.max_samples": Allowed(2, LARGEST),
    r"timing\.(seconds|timeout_s)": Allowed(0, FINITE, above=True),
    r"(timing\.(budget_s|warmup_s|batch_s)|roofs\.budget_s)": Allowed(0, FINITE),
    r"timing\..*": Allowed(0, math.inf),
    r"(counters\.timeout_s|clock\.sample_s|figures\.(width_mm|font_pt))": Allowed(0, FINITE, above=True),
    r"placing\.on_roof": Allowed(0, 1, True, "a share of the roof, above 0 and at most 1"),
    r"placing\.far_below": Allowed(0, 1, True, "a share of the attainable rate, above 0 and at most 1"),
    r"placing\.above_roof": Allowed(1, FINITE, True, "a share of the roof, above 1"),
    r"placing\.near_floor": Allowed(0, FINITE, True, "a number of launch floors, above 0"),
}


def check_number(key: str, value: Any) -> None:
    """Raises BadInputError for a number that its key does not allow; other values are for the types to judge."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    allowed = next((allowed for pattern, allowed in RULES.items() if re.fullmatch(pattern, key)), None)
    if allowed is not None and value not in allowed:
        shown = str(value) if isinstance(value, int) else f"{value:g}"
        raise BadInputError(f"{key}={shown if len(shown) < 40 else f'{shown[:20]}…'}: allowed: {allowed.text}")


def check_numbers(config: Mapping[str, Any]) -> None:
    """All numbers of a plain configuration, or of a part of it. Raises BadInputError."""
    for key, value in _leaves(config, ""):
        check_number(key, value)
    timing = config.get("timing")
    if isinstance(timing, Mapping):
        _check_samples(timing.get("min_samples"), timing.get("max_samples"))


def check_swept(config: Mapping[str, Any], swept: Mapping[str, list[str]]) -> None:
    """The numbers of a whole sweep, before its first point: those of its configuration, and every value that is swept
    over. A size that cannot be costs its own point alone. Raises BadInputError."""
    for key, value in _leaves(config, ""):
        if key not in swept and not (key.startswith("kernel.") and "kernel" in swept):
            check_number(key, value)
    values = {key: [_number(text) for text in texts] for key, texts in swept.items() if key != "size"}
    for key, several in values.items():
        for value in several:
            check_number(key, value)
    pairs = [values.get(f"timing.{name}") or [config["timing"].get(name)] for name in ("min_samples", "max_samples")]
    if "timing" not in swept:
        for least, most in product(*pairs):
            _check_samples(least, most)


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return None


def _check_samples(least: Any, most: Any) -> None:
    if isinstance(least, (int, float)) and isinstance(most, (int, float)) and most < least:
        raise BadInputError(f"timing.max_samples={most}: allowed: timing.min_samples={least} or more")


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(part, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part, key)
    else:
        yield key, value
