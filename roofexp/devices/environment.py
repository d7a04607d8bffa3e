"""What the processes that measure are started with: threads, bindings, caches."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from roofexp.config.paths import PACKAGE, cache_folder, kernels_folder


def worker_environment(device: str, kernel_roots: Iterable[Path] = ()) -> dict[str, str]:
    """Libraries read their thread counts when they are imported, so the process is started with them set."""
    from roofexp.devices import parse_device
    from roofexp.devices.cpu.machine import cores_in_use

    kind, number = parse_device(device)
    threads = str(len(cores_in_use(number if kind == "cpu" else None)))
    cache = cache_folder()
    environment = dict(os.environ)
    # a job may run in another folder than the one that the program was started from
    paths = [str(PACKAGE.parent), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = threads
    # unbound threads may share one core for a whole measurement, at half the rate
    environment.setdefault("OMP_PROC_BIND", "close")
    environment.setdefault("OMP_PLACES", "cores")
    environment.setdefault("NUMBA_CACHE_DIR", str(cache / f"numba-{kernel_files_hash(kernel_roots)}"))
    environment.setdefault("ROOFEXP_CACHE_DIR", str(cache))
    return environment


def kernel_files_hash(kernel_roots: Iterable[Path] = ()) -> str:
    """Of the code in the project's folder and in ``kernel_roots``: numba keeps compiled code by the file that a
    function stands in, and does not see what that file imports."""
    digest = hashlib.sha256()
    for file in sorted({file.resolve() for root in (kernels_folder(), *kernel_roots) for file in root.rglob("*.py")}):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
