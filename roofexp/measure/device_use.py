"""A device opened while no other process measures on it, and kept from others until it is let go."""

from __future__ import annotations

import contextlib
import functools

from roofexp.devices import parse_device
from roofexp.devices.cpu.machine import cores_in_use
from roofexp.devices.device_lock import DeviceLock, Say, core_names
from roofexp.measure.worker import Worker
from roofexp.records.machine import Machine

PRINT = functools.partial(print, flush=True)  # who waits is told at once, also through a pipe


class DeviceUse:
    """``device`` as in the configuration; ``worker`` owns it."""

    def __init__(self, device: str, worker: Worker, say: Say = PRINT) -> None:
        self._device, self._worker, self._say = device, worker, say
        self._lock: DeviceLock | None = None
        self.waited_s = 0.0

    def start(self) -> Machine:
        """Waits for the device, and opens it. Raises BadInputError when it is not there."""
        if self._lock is not None:
            return self._worker.start()
        kind, number = parse_device(self._device)
        if kind == "cpu":
            self._wait(DeviceLock(core_names(cores_in_use(number))))
            return self._worker.start()
        machine = self._worker.start()  # which GPU CUDA means by a number it says itself
        gpu = self._worker.identity.get("uuid")
        lock = DeviceLock([gpu] if gpu else core_names(cores_in_use(None)))
        if lock.acquire_at_once():
            self._lock = lock
            return machine
        self._worker.stop()  # an open device takes memory, and disturbs who measures
        self._wait(lock)
        return self._worker.start()

    def kept(self) -> contextlib.AbstractContextManager[None]:
        """The device stays this process's until the end of the block, whatever is stopped inside."""
        return DeviceLock(self._lock.names if self._lock else []).taken(self._say)

    def release(self) -> None:
        """Lets others have the device."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _wait(self, lock: DeviceLock) -> None:
        self.waited_s += lock.acquire(self._say)
        self._lock = lock
