"""After the last point: the sweep's table, figures, page, tracking and summary. What one cannot do stops no other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from roofexp.config.schema import FiguresConfig
from roofexp.config.yaml_file import read_yaml
from roofexp.diagnosis.verdict_table import write_expectations
from roofexp.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.records.archive import POINTS, is_packed, job_folders, read_configs, read_sweep_points
from roofexp.records.files import write_atomically, write_json
from roofexp.records.point import UNREADABLE, Point, unreadable, write_point
from roofexp.records.points_table import write_points_table
from roofexp.records.sweep_folder import (
    JUDGED_WITH,
    now,
    read_machines,
    read_roofs,
    read_sweep,
    without_idle_commits,
    write_sweep,
)
from roofexp.run.process import PROCESS
from roofexp.run.progress import Run
from roofexp.run.summary import counts, print_summary
from roofexp.text.console import explain_disk, one_line, relative


def finish(run: Run, interrupted: bool = False) -> int:
    """Returns the exit code. An interrupted sweep is left so that it can be resumed."""
    if run.finished:
        return EXIT_OK
    run.finished = True
    try:
        with PROCESS.sessions.kept():
            with PROCESS.stop.finishing():
                PROCESS.sessions.stop()
            interrupted = interrupted or PROCESS.stop.asked or not count_points(run)
        with PROCESS.stop.finishing():
            run.display.close()
            _make_everything(run, interrupted)
    except KeyboardInterrupt:
        run.exit_code = EXIT_INTERRUPTED
        if run.tracker is not None:
            run.tracker.close_leftovers()
        print(f"stopped: make the rest with resume={relative(run.folder)}", file=sys.stderr)
    finally:
        run.release()
    return run.exit_code


def _make_everything(run: Run, interrupted: bool) -> None:
    """Table, figures, gate, page, tracking and summary, each from the files alone."""
    points, complete = collected(run.folder, interrupted)
    figures: list[Path] = _unless_stopped(lambda: draw(run.folder, points), [])
    if interrupted:
        kept = counts(points)["ok"]
        print(f"stopped: {kept} points are kept; continue with resume={relative(run.folder)}", file=sys.stderr)
    run.exit_code = EXIT_INTERRUPTED if interrupted else exit_code(points) if complete else EXIT_POINT_FAILED
    gate = pass_gate(run, interrupted)
    page = _unless_stopped(lambda: report(run.folder, points), None)
    if points and page is None:
        run.exit_code = max(run.exit_code, EXIT_POINT_FAILED)
    notes = [f"report   {relative(page)}"] if page else []
    if run.tracker is not None:
        mirrored = run.tracker.finish_sweep(run.folder, "KILLED" if interrupted else None)
        if mirrored and run.tracker.tracker is not None:
            notes.append(f"MLflow   {run.tracker.tracker.ui_command}")
            notes += [f"         {address}" for address in run.tracker.tracker.pages]
    print_summary(run.folder, points, figures, [*notes, *gate])


T = TypeVar("T")


def _unless_stopped(make: Callable[[], T], otherwise: T) -> T:
    """What can be made later is left out where somebody does not want to wait for it."""
    try:
        return make()
    except KeyboardInterrupt:
        print("stopped: left out; python -m roofexp.report makes figures and page later", file=sys.stderr)
        return otherwise


def collected(folder: Path, interrupted: bool) -> tuple[list[Point], bool]:
    """The points, and whether the files made of them could be written: a sweep that filled the disk ends all the
    same."""
    try:
        return collect(folder, interrupted), True
    except OSError as error:
        print(f"table: {explain_disk(error)}; make room, then resume={relative(folder)}", file=sys.stderr)
        return read_sweep_points(folder), False
    except (BadInputError, ValueError) as error:  # a file of the sweep that something else damaged
        print(f"table: {one_line(error)}", file=sys.stderr)
        return read_sweep_points(folder), False


def pass_gate(run: Run, interrupted: bool) -> list[str]:
    """What the gate found; sets the exit code where a rule is broken."""
    if run.gate is None:
        return []
    if interrupted:
        return ["gate     not judged: the sweep was stopped"]
    from roofexp.gate import pass_sweep

    try:
        code, lines = pass_sweep(run.gate, run.folder)
    except Exception as error:  # a gate that cannot be judged is not passed
        code, lines = EXIT_POINT_FAILED, [f"gate     not judged: {one_line(error)}"]
    run.exit_code = max(run.exit_code, code)
    return lines


def count_points(run: Run) -> bool:
    """Hardware counters for the points that want them, before anything is made of the records. False: interrupted."""
    if all(machine.device != "cuda" for machine in read_machines(run.folder).values()):
        return True
    from roofexp.counters.counting import CountRequest, count_sweep

    try:
        wish = CountRequest(phase="sweep", override=PROCESS.counters, config_folders=PROCESS.config_folders)
        count_sweep(run.folder, wish, say=run.display.say, progress=run.display.working)
    except KeyboardInterrupt:
        return False
    except Exception as error:  # a mistake in counting costs no timing
        print(f"counters: {one_line(error)}; traffic stays modelled", file=sys.stderr)
    return True


def draw(folder: Path, points: list[Point]) -> list[Path]:
    """The sweep's figures; an error in drawing loses no measurement."""
    stored = stored_configuration(folder)
    if stored is None or not any(point.status == "ok" for point in points):
        return []
    try:
        settings = figure_settings(stored)
        figures = draw_sweep(folder, settings, float(stored.placing.far_below)) if settings.draw else []
        return figures + draw_elsewhere(folder, points, stored, settings)
    except Exception as error:  # whatever the plotting libraries raise
        print(f"figures: {one_line(error)}; the results are complete in {relative(folder)}", file=sys.stderr)
        return []


def draw_sweep(folder: Path, settings: FiguresConfig, far_below: float) -> list[Path]:
    from roofexp.figures import draw_all

    return draw_all(folder, points_frame(folder), read_roofs(folder), settings, far_below)


def draw_elsewhere(folder: Path, points: list[Point], stored: Any, settings: FiguresConfig) -> list[Path]:
    """With ``machine=``: the points under that card's limits, as a table and a figure."""
    if stored.get("machine") is None:
        return []
    from roofexp.figures.kinds.other_card import write_elsewhere
    from roofexp.placing.other_card import card_from

    card = card_from(stored.machine)
    return write_elsewhere(folder, points, card, settings) if card else []


def report(folder: Path, points: list[Point]) -> Path | None:
    """The sweep's page; an error in making it loses no measurement."""
    if not points:
        return None
    try:
        from roofexp.report import write_report

        return write_report(folder)
    except Exception as error:  # whatever a damaged file or a full disk raises
        print(
            f"report: {one_line(error)}; make it again with python -m roofexp.report {relative(folder)}",
            file=sys.stderr,
        )
        return None


def stored_configuration(folder: Path) -> Any:
    """The configuration of the sweep's first job; None where there is none."""
    from omegaconf import OmegaConf

    if is_packed(folder):
        return next((OmegaConf.create(config) for config in read_configs(folder).values()), None)
    return next((OmegaConf.create(read_yaml(file)) for file in sorted(folder.glob("*/.hydra/config.yaml"))), None)


def figure_settings(stored: Any) -> FiguresConfig:
    from omegaconf import OmegaConf

    found = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(FiguresConfig), stored.figures))
    assert isinstance(found, FiguresConfig)
    return found


def points_frame(folder: Path) -> Any:
    """points.csv as a frame."""
    import pandas

    return pandas.read_csv(folder / "points.csv")


def exit_code(points: list[Point]) -> int:
    """A skipped point is an outcome; a failed one is not."""
    return EXIT_POINT_FAILED if any(point.status == "failed" for point in points) else EXIT_OK


def write_judged(folder: Path, copy: Path | None, points: list[Point], given: Mapping[str, Any]) -> None:
    """Rewrites the sweep in ``folder``, or in ``copy``, which is made of it. ``given``: the thresholds and rules that
    are not those of the sweep's configurations; sweep.yaml keeps them. Raises BadInputError and OSError."""
    from roofexp.diagnosis.verdict_table import write_expectations

    target = _copied(folder, copy) if copy is not None else folder
    _write_records(target, points)
    write_points_table(target, points)
    write_expectations(target, points)
    _note(target, given)
    _make_again(target)


def _copied(folder: Path, copy: Path) -> Path:
    if copy.exists():
        raise BadInputError(f"{copy} is there already; name a folder that is not there yet")
    shutil.copytree(folder, copy)
    return copy


def _write_records(folder: Path, points: list[Point]) -> None:
    from roofexp.records.archive import packed_points

    lost = unreadable(points)  # what cannot be read is not written over
    if is_packed(folder):
        if lost:
            raise BadInputError(f"{lost[0]}; the packed records stay as they are: give --dry-run")
        write_atomically(folder / POINTS, packed_points(points))
        return
    folders = job_folders(folder)
    for point in points:
        if point.reason_kind != UNREADABLE:
            write_point(folders[point.job], point)


def _note(folder: Path, given: Mapping[str, Any]) -> None:
    """A file of rules by its name alone: where it lies is true of one machine only."""
    sweep = read_sweep(folder)
    before = sweep.pop(JUDGED_WITH, None)
    if given:
        sweep[JUDGED_WITH] = {key: Path(value).name if key == "rules" else value for key, value in given.items()}
    if sweep and (given or before):
        write_sweep(folder, sweep)


def _make_again(folder: Path) -> None:
    """Figures and page, where the sweep has them. One that cannot be made is a line: the records are written."""
    from roofexp.report import REPORT, write_report
    from roofexp.report.contents import read_contents
    from roofexp.report.figures import redraw

    try:
        if any((folder / "figures").glob("*.svg")):
            redraw(read_contents(folder))
        if (folder / REPORT).is_file():
            write_report(folder)
    except Exception as error:  # whatever a damaged file or the plotting libraries raise
        print(
            f"roofexp.diagnose: {one_line(error)}; figures and page are as before: "
            f"python -m roofexp.report {folder} --redraw",
            file=sys.stderr,
        )


def collect(folder: Path, interrupted: bool = False) -> list[Point]:
    """Makes the sweep's own files from its points: points.csv, roofs.json, machines and outcome in sweep.yaml."""
    points = read_sweep_points(folder)
    write_points_table(folder, points)
    write_expectations(folder, points)
    roofs = read_roofs(folder)
    if roofs:
        write_json(folder / "roofs.json", roofs)
    sweep = without_idle_commits(read_sweep(folder), (point.created for point in points))
    if sweep:
        sweep["finished"] = now()
        sweep.pop("status", None)
        if interrupted:
            sweep["status"] = "KILLED"
        sweep["machines"] = {key: msgspec.to_builtins(value) for key, value in read_machines(folder).items()}
        write_sweep(folder, sweep)
    return points
