"""One profiled launch as any ncu page describes it: who, where, and its metrics in SI units."""

from __future__ import annotations

import msgspec


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
