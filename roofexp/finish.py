"""After the last point: the sweep's table, figures, tracking and summary. What one of them cannot do stops no other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED
from roofexp.point import Point
from roofexp.running import Running
from roofexp.schema import FiguresConfig
from roofexp.session import stop_sessions
from roofexp.summary import counts, print_summary, relative
from roofexp.sweep import collect, read_roofs


def finish(run: Running, interrupted: bool = False) -> int:
    """Returns the exit code. An interrupted sweep is left so that it can be resumed."""
    if run.finished:
        return EXIT_OK
    run.finished = True
    stop_sessions()
    run.display.close()
    points = collect(run.folder)
    figures = draw(run.folder, points)
    if interrupted:
        print(
            f"stopped: {counts(points)['ok']} points are kept; go on with resume={relative(run.folder)}",
            file=sys.stderr,
        )
    run.exit_code = exit_code(points)
    notes = []
    if run.tracker is not None:
        run.tracker.finish_sweep(run.folder, "KILLED" if interrupted else None)
        if run.tracker.tracker is not None:
            notes.append(f"MLflow   {run.tracker.tracker.ui_command}")
    print_summary(run.folder, points, figures, notes)
    return run.exit_code


def draw(folder: Path, points: list[Point]) -> list[Path]:
    """The sweep's figures; an error in drawing loses no measurement."""
    settings = figure_settings(folder)
    if settings is None or not any(point.status == "ok" for point in points):
        return []
    try:
        from roofexp.figures import draw_all

        return draw_all(folder, points_frame(folder), read_roofs(folder), settings)
    except Exception as error:  # whatever the plotting libraries raise
        print(
            f"figures: {type(error).__name__}: {error}; the results are complete in {relative(folder)}", file=sys.stderr
        )
        return []


def figure_settings(folder: Path) -> FiguresConfig | None:
    """As the sweep was configured, from its first job's stored configuration."""
    from omegaconf import OmegaConf

    for file in sorted(folder.glob("*/.hydra/config.yaml")):
        stored = OmegaConf.load(file)
        settings = OmegaConf.merge(OmegaConf.structured(FiguresConfig), stored.get("figures", {}))
        found = OmegaConf.to_object(settings)
        assert isinstance(found, FiguresConfig)
        return found
    return None


def points_frame(folder: Path) -> Any:
    """points.csv as a frame."""
    import pandas

    return pandas.read_csv(folder / "points.csv")


def exit_code(points: list[Point]) -> int:
    """A skipped point is an outcome; a failed one is not."""
    return EXIT_POINT_FAILED if any(point.status == "failed" for point in points) else EXIT_OK
