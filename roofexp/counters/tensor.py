"""Operations of the tensor cores: which of ncu's overlapping counters to add, and what they count.

``sm__ops_path_tensor_src_bf16_dst_fp32`` is the parent of ``..._op_hgmma_src_bf16_dst_fp32_sparsity_off`` and its like:
the more attributes a name has, the less it counts. Only names that nothing else in the report contains are added.
"""

from __future__ import annotations

import re

import msgspec

from roofexp.counters.lookup import Lookup

PREFIX = "sm__ops_path_tensor_"
_NAME = re.compile(
    rf"^{PREFIX}(?:op_(?P<op>[a-z0-9]+)_)?src_(?P<src>[a-z0-9_]+?)(?:_dst_(?P<dst>[a-z0-9]+))?"
    r"(?:_sparsity_(?P<sparsity>on|off))?$"
)
# Blackwell's fp4 products are another instruction than its mixed fp4, fp6 and fp8 ones, at twice their rate
_OWN_INSTRUCTION = frozenset({"fp4"})


class TensorCounter(msgspec.Struct, frozen=True):
    """One counter; an attribute that its name does not have is None: it counts every value of it."""

    name: str
    op: str | None
    src: frozenset[str]
    dst: str | None
    sparsity: str | None

    @property
    def attributes(self) -> tuple[bool, bool, bool]:
        return self.op is not None, self.dst is not None, self.sparsity is not None

    @property
    def kind(self) -> str:
        """The FLOP type: merged counters go by what the architecture that merges them can do."""
        if len(self.src) > 1:
            return "fp8_tensor" if "fp8" in self.src else "fp16_tensor"
        source = next(iter(self.src))
        accumulate = "_fp16_accumulate" if self.dst == "fp16" else ""
        return f"{source}_tensor{accumulate}"

    def contains(self, other: TensorCounter) -> bool:
        """Whether everything that ``other`` counts is counted here too."""
        same = [(self.op, other.op), (self.dst, other.dst), (self.sparsity, other.sparsity)]
        wider = self.src == other.src or (self.src > other.src and other.src != _OWN_INSTRUCTION)
        return self.name != other.name and wider and all(a is None or a == b for a, b in same)


def parse_tensor_name(metric: str) -> TensorCounter | None:
    """The counter behind a metric name, its suffix aside; None for other metrics."""
    found = _NAME.match(metric.split(".")[0])
    if not found:
        return None
    sources = frozenset(found["src"].split("_"))
    return TensorCounter(found[0], found["op"], sources, found["dst"], found["sparsity"])


def tensor_counters(lookup: Lookup) -> list[TensorCounter]:
    """The tensor counters that a report was asked for."""
    names = sorted({name.split(".")[0] for name in lookup.values if name.startswith(PREFIX)})
    counters = [parse_tensor_name(name) for name in names]
    return [counter for counter in counters if counter is not None and lookup.has(f"{counter.name}.sum")]


def tensor_operations(lookup: Lookup) -> dict[str, float | None]:
    """Operations by FLOP type (an FMA is two already); a type with a missing value is None."""
    counters = tensor_counters(lookup)
    top = [c for c in counters if not any(other.contains(c) for other in counters)]
    totals: dict[str, float | None] = {}
    for sources in dict.fromkeys(counter.src for counter in top):
        group = _one_partition([counter for counter in top if counter.src == sources], lookup)
        for counter in group:
            value, before = lookup.total(f"{counter.name}.sum"), totals.get(counter.kind, 0)
            totals[counter.kind] = None if value is None or before is None else before + value
    return totals


def _one_partition(counters: list[TensorCounter], lookup: Lookup) -> list[TensorCounter]:
    """Counters with the same attributes split the work; those with other attributes split it again, so that one
    set only may be added: that which counted most."""
    sets: dict[tuple[bool, bool, bool], list[TensorCounter]] = {}
    for counter in counters:
        sets.setdefault(counter.attributes, []).append(counter)
    return max(sets.values(), key=lambda group: sum(lookup.total(f"{c.name}.sum") or 0 for c in group))
