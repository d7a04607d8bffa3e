"""The figures speak the same units as the tables."""

from roofexp.units import engineering, percent, plain, size_name, span

__all__ = ["engineering", "percent", "plain", "size_name", "span"]
