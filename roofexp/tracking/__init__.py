"""MLflow as a mirror of the files. Importing this imports no mlflow; opening a store does."""

from __future__ import annotations

import contextlib
import logging
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.records.point import Point
from roofexp.text.console import one_line
from roofexp.tracking.client import POINTS, SWEEPS, RunStore, open_runs, page
from roofexp.tracking.point_run import point_content, record_hash
from roofexp.tracking.store import TrackingInputError, resolve_store, shown, sqlite_address
from roofexp.tracking.sweep_run import (
    SweepFolder,
    closing_content,
    opening_content,
    point_files,
    read_machines,
    read_sweep,
    sweep_files,
    sweep_status,
)

UI_SERVER = "http://localhost:5000"  # where mlflow ui answers unless told otherwise
log = logging.getLogger(__name__)
COMPLETE = ("FINISHED", "FAILED")  # a child in another state was left by a process that died
Outcome = Literal["new", "renewed", "unchanged"]


class Mirrored(msgspec.Struct):
    """What mirroring did with the points of a sweep."""

    new: int = 0
    renewed: int = 0
    unchanged: int = 0


class Child(msgspec.Struct, frozen=True):
    run_id: str
    record_hash: str
    status: str

    @property
    def complete(self) -> bool:
        return self.status in COMPLETE


def open_store(store: str, uri: str | None, experiment: str, outputs: Path) -> Tracker:
    """The store of a TrackingConfig (its values as text), created with its experiment if need be.

    Raises TrackingInputError where the configuration cannot work (stop before measuring), TrackingError where the
    store is down, locked or of another MLflow (measure, mirror later); either within about 5 s of checking.
    """
    if store == "off":
        raise TrackingInputError("tracking=none: MLflow is switched off; allowed: tracking=sqlite or tracking=server")
    return Tracker(open_runs(resolve_store(store, uri, outputs), experiment))


class Tracker:
    """Writes sweeps into one experiment of one store. Methods raise what MLflow raises: see SafeTracker."""

    def __init__(self, runs: RunStore) -> None:
        self.runs = runs
        self._sweep: Mapping[str, Any] = {}
        self._parent: str | None = None
        self._children: dict[str, Child] = {}  # by job
        self._machines: dict[str, str] = {}
        self._running: set[str] = set()  # opened by this process and not ended yet

    @property
    def uri(self) -> str:
        return shown(self.runs.address.uri)

    @property
    def ui_command(self) -> str:
        """What a person types, or the address to open, to look at the runs."""
        database = self.runs.address.database
        if database is None:
            return self.uri
        with contextlib.suppress(ValueError):
            database = database.relative_to(Path.cwd())
        return f"mlflow ui --backend-store-uri {shlex.quote(sqlite_address(database))} --workers 1"

    @property
    def pages(self) -> list[str]:
        """The addresses of the list of sweeps and of that of all points, with their columns."""
        server = UI_SERVER if self.runs.address.database else self.uri.rstrip("/")
        return [server + page(self.runs.experiment_id, view) for view in (SWEEPS, POINTS)]

    def start_sweep(self, sweep: Mapping[str, Any]) -> None:
        """Finds or makes the parent run of ``sweep`` (the content of sweep.yaml) and marks it as running."""
        parent = self._open_parent(sweep)
        self.runs.reopen(parent)
        self._running.add(parent)

    def log_point(self, point: Point, folder: Path) -> Outcome:
        """Mirrors one point of the sweep that was started. ``folder`` is the point's own."""
        if point.machine_id and point.machine_id not in self._machines:
            self._machines = read_machines(folder.parent, self._sweep)
        return self._put_point(point, folder, self._machines.get(point.machine_id or ""))

    def mirror(
        self, folder: Path, status: str | None = None, on_point: Callable[[int, int], None] | None = None
    ) -> Mirrored:
        """Makes the runs of a sweep agree with its files and ends the parent: FINISHED, FAILED or KILLED, by the files
        unless ``status`` is given. ``on_point`` gets how many of how many are done.

        Raises BadInputError for a folder without a sweep.
        """
        sweep = read_sweep(folder)
        self._open_parent(sweep.sweep)
        self._machines = sweep.machines
        done = Mirrored()
        for number, (point, path) in enumerate(sweep.points.values(), 1):
            outcome = self._put_point(point, path, sweep.machine_of(point))
            setattr(done, outcome, getattr(done, outcome) + 1)
            if on_point:
                on_point(number, len(sweep.points))
        self._end_abandoned(sweep)
        self._close_parent(sweep, status or sweep_status(sweep))
        return done

    def close_leftovers(self) -> None:
        """Ends every run that this process left running, as KILLED."""
        for run_id in list(self._running):
            self._end(run_id, "KILLED")

    def forget(self) -> None:
        """What the store holds is read anew by the next call: after a failure nobody knows how far it came."""
        self._parent, self._sweep, self._children, self._machines = None, {}, {}, {}

    def _open_parent(self, sweep: Mapping[str, Any]) -> str:
        if self._parent is None or self._sweep.get("sweep_id") != sweep["sweep_id"]:
            self._machines, self._children = {}, {}
            self._parent = self._find_or_create_parent(sweep)
        self._sweep = sweep
        return self._parent

    def _find_or_create_parent(self, sweep: Mapping[str, Any]) -> str:
        with self.runs.exclusive():
            parents = self.runs.search({"roofexp.sweep_id": str(sweep["sweep_id"]), "roofexp.kind": "sweep"})
            if not parents:
                created: str = self.runs.create(opening_content(sweep)).info.run_id
                self._running.add(created)
                return created
        parent: str = parents[0].info.run_id
        for extra in parents[1:]:
            for run in (extra, *self._children_of(extra.info.run_id)):
                self._delete(run.info.run_id)
        for run in self._children_of(parent):
            self._take_child(run)
        return parent

    def _children_of(self, parent: str) -> list[Any]:
        return self.runs.search({"mlflow.parentRunId": parent, "roofexp.kind": "point"})

    def _take_child(self, run: Any) -> None:
        """Of several runs of one point (two processes mirrored it at once) one stays, a complete one if there is."""
        job = run.data.tags.get("roofexp.job", "")
        child = Child(run.info.run_id, run.data.tags.get("roofexp.record_hash", ""), run.info.status)
        other = self._children.get(job)
        if other is not None:
            child, extra = (child, other) if child.complete or not other.complete else (other, child)
            self._delete(extra.run_id)
        self._children[job] = child

    def _put_point(self, point: Point, folder: Path, machine: str | None) -> Outcome:
        assert self._parent, "start_sweep comes first"
        child = self._children.get(str(point.job))
        now = record_hash(point, machine)
        if child and child.record_hash == now and child.complete:
            return "unchanged"
        if child:
            self._delete(child.run_id)
        content = point_content(point, self._sweep, machine)
        run = self.runs.create(content, {"mlflow.parentRunId": self._parent})
        run_id = run.info.run_id
        self._running.add(run_id)
        self.runs.upload(run, point_files(folder), content.long_values)
        self._end(run_id, content.status, content.end_ms)
        self._children[str(point.job)] = Child(run_id, now, content.status)
        return "renewed" if child else "new"

    def _end_abandoned(self, sweep: SweepFolder) -> None:
        """Runs of points that left no record: the process that opened them died."""
        recorded = set(map(str, sweep.points))
        for job, child in self._children.items():
            if child.status == "RUNNING" and job not in recorded:
                self._end(child.run_id, "KILLED")

    def _close_parent(self, sweep: SweepFolder, status: str) -> None:
        assert self._parent
        content = closing_content(sweep, status)
        run = self.runs.get(self._parent)
        tags = {key: text for key, text in content.tags.items() if run.data.tags.get(key) != text}
        content_hash = tags.pop("roofexp.content_hash", None)
        if content_hash is None and run.info.status == status:
            self._running.discard(self._parent)
            return
        # a param cannot be changed; of a metric a store calls the latest the current one, so a change is of now
        params = {key: text for key, text in content.params.items() if key not in run.data.params}
        metrics = {key: value for key, value in content.metrics.items() if run.data.metrics.get(key) != value}
        now_ms = round(time.time() * 1000)
        self.runs.log(self._parent, params, metrics, tags, now_ms if run.data.metrics else content.end_ms)
        self.runs.upload(run, sweep_files(sweep.folder), content.long_values)
        if content_hash:  # after all the rest: until then the run counts as not mirrored
            self.runs.log(self._parent, {}, {}, {"roofexp.content_hash": content_hash}, content.end_ms)
        self._end(self._parent, status, content.end_ms)

    def _end(self, run_id: str, status: str, end_ms: int | None = None) -> None:
        self.runs.end(run_id, status, end_ms)
        self._running.discard(run_id)

    def _delete(self, run_id: str) -> None:
        self.runs.delete(run_id)
        self._running.discard(run_id)


class SafeTracker:
    """A tracker that never stops a measurement: one line says the first failure, and only the end is tried again.

    Without a tracker (MLflow switched off, or its store down) every call does nothing.
    """

    def __init__(self, tracker: Tracker | None, folder: Path) -> None:
        self.tracker, self.folder = tracker, folder
        self.failed = False

    def start_sweep(self, sweep: Mapping[str, Any]) -> None:
        if not self.failed:
            self._attempt(lambda tracker: tracker.start_sweep(sweep))

    def log_point(self, point: Point, folder: Path) -> None:
        if not self.failed:
            self._attempt(lambda tracker: tracker.log_point(point, folder))

    def finish_sweep(self, folder: Path, status: str | None = None) -> bool:
        """Completes what an earlier failure left out, if the store is back. Whether all is there."""
        failed_before = self.failed
        done = self._attempt(lambda tracker: tracker.mirror(folder, status))
        if failed_before and done:
            log.warning("MLflow is complete after all: %s is mirrored", self.folder)
        return done

    def close_leftovers(self) -> None:
        self._attempt(lambda tracker: tracker.close_leftovers())

    def _attempt(self, action: Callable[[Tracker], object]) -> bool:
        if self.tracker is None:
            return False
        if self.failed:
            self.tracker.forget()
        try:
            action(self.tracker)
        except Exception as error:  # a mirror that fails is no reason to lose a measurement
            if not self.failed:
                self.failed = True
                log.warning(
                    "MLflow failed (%s); measured results are complete in %s; "
                    "mirror later with: python -m roofexp.track %s",
                    one_line(error),
                    self.folder,
                    self.folder,
                )
            return False
        except BaseException:  # a signal: a run may be there that nothing here knows of
            self.tracker.forget()
            raise
        return True
