"""What stays between the points of one process: the worker that owns the device, the machine and its roofs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from roofexp.clocks.hold import ClockHold, HoldResult, Target
from roofexp.clocks.journal import ncu_or_none, open_gpu
from roofexp.config.paths import cache_folder, kernel_roots
from roofexp.config.settings import TimingSettings
from roofexp.devices import parse_device
from roofexp.devices.cpu.machine import missing_cores
from roofexp.devices.environment import worker_environment
from roofexp.errors import SkippedError
from roofexp.measure.bench import Progress, Reply, Request
from roofexp.measure.device_use import DeviceUse
from roofexp.measure.worker import Worker
from roofexp.records.machine import Machine, RoofSet
from roofexp.records.sweep_folder import write_machine, write_roofs
from roofexp.roofs.store import TAKES_THEM, Announce, RoofStore, notice, read_stored, stored_file


class Session:
    """One device of one process."""

    def __init__(self, device: str, config_folders: list[Path]) -> None:
        self._device = device
        self._worker = Worker(device, kernel_roots(config_folders))
        self.use = DeviceUse(device, self._worker)
        self._config_folders = config_folders
        self._stores: dict[str, RoofStore] = {}  # by all that makes one set of roofs another
        self._written: set[Path] = set()
        self._clocks = ClockHold(cache_folder() / "clocks", open_gpu, ncu_or_none)

    def open(self) -> Machine:
        """Waits for the device and starts the worker. Raises BadInputError when the device asked for is not there."""
        return self.use.start()

    def machine(self, sweep: Path) -> Machine:
        """As ``open`` where that is still to be done; the machine is written beside the sweep's points."""
        machine = self.use.start()
        if sweep not in self._written:
            write_machine(sweep, machine)
            self._written.add(sweep)
        return machine

    @property
    def fallback(self) -> str | None:
        return self._worker.fallback

    def run(self, request: Request, progress: Progress = lambda time_s: None) -> Reply:
        return self._worker.run(request, progress)

    def roofs(self, config: dict[str, Any], outputs: Path, sweep: Path, announce: Announce) -> RoofSet | None:
        """The roofs for a point's precision and clock mode: from the store, or measured now, with the clocks held as
        for the point. Of a soak too they are short measurements."""
        machine, mode = self.machine(sweep), self.hold_clocks(config["clock"], announce).roofs_mode
        key = json.dumps([str(outputs), mode, config["roofs"]], sort_keys=True, default=str)
        if key not in self._stores:
            store = RoofStore(outputs / "roofs", machine, mode, config["roofs"], self._config_folders)
            self._stores[key] = store
            if store.saved_s:
                announce(f"roofs of this machine are known: {store.saved_s:.0f} s saved")
        timing = msgspec.structs.replace(TimingSettings(**config["timing"]), seconds=None)
        store, precision = self._stores[key], str(config["precision"]["name"])
        told = self._told(store, precision, config["roofs"], outputs, mode)
        if told:
            announce(told)
        found = store.ensure(precision, timing, self.run, announce)
        if told and store.set.disturbed:
            announce(TAKES_THEM)
        if found:
            write_roofs(sweep, found)
        return found

    def _told(
        self, store: RoofStore, precision: str, config: Mapping[str, Any], outputs: Path, mode: str
    ) -> str | None:
        """What is said before roofs are measured; None where none are."""
        missing = store.missing(store.benchmarks([precision])) if config["policy"] == "measure" else []
        if not missing:
            return None
        machine = store.set.machine
        file = stored_file(outputs / "roofs", machine.machine_id, mode, str(config.get("fill") or "normal"))
        return notice(missing, machine.device, read_stored(file), store.set.code_version)

    def hold_clocks(self, clock: Mapping[str, Any], say: Announce) -> HoldResult:
        """What the ``clock`` group asks for, held from now on until another one is asked for or the session stops."""
        return self._clocks.ensure(clock, self._target, say)

    def _target(self) -> Target:
        self.use.start()
        return Target(
            identity=self._worker.identity, worker_pid=self._worker.pid, environment=worker_environment(self._device)
        )

    def stop(self) -> None:
        try:
            self._worker.stop()
        finally:
            self._clocks.release()
            self.use.release()


def config_folders(hydra: Any) -> list[Path]:
    """Folders on Hydra's search path, the user's first."""
    sources = [source for source in hydra.runtime.config_sources if source.schema == "file"]
    return [Path(source.path) for source in sorted(sources, key=lambda source: source.provider == "main")]


class Sessions:
    """The devices that this process has opened, one at a time."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}
        self._waited_s = 0.0  # for devices that are closed again

    def get(self, device: str, config_folders: list[Path]) -> Session:
        """The session of a device. Another device's worker is ended first, so that its memory is free. Raises
        SkippedError for more cores than there are: fewer would be another machine."""
        kind, number = parse_device(device)
        lacking = missing_cores(number) if kind == "cpu" else None
        if lacking:
            raise SkippedError(f"device={device} {lacking}")
        if device not in self._open:
            self.stop()
            self._open[device] = Session(device, config_folders)
        return self._open[device]

    @property
    def waited_s(self) -> float:
        """For devices on which other processes measured."""
        return self._waited_s + sum(session.use.waited_s for session in self._open.values())

    def let_go(self) -> None:
        """Others may have the device until the next point: between two of them, in a launcher's process, it is not
        known whether there will be one."""
        for session in self._open.values():
            session.use.release()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Devices that are closed inside the block are nobody else's before its end."""
        with contextlib.ExitStack() as stack:
            for session in self._open.values():
                stack.enter_context(session.use.kept())
            yield

    def stop(self) -> None:
        self._waited_s = self.waited_s
        for session in self._open.values():
            session.stop()
        self._open.clear()
