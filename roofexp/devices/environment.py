"""What the processes that measure are started with: threads, bindings, caches."""

from __future__ import annotations

import hashlib
import os

from roofexp.config.paths import PACKAGE, cache_folder, kernels_folder


def worker_environment(device: str) -> dict[str, str]:
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
    environment.setdefault("NUMBA_CACHE_DIR", str(cache / f"numba-{kernel_files_hash()}"))
    environment.setdefault("ROOFEXP_CACHE_DIR", str(cache))
    return environment


def kernel_files_hash() -> str:
    """numba keeps compiled code by the file that a function stands in, and does not see what that file imports."""
    digest = hashlib.sha256()
    for file in sorted(kernels_folder().rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
