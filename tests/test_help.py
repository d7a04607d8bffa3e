"""The help: what can be chosen, the user's own files too, and nothing loaded for it."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from roofexp import __version__, commands
from roofexp.commands import COMMANDS, run_command
from roofexp.commands.run import run
from roofexp.errors import BadInputError

HEAVY = ("hydra", "numba", "mlflow", "pandas")


@pytest.mark.parametrize("option", [("--config-dir", "mine"), ("--config-dir=mine",), ("-cd", "mine")])
def test_help_lists_every_group_and_the_users_own(program, tmp_path: Path, option: tuple[str, ...]) -> None:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernel/my_own.yaml").write_text("name: my_own\n")
    done = program("--help", *option, bare=True)
    assert done.returncode == 0
    listed = {line.split(":")[0].strip(): line for line in done.stdout.splitlines() if ":" in line}
    for group in ("kernel", "precision", "timing", "cache", "experiment", "kernel/roofs", "case"):
        assert group in listed
    assert "my_own" in listed["kernel"]
    assert "saxpy" in listed["kernel"]
    assert "gemm_torch_bf16_8192" in listed["case"]


def test_help_lists_every_command_with_its_description(program) -> None:
    modules = {info.name for info in pkgutil.iter_modules(commands.__path__)} - {"run", "help"}
    assert set(COMMANDS) == modules
    lines = [line.split(maxsplit=1) for line in program("--help", bare=True).stdout.splitlines()]
    for name, description in COMMANDS.items():
        assert [name, description] in lines


def test_help_needs_no_library(program) -> None:
    done = program("--help", bare=True, PYTHONPROFILEIMPORTTIME="1")
    for library in (*HEAVY, "omegaconf"):
        assert f" {library}\n" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_starts_light(program, name: str) -> None:
    done = program("--help", bare=True, module=f"roofexp.{name}", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: python -m roofexp.{name} ")
    assert COMMANDS[name] in done.stdout
    for library in HEAVY:
        assert f" {library}\n" not in done.stderr


def test_a_command_starts_by_its_name_as_first_word(program) -> None:
    done = program("gate", "--example", bare=True)
    assert done.returncode == 0
    assert "rules:" in done.stdout
    refused = program("gate", "nowhere", bare=True)
    assert refused.returncode == 2
    assert refused.stderr.startswith("roofexp.gate: nowhere")
    assert refused.stderr.count("\n") == 1


def test_version(program) -> None:
    assert program("--version", bare=True).stdout == f"roofexp {__version__}\n"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (BadInputError("a: no such thing"), 2, "roofexp.doctor: a: no such thing\n"),
        (
            OSError(28, "No space left on device", "outputs/x"),
            2,
            "roofexp.doctor: outputs/x: No space left on device\n",
        ),
        (KeyboardInterrupt(), 130, "roofexp.doctor: interrupted\n"),
    ],
)
def test_every_command_ends_with_one_line_and_the_right_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, error: BaseException, code: int, message: str
) -> None:
    def fail(options: object) -> int:
        raise error

    monkeypatch.setattr("roofexp.commands.doctor.run", fail)
    assert run_command("doctor", []) == code
    assert capsys.readouterr().err == message


def test_a_reader_that_leaves_is_no_error() -> None:
    words = [sys.executable, "-m", "roofexp.gate", "--example"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_reader_that_goes_away_is_no_bad_input(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    class Closed:
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Closed())
    with pytest.raises(BrokenPipeError):
        run(["--help"])
    assert capfd.readouterr().err == ""
