"""What the tests share: the program run as a user runs it, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from roofexp.devices.device_lock import FOLDER
from roofexp.devices.environment import kernel_files_hash

ROOT = Path(__file__).parent.parent
QUICK = [
    *("timing=quick", "timing.budget_s=0.05", "timing.warmup_s=0.02", "tracking=none", "roofs=none", "device=cpu"),
    *(
        "cache=hot",
        "figures=none",
    ),  # flushing and drawing take longer than all the rest; tests that look at them say so
]
CACHE = Path(os.environ.get("ROOFEXP_TEST_CACHE") or ROOT / ".cache")  # compiled kernels, by their sources
NUMBA_CACHE = CACHE / "roofexp" / f"numba-{kernel_files_hash()}"  # as the worker names it
os.environ.setdefault("NUMBA_CACHE_DIR", str(NUMBA_CACHE))  # read when numba is imported
LOCKS = tempfile.TemporaryDirectory()  # tests that measure at once check no times: each process has locks of its own
os.environ[FOLDER] = LOCKS.name

Run = Callable[..., subprocess.CompletedProcess[str]]


def python_path() -> str:
    """This tree before what the tests themselves were given."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


@pytest.fixture(scope="session")
def cache_folder() -> Path:
    """Compiled kernels are kept from one run of the tests to the next."""
    return CACHE


@pytest.fixture
def program(tmp_path: Path, cache_folder: Path) -> Run:
    """``program("size=8")`` is ``python -m roofexp size=8`` in a fresh folder; quick settings unless ``bare``."""

    def run(
        *arguments: str, bare: bool = False, module: str = "roofexp", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        words = list(arguments) if bare else [*QUICK, *arguments]
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": python_path(), "XDG_CACHE_HOME": str(cache_folder), **environment},
            capture_output=True,
            text=True,
            timeout=240,
        )

    return run


@pytest.fixture
def sweep_folder(tmp_path: Path) -> Callable[[], Path]:
    """The newest sweep folder that the program wrote."""

    def newest() -> Path:
        folders = [file.parent for file in (tmp_path / "outputs").glob("*/*/sweep.yaml")]
        assert folders, "no sweep was written"
        return max(folders, key=lambda folder: folder.name)

    return newest
