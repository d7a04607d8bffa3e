"""The numbers that a record may hold, by what they stand for, in SI units. Records are held to these bounds when they
are read: outside of them nothing was ever measured, and what is made of such a number is not finite."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Time = Annotated[float, Meta(ge=1e-15, le=1e10)]  # s, of something that took place
Duration = Annotated[float, Meta(ge=0, le=1e10)]  # s, maybe none
Rate = Annotated[float, Meta(ge=0, le=1e30)]  # FLOP/s, B/s, Hz
RoofRate = Annotated[float, Meta(ge=1e-15, le=1e30)]  # FLOP/s, B/s, or s of a launch: points are divided by it
Amount = Annotated[float, Meta(ge=-1e30, le=1e30)]  # a ratio, or a reading that may be negative
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=20_000)]
