"""What the processes that measure are started with: threads, bindings, caches."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from roofexp.config.paths import PACKAGE, cache_folder, kernels_folder

PREFIXES = (  # threads and their places, instruction sets, debugging modes, memory allocation, of every library
    *("OMP_", "GOMP_", "KMP_", "LIBOMP_", "CRAY_OMP_", "TBB_", "NUMBA_", "LLVMLITE_"),
    *("MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "ATLAS_", "VECLIB_", "NUMEXPR_", "ONEDNN_", "DNNL_", "NPY_"),
    *("MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONINSPECT"),
    *("PYTHONPROFILEIMPORTTIME", "PYTHONWARNINGS", "PYTHONIOENCODING"),
    *("CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_SCALE_LAUNCH_QUEUES"),
    *("NVIDIA_TF32_OVERRIDE", "CUBLAS_", "CUBLASLT_", "CUPY_TF32", "CUPY_ACCELERATORS", "TORCH_ALLOW_TF32"),
)

NAMED_ONLY = ("LD_PRELOAD", "LD_AUDIT", "LD_BIND_NOW")  # a program may not start without them: the doctor names them


def changes_measurements(name: str) -> bool:
    """Whether a variable of this name could make the same kernel run otherwise than on a clean shell."""
    return name.startswith(PREFIXES)


def worker_environment(device: str, kernel_roots: Iterable[Path] = ()) -> dict[str, str]:
    """Libraries read their thread counts when they are imported, so the process is started with them set. What the
    user's shell says about threads and libraries counts for nothing: a measurement is the machine's."""
    from roofexp.devices import parse_device
    from roofexp.devices.cpu.machine import cores_in_use, usable_cores

    kind, number = parse_device(device)
    cores, by_core = cores_in_use(number if kind == "cpu" else None), usable_cores().by_core
    cache = cache_folder()
    environment = {name: value for name, value in os.environ.items() if not changes_measurements(name)}
    # a job may run in another folder than the one that the program was started from
    paths = [str(PACKAGE.parent), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    for library in ("NUMBA", "OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "VECLIB"):
        environment[f"{library}_{'MAXIMUM' if library == 'VECLIB' else 'NUM'}_THREADS"] = str(len(cores))
    environment |= {
        # unbound threads may share one core for a whole measurement, at half the rate
        "OMP_PROC_BIND": "close",
        "OMP_PLACES": ",".join("{" + ",".join(map(str, by_core.get(core, [core]))) + "}" for core in cores),
        "OMP_DYNAMIC": "false",
        "NUMBA_THREADING_LAYER_PRIORITY": "omp tbb workqueue",  # the first alone binds its threads
        # these stand above a .numba_config.yaml in the working folder too
        **dict.fromkeys(("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK", "NUMBA_DEBUG"), "0"),
        "NUMBA_CACHE_DIR": str(cache / f"numba-{kernel_files_hash(kernel_roots)}"),
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }
    environment.setdefault("ROOFEXP_CACHE_DIR", str(cache))
    return environment


def kernel_files_hash(kernel_roots: Iterable[Path] = ()) -> str:
    """Of the code in the project's folder and in ``kernel_roots``: numba keeps compiled code by the file that a
    function stands in, and does not see what that file imports."""
    digest = hashlib.sha256()
    for file in sorted({file.resolve() for root in (kernels_folder(), *kernel_roots) for file in root.rglob("*.py")}):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
