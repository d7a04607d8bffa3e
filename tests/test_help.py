"""The help: what can be chosen, the user's own files too, and nothing loaded for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofexp.commands.run import run


def test_help_lists_every_group_and_the_users_own(program, tmp_path: Path) -> None:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernel/my_own.yaml").write_text("name: my_own\n")
    done = program("--help", "--config-dir", "mine", bare=True)
    assert done.returncode == 0
    listed = {line.split(":")[0].strip(): line for line in done.stdout.splitlines() if ":" in line}
    for group in ("kernel", "precision", "timing", "cache", "experiment", "kernel/roofs", "case"):
        assert group in listed
    assert "my_own" in listed["kernel"]
    assert "saxpy" in listed["kernel"]
    assert "gemm_torch_bf16_8192" in listed["case"]


def test_help_needs_no_library(program) -> None:
    done = program("--help", bare=True, PYTHONPROFILEIMPORTTIME="1")
    for library in ("hydra", "numba", "mlflow", "pandas", "omegaconf"):
        assert f" {library}\n" not in done.stderr


def test_a_reader_that_goes_away_is_no_bad_input(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    class Closed:
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Closed())
    with pytest.raises(BrokenPipeError):
        run(["--help"])
    assert capfd.readouterr().err == ""
