"""Figures of a sweep: frame in, figure out. Nothing here measures, and importing this is cheap."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from roofexp.clocks import find_roofs, roofs_mode, roofs_of
from roofexp.config.schema import FiguresConfig
from roofexp.errors import BadInputError
from roofexp.records.machine import Machine, RoofSet
from roofexp.text.console import one_line
from roofexp.text.numbers import machine_short

if TYPE_CHECKING:
    from pandas import DataFrame

    from roofexp.figures.canvas.page import Drawing

Draw: TypeAlias = "Callable[[], Drawing | None]"
log = logging.getLogger(__name__)


class Group(NamedTuple):
    """Points that share a figure: those of one machine in one clock mode."""

    machine: str  # short name, fit for a file name
    clock_mode: str
    points: DataFrame
    roofs: RoofSet | None


def draw_all(
    sweep_folder: Path,
    points: DataFrame,
    roof_sets: Sequence[RoofSet],
    settings: FiguresConfig,
    latency_share: float = 0.30,
) -> list[Path]:
    """Writes each figure that the points have something to show for to ``figures/`` as .png, .svg and .csv, one of each
    for every machine and clock mode among the points, and returns the paths written.

    ``points``: the rows of points.csv. ``latency_share``: as placing.far_below. A figure that cannot be drawn or
    written is logged and left out.
    """
    machines = _machines(sweep_folder, roof_sets)
    names = {machine_id: machine.name for machine_id, machine in machines.items()}
    points = points.assign(machine_name=[names.get(machine, machine) for machine in _column(points, "machine_id")])
    drawings = [
        *_of_groups(points, roof_sets, names, settings, latency_share),
        *_of_models(points, roof_sets, names, settings),
        *_of_soaks(sweep_folder, points, roof_sets, machines, settings),
    ]
    return [path for stem, draw in drawings for path in _written(sweep_folder / "figures" / stem, draw)]


def _machines(sweep_folder: Path, roof_sets: Sequence[RoofSet]) -> dict[str, Machine]:
    """By id, from the sweep's own files: a sweep without roofs has machines all the same."""
    from roofexp.records.archive import read_sweep_machines

    machines = {roofs.machine.machine_id: roofs.machine for roofs in roof_sets}
    try:
        return machines | read_sweep_machines(sweep_folder)
    except (OSError, BadInputError) as error:
        log.warning("machines of %s not read: %s", sweep_folder.name, error)
        return machines


def _of_groups(
    points: DataFrame,
    roof_sets: Sequence[RoofSet],
    names: Mapping[str, str],
    settings: FiguresConfig,
    latency_share: float,
) -> Iterator[tuple[str, Draw]]:
    """The figures of the points of one machine in one clock mode."""
    from roofexp.figures.kinds.energy import draw_energy
    from roofexp.figures.kinds.hierarchy import draw_hierarchy
    from roofexp.figures.kinds.roofline import draw_roofline
    from roofexp.figures.kinds.size_sweep import draw_size_sweep
    from roofexp.figures.kinds.staircase import draw_staircase

    groups = list(_groups(points, roof_sets, names))
    modes = len({group.clock_mode for group in groups}) > 1
    for group in groups:
        name = f"{group.machine}_{group.clock_mode}" if modes and group.clock_mode else group.machine
        ending = f"_{name}" if len(groups) > 1 else ""
        inputs = (group.points, group.roofs, settings)
        yield f"roofline_{name}", partial(draw_roofline, *inputs)
        yield f"size_sweep{ending}", partial(draw_size_sweep, *inputs, None, latency_share)
        yield f"hierarchy{ending}", partial(draw_hierarchy, *inputs)
        yield f"staircase{ending}", partial(draw_staircase, *inputs)
        yield f"energy{ending}", partial(draw_energy, *inputs)


def _of_models(
    points: DataFrame, roof_sets: Sequence[RoofSet], names: Mapping[str, str], settings: FiguresConfig
) -> Iterator[tuple[str, Draw]]:
    """The figures that compare clock modes, and the thread counts of one CPU, which are machines of their own."""
    from roofexp.figures.kinds.ridge_shift import draw_ridge_shift

    models: dict[str, list[str]] = {}
    for roofs in roof_sets:
        machine = roofs.machine
        models.setdefault(machine.name if machine.device == "cpu" else machine.machine_id, []).append(
            machine.machine_id
        )
    short = _short_names(dict.fromkeys(model[0] for model in models.values()), names)
    ids = _column(points, "machine_id")
    for model in models.values():
        rows = points[[machine in model for machine in ids]]
        own = [roofs for roofs in roof_sets if roofs.machine.machine_id in model]
        ending = f"_{short[model[0]]}" if len(models) > 1 else ""
        yield f"ridge_shift{ending}", partial(draw_ridge_shift, rows, own, settings)


def _of_soaks(
    sweep_folder: Path,
    points: DataFrame,
    roof_sets: Sequence[RoofSet],
    machines: Mapping[str, Machine],
    settings: FiguresConfig,
) -> Iterator[tuple[str, Draw]]:
    """One of each point that was measured without a pause from an idle start, from the point's own files."""
    if "soak_s" not in points or not (points["soak_s"] > 0).any():
        return
    from roofexp.figures.kinds.soak import draw_soak
    from roofexp.records.archive import read_sweep_points, read_tables

    soaks = [p for p in read_sweep_points(sweep_folder) if p.clock is not None and p.clock.readings.soak_s]
    samples, clocks = (read_tables(sweep_folder, kind) for kind in ("samples", "clocks"))
    for point in soaks:
        rows = samples.get(point.job, []), clocks.get(point.job, [])
        roofs = roofs_of(point, roof_sets)
        name = re.sub(r"[^\w.]+", "_", point.label)
        ending = f"_{point.job}" if sum(other.label == point.label for other in soaks) > 1 else ""
        yield (
            f"soak_{name}{ending}",
            partial(draw_soak, point, *rows, machines.get(str(point.machine_id)), roofs, settings),
        )


def _written(stem: Path, draw: Draw) -> list[Path]:
    try:
        drawing = draw()
        return drawing.save(stem) if drawing is not None else []
    except Exception as error:  # whatever the plotting libraries or the disk raise
        log.warning("figure %s not drawn: %s", stem.name, one_line(error))
        log.debug("where drawing failed", exc_info=True)
        return []


def _groups(points: DataFrame, roof_sets: Sequence[RoofSet], full: Mapping[str, str]) -> Iterator[Group]:
    """Points without a machine (skipped, failed) are shown beside those of the first one, where notes name them."""
    ids, modes, asked = (_column(points, name) for name in ("machine_id", "clock_mode", "clock_asked"))
    first = next(filter(None, [*ids, *(roofs.machine.machine_id for roofs in roof_sets)]), "")
    machines = [machine or first for machine in ids]
    names = _short_names(dict.fromkeys(machines), full)
    # each locked clock has roofs of its own, so that they do not share a figure; shares of a duty do
    locked = [text if mode == "locked" else "" for mode, text in zip(modes, asked, strict=True)]
    keys = list(zip(machines, modes, locked, strict=True))
    for key in dict.fromkeys(keys):
        machine, mode, text = key
        rows = points[[own == key for own in keys]]
        name = roofs_mode(mode, text) if text else mode
        yield Group(names[machine], name, rows, find_roofs(roof_sets, machine, mode, text))


def _short_names(machines: dict[str, None], full: Mapping[str, str]) -> dict[str, str]:
    """Short names by machine, from their ``full`` names; machines of one model are told apart by their id."""
    short = {machine: machine_short(full.get(machine, machine)) for machine in machines}
    twice = {name for name in short.values() if list(short.values()).count(name) > 1}
    return {machine: f"{name}_{machine_short(machine)}" if name in twice else name for machine, name in short.items()}


def _column(points: DataFrame, name: str) -> list[str]:
    if name not in points:
        return [""] * len(points)
    return [value if isinstance(value, str) else "" for value in points[name]]
