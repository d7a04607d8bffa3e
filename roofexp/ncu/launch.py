"""One profiled launch as any ncu page describes it, its metrics in SI units, and the names of kernels and metrics."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

import msgspec

from roofexp.config.paths import PACKAGE
from roofexp.config.yaml_file import read_mapping
from roofexp.ncu.catalogue import is_counter, is_known
from roofexp.ncu.table import Row


class Metric(msgspec.Struct, frozen=True):
    """``value`` in SI (None: ncu had no value), its SI ``unit``, and the ``text`` of what is no number."""

    value: float | None
    unit: str
    text: str = ""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch is known by ``table``, ``process`` and ``launch``: every process counts its launches from 0.

    A row of a per-kernel summary is the average of ``invocations`` launches and has no ``launch`` number.
    """

    table: int = 0  # which of the file's tables it stood in
    process: int | None
    launch: int | None
    kernel: str  # as ncu prints it
    block: tuple[int, ...] | None = None
    grid: tuple[int, ...] | None = None
    context: str | None = None
    stream: str | None = None
    device: str | None = None
    architecture: str | None = None  # compute capability, e.g. "9.0"
    nvtx: list[str] = []  # names of the ranges around it, outermost first
    invocations: int = 1
    metrics: dict[str, Metric] = {}
    notes: list[str] = []

    @property
    def values(self) -> dict[str, float | None]:
        """Numeric metrics; None is a metric that was asked for and has no value."""
        return {name: metric.value for name, metric in self.metrics.items() if not metric.text}

    @property
    def texts(self) -> dict[str, str]:
        """Metrics that are words, such as the name of the device."""
        return {name: metric.text for name, metric in self.metrics.items() if metric.text}

    @property
    def function(self) -> str:
        """The kernel's own name: without the NVTX range that ``--print-nvtx-rename kernel`` puts before it."""
        prefix = "/".join(self.nvtx)
        return self.kernel.removeprefix(f"{prefix}/") if prefix else self.kernel


def short_name(name: str) -> str:
    """The function's own name: without return type, namespaces, template arguments and parameters.

    ``void a::<unnamed>::saxpy<float>(int, float *)``, ``unnamed>::saxpy(int)`` and ``saxpy`` are all ``saxpy``.
    """
    text = name.strip().removesuffix(" [clone]")
    for anonymous in ("(anonymous namespace)::", "<unnamed>::", "unnamed>::", "_GLOBAL__N_1::"):
        text = text.replace(anonymous, "")
    bare = _outside_brackets(text)
    operator = bare.find("operator")
    if operator >= 0:
        return bare[operator:].strip()
    return bare.split("::")[-1].split(" ")[-1].strip() or name.strip()


def _outside_brackets(text: str) -> str:
    """The text up to its parameters, template arguments left out."""
    kept, depth = [], 0
    for letter in text:
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif letter == "(" and depth == 0:
            break
        elif depth == 0:
            kept.append(letter)
    return "".join(kept).strip()


_SHOWN = 4  # names listed in a note


def build_launch(row: Row, index: int, metrics: dict[str, Metric], notes: list[str]) -> Launch:
    """The launch that ``row`` names, with its metrics; what has no value is listed in its notes."""
    missing = [name for name, metric in metrics.items() if metric.value is None and not metric.text]
    missing = [name for name in missing if is_known(name) and is_counter(name)]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        notes = [*notes, f"no value for {shown}"]
    return Launch(
        table=index,
        process=_integer(row.get("Process ID")),
        launch=_integer(row.get("ID")),
        kernel=row["Kernel Name"].strip(),
        block=_dimensions(row.get("Block Size")) or shape_of(metrics, "block"),
        grid=_dimensions(row.get("Grid Size")) or shape_of(metrics, "grid"),
        context=row.get("Context") or None,
        stream=row.get("Stream") or None,
        device=row.get("Device") or None,
        architecture=_architecture(row, metrics),
        nvtx=[name for column in row if "Domain:" in column for name in _ranges(row[column])],
        invocations=_integer(row.get("Invocations")) or 1,
        metrics=metrics,
        notes=notes,
    )


def _integer(text: str | None) -> int | None:
    """Identities are whole numbers, written with separators by some and as floats by spreadsheets."""
    if not text or not text.strip():
        return None
    text = text.strip()
    return int(float(text)) if re.fullmatch(r"\d+\.0", text) else int(re.sub(r"\D", "", text))


def _dimensions(text: str | None) -> tuple[int, ...] | None:
    numbers = re.findall(r"\d+", text or "")
    return tuple(int(number) for number in numbers) or None


def shape_of(metrics: Mapping[str, Metric], what: str) -> tuple[int, ...] | None:
    """Block or grid of a launch from its metrics; None where they do not hold it."""
    sides = [metrics.get(f"launch__{what}_dim_{axis}") for axis in "xyz"]
    numbers = [int(side.value) for side in sides if side and side.value is not None]
    return tuple(numbers) if len(numbers) == 3 else None


def _architecture(row: Row, metrics: dict[str, Metric]) -> str | None:
    if row.get("CC"):
        return row["CC"].strip().replace(",", ".")
    parts = [metrics.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
    numbers = [part.value for part in parts if part and part.value is not None]
    return f"{int(numbers[0])}.{int(numbers[1])}" if len(numbers) == 2 else None


def _ranges(cell: str) -> list[str]:
    """``465  "<default domain>:name:none:none:none:none:none:none"``: a domain, the name, and six fields of payload."""
    names = []
    for quoted in re.findall(r'"([^"]*)"', cell):
        fields = quoted.split(":")
        names.append(":".join(fields[1:-6]) if len(fields) > 7 else quoted)
    return names


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
    metric = _labels().get((label.lower(), unit)) or _labels().get((label.lower(), None))
    if metric:
        return metric
    if item.startswith("Warp State") and (label == "Selected" or label.startswith("Stall ")):
        reason = label.removeprefix("Stall ").lower().replace(" ", "_")
        return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    return f"{item}: {label}" if item else label


def tensor_name(label: str) -> str:
    """ "Op:hgmma Src:fp16 Sparsity:off" is sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off."""
    return "sm__ops_path_tensor_" + label.lower().replace(":", "_").replace(" ", "_")


@functools.cache
def _labels() -> dict[tuple[str, str | None], str]:
    entries = read_mapping(PACKAGE / "ncu/labels.yaml")["labels"]
    return {(entry["label"].lower(), entry.get("unit")): entry["metric"] for entry in entries}
