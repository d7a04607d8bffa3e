"""Numbers as a person reads them: engineering units in powers of 1000. Storage stays in SI."""

from __future__ import annotations

import math
import re

_PREFIXES = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E"}


def engineering(value: float, unit: str = "", digits: int = 3) -> str:
    """``engineering(3.2e12, "FLOP/s")`` is ``3.2 TFLOP/s``: a prefix for each power of 1000, no trailing zeros.

    What is not finite reads ``unknown``.
    """
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return f"0 {unit}".rstrip()
    rounded = float(f"{value:.{digits - 1}e}")  # 999.9 G becomes 1 T before the prefix is chosen
    power = min(max(math.floor(math.log10(abs(rounded)) / 3 + 1e-12), min(_PREFIXES)), max(_PREFIXES))
    return f"{plain(rounded / 1000.0**power, digits)} {_PREFIXES[power]}{unit}".rstrip()


def plain(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, without exponent and trailing zeros: ``0.0833``, ``14.4``, ``4096``."""
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{float(f'{value:.{digits - 1}e}'):.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(fraction: float) -> str:
    """A share as a person says it: ``92 %``, ``4.1 %``, ``0.03 %``."""
    if not math.isfinite(fraction):
        return "unknown"
    return f"{plain(100 * fraction, 2 if abs(fraction) < 0.995 else 3)} %"


def signed(share: float) -> str:
    """``+3.1 %``, ``-0.4 %``, ``-45 %``; from tenfold on ``×12``."""
    if not math.isfinite(share):
        return "unknown"
    if share >= 9:
        return f"×{plain(1 + share)}"
    if abs(share) < 0.0005:
        return "0.0 %"
    return f"{100 * share:+.{1 if abs(share) < 0.0995 else 0}f} %"


def span(low: float, high: float, unit: str) -> str:
    """``1.62 – 1.98 GHz``, or one number where both read the same."""
    (first, first_unit), (last, last_unit) = (engineering(value, unit).split(" ", 1) for value in (low, high))
    if first_unit != last_unit:
        return f"{first} {first_unit} – {last} {last_unit}"
    return f"{last} {last_unit}" if first == last else f"{first} – {last} {last_unit}"


def size_name(size: float) -> str:
    """A swept size: exact up to six digits, then ``2^26`` for powers of two and ``1.5 M`` for the rest."""
    whole = round(size)
    if whole < 1_000_000:
        return str(whole)
    return f"2^{whole.bit_length() - 1}" if whole & (whole - 1) == 0 else engineering(size)


def machine_short(name: str) -> str:
    """``NVIDIA H200`` becomes ``nvidia_h200``, ``Intel(R) Xeon(R) CPU @ 2.20GHz`` becomes ``intel_xeon``."""
    bare = re.sub(r"\((?:r|tm|c)\)|@.*$|\b(?:cpu|processor|\d+-core|with .*)\b", " ", name, flags=re.IGNORECASE)
    return re.sub(r"[^a-z0-9]+", "_", bare.lower()).strip("_") or "machine"


def rate_text(flops_per_s: float | None, bytes_per_s: float | None) -> str:
    if flops_per_s is not None:
        return engineering(flops_per_s, "FLOP/s")
    return engineering(bytes_per_s, "B/s") if bytes_per_s is not None else "no rate"
