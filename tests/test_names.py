"""Names and folders are kept as they were typed, and results lie where they were asked for."""

from __future__ import annotations

import errno
from pathlib import Path

import filelock
import pytest

from roofexp.commands.run import as_typed
from roofexp.config.yaml_file import parse_yaml, yaml_text
from roofexp.errors import BadInputError
from roofexp.records.files import lock_held
from roofexp.run.claim import claim_folder
from tests.conftest import Run


@pytest.mark.parametrize(
    ("typed", "passed"),
    [
        ("name=12e4567", "name='12e4567'"),
        ("name=1_1_1", "name='1_1_1'"),
        ("name=True", "name='True'"),
        ("name=-.5", "name='-.5'"),
        ("name=1e3,second,7.0", "name='1e3',second,'7.0'"),
        ("kernel=3e5", "kernel='3e5'"),
        ("+case=1e3", "+case='1e3'"),
        ("tracking.experiment=inf", "tracking.experiment='inf'"),
        ("name=vadd", "name=vadd"),
        ("name='1e3'", "name='1e3'"),
        ("name=${kernel.name}", "name=${kernel.name}"),
        ("kernel=glob(vad*)", "kernel=glob(vad*)"),
        ("size=1e6", "size=1000000"),
        ("size=1.5e3,2E2,64", "size=1500,200,64"),
        ("seed=1e3", "seed=1000"),
        ("size=1.5", "size=1.5"),
        ("size=1.25e1", "size=1.25e1"),
        ("timing.budget_s=1e-3", "timing.budget_s=1e-3"),
    ],
)
def test_texts_stay_as_typed_and_whole_numbers_are_taken(typed: str, passed: str) -> None:
    assert as_typed(typed) == passed


@pytest.mark.parametrize("name", ["12e4567", "1e3", "1_000", "0x1f", "1:30", "null", "2026-12-01", "yes", "1.", "~"])
def test_yaml_that_is_written_is_read_as_the_same(name: str) -> None:
    content = {"name": name, "arguments": [name], "seconds": 1e30, "count": 3}
    assert parse_yaml(yaml_text(content), "x") == content


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["name=12e4567"], "12e4567"),
        (["name=1e3", "size=1e3"], "1e3"),
        (["kernel=glob(vad*)", "-m"], "vadd"),
        (["kernel='vadd','dot'", "-m"], "vadd+dot"),
        (["kernel=choice('vadd',dot)", "-m"], "vadd+dot"),
    ],
    ids=lambda value: str(value),
)
def test_a_sweep_lies_under_its_name(program: Run, tmp_path: Path, words: list[str], folder: str) -> None:
    kernel = [] if any(word.startswith("kernel=") for word in words) else ["kernel=vadd"]
    size = [] if "size=1e3" in words else ["size=1000"]
    done = program(*kernel, *size, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each.name for each in (tmp_path / "outputs").iterdir()] == [folder]


def test_a_size_that_is_no_whole_number_is_refused_with_the_way_to_write_one(program: Run) -> None:
    done = program("kernel=vadd", "size=1.5")
    assert done.returncode == 2
    assert "size: " in done.stderr
    assert "in digits, as 1000000" in done.stderr


@pytest.mark.parametrize(
    ("words", "points"),
    [
        (["hydra.run.dir=."], ["0/point.json"]),
        (["hydra.run.dir=mine"], ["mine/0/point.json"]),
        (["hydra.run.dir=mine/5"], ["mine/0/point.json"]),
        (["hydra.output_subdir=null", "hydra.run.dir=x"], ["x/0/point.json"]),
        (["hydra.sweep.dir=mine", "size=1000,2000", "-m"], ["mine/0/point.json", "mine/1/point.json"]),
    ],
    ids=lambda value: str(value),
)
def test_results_lie_where_they_were_asked_for(
    program: Run, tmp_path: Path, words: list[str], points: list[str]
) -> None:
    done = program("kernel=vadd", "size=1000", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(points)} ok" in done.stdout
    assert sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("point.json")) == points


def test_points_that_would_share_a_folder_are_refused(program: Run, tmp_path: Path) -> None:
    done = program("kernel=vadd", "size=1000,2000", "hydra.sweep.subdir=x", "-m")
    assert done.returncode == 2
    assert "hydra.sweep.subdir" in done.stderr
    assert not list(tmp_path.rglob("point.json"))


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_gets_a_softer_one(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, "no locks here")

    monkeypatch.setattr("fcntl.flock", refuse)
    with lock_held(tmp_path / "roofs.json.lock", 0), pytest.raises(filelock.Timeout):
        filelock.SoftFileLock(f"{tmp_path / 'roofs.json.lock'}.soft").acquire(timeout=0)
    assert f"the file system of {tmp_path} has no locks" in capsys.readouterr().out
    folder, lock = claim_folder(tmp_path / "mine", None)
    with pytest.raises(BadInputError, match="another process is measuring"):
        claim_folder(tmp_path / "mine", folder.resolve())
    lock.release()
    claim_folder(tmp_path / "mine", folder.resolve())[1].release()


def test_a_lock_that_cannot_be_written_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(BadInputError, match=r"mine cannot be written .Input/output error.; choose another: outputs="):
        claim_folder(tmp_path / "mine", None)
