"""Whose roofs are asked for, without opening the device: a second look at the table must cost nothing."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.paths import conf_folder, kernel_roots
from roofexp.config.settings import TimingSettings
from roofexp.config.yaml_file import read_mapping
from roofexp.devices import parse_device
from roofexp.errors import BadInputError
from roofexp.records.machine import Machine, RoofSet
from roofexp.roofs.benchmark import Benchmark, planned_precisions
from roofexp.roofs.store import RoofStore, read_stored, stored_file


def known_machine_id(request: str) -> str | None:
    """The machine's id for a device as it is written in the configuration; None where only the device itself can say.

    A CPU is described by the operating system. A GPU is asked through NVML, which needs no context; which of several
    GPUs CUDA calls the first only CUDA knows.
    """
    kind, number = parse_device(request)
    if kind == "cpu" or (kind == "auto" and find_spec("cupy") is None):
        from roofexp.devices.cpu.machine import describe_cpu

        return describe_cpu(number).machine_id
    if os.environ.get("CUDA_VISIBLE_DEVICES") is not None or number:
        return None
    try:
        return _only_gpu()
    except Exception:  # no NVML, no driver, more than one GPU
        return None


def _only_gpu() -> str | None:
    import pynvml

    from roofexp.devices.cuda.machine import gpu_id, managed, slice_profile
    from roofexp.devices.nvml import Nvml

    pynvml.nvmlInit()
    if pynvml.nvmlDeviceGetCount() != 1:
        return None
    uuid = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0))
    uuid = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
    nvml = Nvml(uuid, "")
    details = managed(nvml)
    if details["mig"] or slice_profile(str(nvml.ask("GetName"))):
        return None  # which slice this process has, CUDA alone knows
    return gpu_id(uuid, details)


CLOCK_MODE = "observe"  # roofs are kept per cycle and redrawn at other clocks: one mode serves the command


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the command was asked for. ``precisions``: empty for all that the list has."""

    precisions: list[str] = []
    extra: bool = False
    sustained: bool = False
    again: bool = False
    cached: bool = False  # show what is known; measure nothing
    fill: str = "normal"


class RoofSession:
    """``device`` as in the configuration; ``folders`` are configuration folders, the user's first."""

    def __init__(self, device: str, wanted: Wanted, outputs: Path, folders: Sequence[Path] = ()) -> None:
        self._device, self._wanted, self._outputs = device, wanted, outputs
        self._folders = [*folders, conf_folder()]
        policy = "cached" if wanted.cached else "measure"
        self._config = {**roofs_config(self._folders), "fill": wanted.fill, "policy": policy}
        self._worker: Any = None
        self._use: Any = None
        self._announce: Callable[[str], None] = print
        self.fallback: str | None = None  # why device=auto did not take the GPU

    def roofs(self, announce: Callable[[str], None]) -> RoofSet:
        """Measures what is missing, when no other process measures on the device. Raises BadInputError for a device
        that is not there and an unknown precision."""
        self._announce = announce
        store = self.store()
        benchmarks = self._benchmarks(store)
        if self._wanted.cached:
            return self._known(store)
        if self._wanted.again:
            store.forget(benchmarks)
        missing = store.missing(benchmarks)
        timing = default_timing(self._folders)
        if missing:
            store = self._on_device(store)
            store.measure(missing, timing, self._run, announce)
        lasting = store.without_sustained(benchmarks) if self._wanted.sustained else []
        if lasting:
            store = self._on_device(store)
            store.sustain(lasting, timing, self._run, announce)
        return store.set

    def _known(self, store: RoofStore) -> RoofSet:
        if not store.set.roofs:
            raise BadInputError(f"--cached: no roofs of {store.set.machine.name} are kept in {self._outputs / 'roofs'}")
        return store.set

    def store(self) -> RoofStore:
        """Of the machine as it is known without opening it, where its roofs are stored; else of the opened one."""
        machine_id = known_machine_id(self._device)
        if machine_id is not None:
            stored = read_stored(stored_file(self._outputs / "roofs", machine_id, CLOCK_MODE, self._wanted.fill))
            if stored is not None:
                return self._store_of(stored.machine)
        return self._store_of(self._open())

    def _store_of(self, machine: Machine) -> RoofStore:
        return RoofStore(self._outputs / "roofs", machine, CLOCK_MODE, self._config, self._folders)

    def _on_device(self, store: RoofStore) -> RoofStore:
        """The machine may be another one than the files made it look."""
        machine = self._open(alone=True)
        if machine.machine_id == store.set.machine.machine_id:
            return store
        return self._store_of(machine)

    def _benchmarks(self, store: RoofStore) -> list[Benchmark]:
        entries = self._config.get(store.set.machine.device, {})
        known = planned_precisions(entries, extra=True)
        unknown = [name for name in self._wanted.precisions if name not in known]
        if unknown:
            raise BadInputError(f"--precision {','.join(unknown)}: roofs of this device are {', '.join(known)}")
        precisions = self._wanted.precisions or planned_precisions(entries, self._wanted.extra)
        # a precision that was named is measured, though no sweep waits for it
        named = [b for b in store.benchmarks(self._wanted.precisions, True) if not _is_ceiling_or_shared(b)]
        found = [*store.benchmarks(precisions, self._wanted.extra), *named]
        return list({benchmark.name: benchmark for benchmark in found}.values())

    def _open(self, alone: bool = False) -> Machine:
        """``alone``: to measure, and not only to look."""
        if self._worker is None:
            from roofexp.measure.device_use import DeviceUse
            from roofexp.measure.worker import Worker

            self._worker = Worker(self._device, kernel_roots(self._folders))
            self._use = DeviceUse(self._device, self._worker, self._announce)
        machine: Machine = self._use.start() if alone else self._worker.start()
        self.fallback = self._worker.fallback
        return machine

    def _run(self, request: Any) -> Any:
        return self._worker.run(request)

    def counted(self, announce: Callable[[str], None]) -> RoofSet:
        """The roofs with checks by counters, which are counted by a process of their own."""
        from roofexp.roofs.counter_check import count_roofs

        store = self.store()
        self._close()
        return count_roofs(store, self._device, announce)

    def stop(self) -> None:
        self._close()
        if self._use is not None:
            self._use.release()

    def _close(self) -> None:
        if self._worker is not None:
            with contextlib.suppress(OSError):
                self._worker.stop()


def _is_ceiling_or_shared(benchmark: Benchmark) -> bool:
    return benchmark.kind != "compute" or benchmark.ceiling_of is not None


def roofs_config(folders: Sequence[Path]) -> dict[str, Any]:
    """The ``roofs`` group as a sweep has it, so that both keep and find the same roofs. Raises BadInputError."""
    from omegaconf import OmegaConf

    from roofexp.config.schema import RoofsConfig

    read = _yaml("roofs/measure.yaml", folders)
    config = OmegaConf.to_container(OmegaConf.merge(OmegaConf.structured(RoofsConfig), read), enum_to_str=True)
    assert isinstance(config, dict)
    return {str(key): value for key, value in config.items()}


def default_timing(folders: Sequence[Path]) -> TimingSettings:
    from omegaconf import OmegaConf

    return msgspec.convert(OmegaConf.to_container(_yaml("timing/default.yaml", folders)), TimingSettings)


@functools.cache
def _loaded(file: Path) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.create(read_mapping(file))


def _yaml(name: str, folders: Sequence[Path]) -> Any:
    for folder in folders:
        if (folder / name).is_file():
            return _loaded(folder / name)
    raise BadInputError(f"no {name} in: {', '.join(str(folder) for folder in folders)}")
