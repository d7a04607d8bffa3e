"""The wheel holds all that the program needs, and runs where there is no source tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from roofexp.commands import main
from tests.conftest import QUICK, ROOT

FOLDERS = {"roofexp": "roofexp", "conf": "roofexp/conf", "kernels": "roofexp/kernels"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True,
        capture_output=True,
    )  # fmt: skip
    return next(folder.glob("*.whl"))


def test_every_file_is_in_the_wheel(wheel: Path) -> None:
    expected = set()
    for folder, place in FOLDERS.items():
        for file in (ROOT / folder).rglob("*"):
            inside = file.relative_to(ROOT / folder)
            if file.is_file() and "__pycache__" not in inside.parts and "local" not in inside.parts:
                expected.add(f"{place}/{inside.as_posix()}")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == expected
    assert {"roofexp/conf/config.yaml", "roofexp/kernels/common.cuh", "roofexp/placing/limits.yaml"} <= held


def test_the_console_script_is_there(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        lines = archive.read(name).decode().splitlines()
    scripts = dict(line.split(" = ") for line in lines if " = " in line)
    assert EntryPoint("roofexp", scripts["roofexp"], "console_scripts").load() is main


def test_a_sweep_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path, cache_folder: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "elsewhere").mkdir()
    code = "import runpy, roofexp; print(roofexp.__file__); runpy.run_module('roofexp', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, *QUICK, "kernel=vadd", "size=1000,2000", "-m"], cwd=tmp_path / "elsewhere",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "XDG_CACHE_HOME": str(cache_folder)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))
    (folder,) = (tmp_path / "elsewhere/outputs/vadd").iterdir()
    assert [json.loads((folder / f"{job}/point.json").read_text())["status"] for job in (0, 1)] == ["ok", "ok"]
    assert (folder / "report.html").is_file()
    runtime = (folder / "0/.hydra/hydra.yaml").read_text()
    assert str(tmp_path / "site/roofexp/conf") in runtime
    assert str(ROOT) not in runtime
