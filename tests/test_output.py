"""Texts and outputs: what cannot be shown is written as numbers, and printing never stops measuring."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest

from roofexp.config.paths import ensure_home
from roofexp.text.console import first_line, one_line, printable
from roofexp.tracking.store import check_database, resolve_store, sqlite_address
from tests.conftest import QUICK, Run, python_path

HOSTILE = """
import os
def esc(x, y):
    if os.environ.get("KIND") == "surrogate":
        raise RuntimeError("cannot open " + os.fsdecode(b"gr\\xf6sse.bin"))
    raise RuntimeError("\\x1b[31mno \\x00 device\\x1b[0m \\uffff \\u202ereversed")
"""

KERNEL = """
name: esc
size: 1000
shape: {n: "${size}"}
operands: {x: {shape: [n], role: in}, y: {shape: [n], role: out}}
work: {flops: n, bytes: 2*n*itemsize}
reference: 2*x
precisions: [fp64, fp32]
cpu: {function: "esc.py:esc"}
"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mno \x00 device\uffff", r"\x1b[31mno \x00 device\uffff"),
        (os.fsdecode(b"gr\xf6sse"), r"gr\xf6sse"),
        ("\ud800\u202e\u2028\x9b", r"\ud800\u202e\u2028\x9b"),
        ("tab\tand\nline, größe, 測定, 👩‍🔬, µs, 1 024", "tab\tand\nline, größe, 測定, 👩‍🔬, µs, 1 024"),
    ],
)
def test_what_cannot_be_shown_is_written_as_its_number(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert one_line(ValueError(text)) == f"ValueError: {first_line(ValueError(text))}"
    printable(text).encode()


def test_an_error_with_control_characters_is_clean_everywhere(program: Run, tmp_path: Path) -> None:
    for name, text in {"kernels/esc.py": HOSTILE, "kernel/esc.yaml": KERNEL}.items():
        (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / name).write_text(text)
    (tmp_path / "gate.yaml").write_text("rules:\n  - {rule: fraction >= 1 %}\n")
    done = program("--config-dir", "conf", "kernel=esc", "size=1000", "name=x", "--gate", "gate.yaml")
    said = r"RuntimeError: \x1b[31mno \x00 device\x1b[0m \uffff \u202ereversed"
    assert said in done.stdout
    (folder,) = (tmp_path / "outputs/x").iterdir()
    for file in ("points.csv", "report.html", "gate.md", "gate.xml", "0/point.json"):
        data = (folder / file).read_bytes()
        assert not set(data) & {0, 0x1B}, file
        assert "\uffff" not in data.decode()
        assert "\u202e" not in data.decode()
    assert said in xml.dom.minidom.parse(str(folder / "gate.xml")).toxml()
    assert r"cannot open gr\xf6sse.bin" in program("--config-dir", "conf", "kernel=esc", KIND="surrogate").stdout


@pytest.mark.parametrize(
    ("encoding", "redirection"),
    [
        *((encoding, "> log 2>&1") for encoding in ("ascii", "cp932", "gbk", "latin-1")),
        *(("utf-8", redirection) for redirection in (">&- 2>&-", "<&- >&- 2>&-", "| head -c 1", "> /dev/full 2>&1")),
    ],
)
def test_an_output_that_cannot_be_written_ends_no_sweep(
    tmp_path: Path, cache_folder: Path, encoding: str, redirection: str
) -> None:
    words = [sys.executable, "-m", "roofexp", *QUICK, "kernel=vadd", "size=1000,2000", "name=x", "-m"]
    environment = {"PYTHONPATH": python_path(), "XDG_CACHE_HOME": str(cache_folder), "PYTHONIOENCODING": encoding}
    subprocess.run(
        ["bash", "-c", f"{' '.join(words)} {redirection}"],
        cwd=tmp_path, env={**os.environ, **environment}, timeout=240, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    (folder,) = (tmp_path / "outputs/x").iterdir()
    assert (folder / "report.html").is_file()
    assert len(list(folder.rglob("point.json"))) == 2


@pytest.mark.parametrize("name", ["a%20b", "a b", "a?b", "a#b", "50%", "a&b=c", "größe"])
def test_the_address_of_a_database_is_that_of_its_folder(tmp_path: Path, name: str) -> None:
    from sqlalchemy import create_engine

    folder = tmp_path / name
    folder.mkdir()
    (tmp_path / "a b").mkdir(exist_ok=True)  # the neighbour
    address = resolve_store("sqlite", None, folder)
    with create_engine(address.client_uri).connect() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
        for table in ("experiments", "runs", "metrics"):
            connection.exec_driver_sql(f"CREATE TABLE {table} (x)")
        connection.commit()
    assert [file.parent.name for file in tmp_path.rglob("mlflow.db")] == [name]
    assert check_database(folder / "mlflow.db") == ""  # the probe reads the same file
    assert resolve_store("sqlite", sqlite_address(folder / "mlflow.db"), tmp_path).database == folder / "mlflow.db"


def test_no_home_folder_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(
        "import os, pwd\nos.environ.pop('HOME', None)\n"
        "def none(number):\n    raise KeyError(number)\npwd.getpwuid = none\n"
    )
    variables = {"PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{python_path()}", "TMPDIR": str(tmp_path / "tmp")}
    done = program("kernel=vadd", "size=1000", "tracking=sqlite", XDG_CACHE_HOME="", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("there is no home folder") == 1
    (private,) = (tmp_path / "tmp").glob("roofexp-*")
    assert private.stat().st_mode & 0o077 == 0
    before = os.environ.get("HOME")
    ensure_home()
    assert os.environ.get("HOME") == before


COUNTER = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
HEAD = f'"ID","Process ID","Kernel Name","CC","gpu__time_duration.sum","dram__bytes.sum","{COUNTER}"'
ROWS = [HEAD, '"","","","","ns","byte","inst"', '"0","1","k$\\frac$x","9.0","200000","800000000","67108864"']


@pytest.mark.parametrize("rc", [b"text.usetex: True\nfont.size: 30\nsavefig.dpi: 20\nbackend: QtAgg\n", b"\xff\xfe"])
def test_the_users_matplotlibrc_and_a_dollar_in_a_name_change_no_figure(
    program: Run, tmp_path: Path, rc: bytes
) -> None:
    (tmp_path / "a.csv").write_text("\n".join(ROWS) + "\n")
    words = ("a.csv", "--machine", "h200", "--figure")
    assert program(*words, "clean", bare=True, module="roofexp.place").returncode == 0
    (tmp_path / "matplotlibrc").write_bytes(rc)
    done = program(*words, "with_rc", bare=True, module="roofexp.place")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "with_rc.png").read_bytes() == (tmp_path / "clean.png").read_bytes()
    assert r"k$\frac$x" in (tmp_path / "with_rc.svg").read_text()
