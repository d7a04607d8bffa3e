"""After the last point: the sweep's table, figures, tracking and summary. What one of them cannot do stops no other."""

from __future__ import annotations

import sys
from pathlib import Path

from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED
from roofexp.point import Point
from roofexp.running import Running
from roofexp.session import stop_sessions
from roofexp.summary import counts, print_summary, relative
from roofexp.sweep import collect


def finish(run: Running, interrupted: bool = False) -> int:
    """Returns the exit code. An interrupted sweep is left so that it can be resumed."""
    if run.finished:
        return EXIT_OK
    run.finished = True
    stop_sessions()
    run.display.close()
    points = collect(run.folder)
    figures: list[Path] = []
    if interrupted:
        print(
            f"stopped: {counts(points)['ok']} points are kept; go on with resume={relative(run.folder)}",
            file=sys.stderr,
        )
    run.exit_code = exit_code(points)
    print_summary(run.folder, points, figures, [])
    return run.exit_code


def exit_code(points: list[Point]) -> int:
    """A skipped point is an outcome; a failed one is not."""
    return EXIT_POINT_FAILED if any(point.status == "failed" for point in points) else EXIT_OK
