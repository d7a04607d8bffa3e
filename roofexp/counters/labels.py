"""From the labels of ncu's details page to metric names, so that every page is read by the same formulas."""

from __future__ import annotations

import functools
import re

from roofexp.counters.yaml_file import read_yaml

# the tensor section prints each kind of operation six times, in this order
TENSOR_SUFFIXES = (
    ".sum",
    ".sum.pct_of_peak_sustained_elapsed",
    ".sum.peak_sustained",
    ".sum.peak_sustained.per_second",
    ".sum.per_cycle_elapsed",
    ".sum.per_second",
)
_METRIC = re.compile(r"[a-z0-9]+__[\w.]+")
_TENSOR = re.compile(r"^(?:Op:\w+ )?Src:\w+(?: Dst:\w+)?(?: Sparsity:\w+)?$")


def metric_name(label: str, unit: str, item: str, seen: int) -> str:
    """The metric that ``label`` stands for; the label itself where the program knows no better.

    ``unit`` is in SI, ``item`` the body item (a chart or table) that the row belongs to, ``seen`` how many rows of the
    same item and label came before.
    """
    name = _METRIC.search(label)
    if name:
        return name.group(0)
    if _TENSOR.match(label) and not item and seen < len(TENSOR_SUFFIXES):
        return tensor_name(label) + TENSOR_SUFFIXES[seen]
    known = _labels().get((label.lower(), unit)) or _labels().get((label.lower(), None))
    if known:
        return known
    if item.startswith("Warp State") and (label == "Selected" or label.startswith("Stall ")):
        reason = label.removeprefix("Stall ").lower().replace(" ", "_")
        return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    return f"{item}: {label}" if item else label


def tensor_name(label: str) -> str:
    """ "Op:hgmma Src:fp16 Sparsity:off" is sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off."""
    return "sm__ops_path_tensor_" + label.lower().replace(":", "_").replace(" ", "_")


@functools.cache
def _labels() -> dict[tuple[str, str | None], str]:
    entries = read_yaml("labels.yaml")["labels"]
    return {(entry["label"].lower(), entry.get("unit")): entry["metric"] for entry in entries}
