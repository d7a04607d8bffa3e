"""Folders that are damaged or foreign: one line names the file, and what can be used is used."""

from __future__ import annotations

import json
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from roofexp.commands import run_command
from roofexp.config.input_files import parse_table, unpacked
from roofexp.config.yaml_file import read_yaml
from roofexp.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_POINT_FAILED, BadInputError, DamagedFileError
from roofexp.records.archive import job_folders, read_sample_times, read_sweep_points
from roofexp.records.files import table_bytes
from roofexp.records.sweep_folder import read_roofs, read_sweep
from roofexp.roofs.store import read_stored
from tests.counted_sweep import make_sweep

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    folder = make_sweep(
        tmp_path_factory.mktemp("whole") / "sweep", ["kernel=vadd"], ["kernel=gemm", "precision=bf16", "size=4096"]
    )
    for job in (0, 1):
        config = folder / f"{job}/.hydra/config.yaml"
        config.write_text(config.read_text().replace("draw: true", "draw: false"))
        (folder / f"{job}/samples.csv").write_text("sample,at_s,time_s,launches\n0,0.1,2e-05,1\n1,0.2,1e-05,1\n")
    return folder


@pytest.fixture
def sweep(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "sweep"))


@pytest.fixture(scope="module")
def published(whole: Path) -> Path:
    target = whole.parent / "published"
    assert run_command("publish", [str(whole), str(target), "--dirty"]) == EXIT_OK
    return target


def edited(name: str, **changes: object) -> Damage:
    """A record with other values; ``timing.median_s`` is written ``timing__median_s``."""

    def damage(folder: Path) -> None:
        record = json.loads((folder / name).read_bytes())
        for key, value in changes.items():
            holder = record
            *path, last = key.split("__")
            for part in path:
                holder = holder[part]
            holder[last] = value
        (folder / name).write_text(json.dumps(record))

    return damage


def written(name: str, content: str | bytes) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return damage


def replaced(name: str, make: Callable[[Path], None]) -> Damage:
    """Something else than a file in its place."""

    def damage(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return damage


def deep(folder: Path) -> None:
    text = (folder / "0/point.json").read_text()
    start = text.index('"params"')
    (folder / "0/point.json").write_text(f'{text[:start]}"x": {"[" * 100_000}{"]" * 100_000}, {text[start:]}')


LINKED = "roofs-gpu-0123456789_observe.json"
POINT_DAMAGE: dict[str, Damage] = {
    "a time of zero": edited("0/point.json", timing__median_s=0.0),
    "a negative time": edited("0/point.json", timing__p5_s=-1.0),
    "a time too short for a float": edited("0/point.json", timing__median_s=5e-324),
    "an endless time": edited("0/point.json", timing__median_s=1e308),
    "negative work": edited("0/point.json", work__flops=-10),
    "a number of forty digits": edited("0/point.json", size=10**40),
    "a number for a name": edited("0/point.json", kernel=5),
    "a list for the timing": edited("0/point.json", timing=[]),
    "a name of two million letters": edited("0/point.json", kernel="k" * 2_000_000),
    "nested 100,000 deep": deep,
    "cut short": written("0/point.json", '{"version": 2,'),
    "empty": written("0/point.json", ""),
    "not text": written("0/point.json", bytes(range(256))),
    "half a letter": written("0/point.json", '{"version": 2, "kernel": "\\ud800 lone"}'),
    "a pipe": replaced("0/point.json", os.mkfifo),
    "a folder": replaced("0/point.json", Path.mkdir),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("damage", POINT_DAMAGE.values(), ids=POINT_DAMAGE.keys())
def test_a_record_that_cannot_be_read_is_named_and_the_rest_is_used(
    damage: Damage, sweep: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(sweep)
    assert [point.status for point in read_sweep_points(sweep)] == ["failed", "ok"]
    for command in (
        ["compare", str(whole), str(sweep), "--no-files"],
        ["diagnose", str(sweep), "--dry-run"],
        ["report", str(sweep), "--output", str(tmp_path / "page.html")],
    ):
        assert run_command(command[0], command[1:]) == EXIT_POINT_FAILED
        lines = [line for line in capsys.readouterr().err.splitlines() if "0/point.json" in line]
        assert len(lines) == 1
        assert len(lines[0]) < 400
    assert "gemm" in (tmp_path / "page.html").read_text()
    assert run_command("publish", [str(sweep), str(tmp_path / "target"), "--dirty"]) == EXIT_BAD_INPUT
    assert "0/point.json" in capsys.readouterr().err


def test_diagnosing_does_not_write_over_a_record_that_it_cannot_read(sweep: Path) -> None:
    edited("0/point.json", timing__median_s=0.0)(sweep)
    before = (sweep / "0/point.json").read_bytes()
    assert run_command("diagnose", [str(sweep)]) == EXIT_POINT_FAILED
    assert (sweep / "0/point.json").read_bytes() == before


def test_an_unreadable_record_never_takes_the_place_of_another(sweep: Path) -> None:
    (sweep / "copy of 0").mkdir()
    (sweep / "copy of 0/point.json").write_text("{")
    assert [(point.job, point.status) for point in read_sweep_points(sweep)] == [(0, "ok"), (1, "ok"), (2, "failed")]
    assert job_folders(sweep)[2].name == "copy of 0"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("target", ["itself", "/dev/zero", "."])
@pytest.mark.parametrize("name", ["0/point.json", "sweep.yaml", "0/samples.csv", LINKED, "loop"])
def test_a_link_to_a_device_or_in_a_circle_ends_with_a_line(
    name: str, target: str, sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replaced(name, lambda path: path.symlink_to(path if target == "itself" else target))(sweep)
    code = run_command("diagnose", [str(sweep), "--dry-run"])
    errors = capsys.readouterr().err
    assert code in (EXIT_OK, EXIT_POINT_FAILED, EXIT_BAD_INPUT)
    assert len(errors.splitlines()) == (code != EXIT_OK)


BESIDE_DAMAGE: dict[str, tuple[str, Damage]] = {
    "roofs: no JSON": (LINKED, written(LINKED, "[{]")),
    "roofs: a list of wrong things": (LINKED, written(LINKED, '[{"a": 1}, 5]')),
    "roofs: a rate of words": (LINKED, edited(LINKED, roofs=[{"name": "dram", "kind": "bandwidth", "rate": "x"}])),
    "roofs: a rate of nothing": (LINKED, edited(LINKED, roofs=[{"name": "dram", "kind": "bandwidth", "rate": 0}])),
    "roofs: NaN": (LINKED, edited(LINKED, seconds=float("nan"))),
    "roofs: a pipe": (LINKED, replaced(LINKED, os.mkfifo)),
    "machine: a list": ("machine-gpu-0123456789.json", written("machine-gpu-0123456789.json", "[]")),
    "machine: a folder": ("machine-gpu-0123456789.json", replaced("machine-gpu-0123456789.json", Path.mkdir)),
    "sweep: machines is a number": ("sweep.yaml", written("sweep.yaml", "machines: 5\n")),
    "sweep: arguments is a mapping": ("sweep.yaml", written("sweep.yaml", "arguments: {}\n")),
    "sweep: a list": ("sweep.yaml", written("sweep.yaml", "- a\n")),
    "sweep: an object of Python": (
        "sweep.yaml", written("sweep.yaml", 'x: !!python/object/apply:os.system ["true"]\n')
    ),
    "sweep: not text": ("sweep.yaml", written("sweep.yaml", b"\xff\xfe\x00a: b")),
    "sweep: a pipe": ("sweep.yaml", replaced("sweep.yaml", os.mkfifo)),
    "samples: no numbers": ("samples", written("0/samples.csv", "sample,at_s,time_s,launches\n0,x,nan,1\n")),
    "samples: no such column": ("samples", written("0/samples.csv", "a,b\n1,2\n")),
    "samples: a pipe": ("samples.csv", replaced("0/samples.csv", os.mkfifo)),
}  # fmt: skip


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("name", "damage"), BESIDE_DAMAGE.values(), ids=BESIDE_DAMAGE.keys())
def test_a_damaged_file_beside_the_records_costs_one_line(
    name: str, damage: Damage, sweep: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(sweep)
    assert run_command("compare", [str(whole), str(sweep), "--no-files"]) == EXIT_POINT_FAILED
    assert capsys.readouterr().err.count(name) == 1
    if not name.startswith("samples"):
        assert run_command("report", [str(sweep), "--output", str(tmp_path / "page.html")]) == EXIT_POINT_FAILED
        assert any(name in line for line in capsys.readouterr().err.splitlines())
    assert (tmp_path / "page.html").is_file() or name.startswith("samples")


PACKED_DAMAGE: dict[str, tuple[str, bytes]] = {
    "points: cut short": ("points.jsonl.xz", lzma.compress(b"{}\n" * 100)[:60]),
    "points: no archive": ("points.jsonl.xz", b"no archive"),
    "points: other things": ("points.jsonl.xz", lzma.compress(b'{"a": 1}\n[]\n5\n')),
    "configurations: other things": ("configs.jsonl.xz", lzma.compress(b'{"job": 0, "config": "x"}\n{"x": 1}\n')),
    "configurations: a negative job": ("configs.jsonl.xz", lzma.compress(b'{"job": -1, "config": {}}\n')),
    "samples: no job": ("samples.csv.xz", lzma.compress(b"sample,time_s\n0,1\n")),
    "samples: no number": ("samples.csv.xz", lzma.compress(b"job,time_s\n0,abc\n")),
    "samples: a job of words": ("samples.csv.xz", lzma.compress(b"job,time_s\nfirst,1\n")),
}


@pytest.mark.parametrize(("name", "content"), PACKED_DAMAGE.values(), ids=PACKED_DAMAGE.keys())
def test_a_damaged_packed_file_is_one_line(
    name: str, content: bytes, published: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(published, tmp_path / "published"))
    (folder / name).write_bytes(content)
    command = "compare" if name.startswith("samples") else "diagnose"
    arguments = [str(whole), str(folder), "--no-files"] if command == "compare" else [str(folder), "--dry-run"]
    assert run_command(command, arguments) in (EXIT_POINT_FAILED, EXIT_BAD_INPUT)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(name in line or "the samples of job 0" in line for line in lines)


def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    packer = lzma.LZMACompressor(preset=0)
    block = b"0,0,0,0,0\n" * 100_000
    with (tmp_path / "samples.csv.xz").open("wb") as file:
        file.write(packer.compress(b"job,sample,at_s,time_s,launches\n"))
        for _ in range(40):
            file.write(packer.compress(block))
        file.write(packer.flush())
    with pytest.raises(DamagedFileError, match=r"samples\.csv\.xz: unpacks to more than 32 MiB"):
        unpacked(tmp_path / "samples.csv.xz", 32 * 1024**2)


def test_a_table_has_a_limit_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofexp.config.input_files.MOST_CELLS", 4000)
    header = ",".join(f"c{number}" for number in range(2000))
    with pytest.raises(DamagedFileError, match="more than 4000 cells"):
        parse_table(f"{header}\n".encode() + b"0\n" * 4, "wide.csv")
    with pytest.raises(DamagedFileError, match="line 2 has 2 cells for 1 columns"):
        parse_table(b"a\n1,2\n", "ragged.csv")


def test_names_with_controls_and_formulas_are_shown_without_them(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited("0/point.json", kernel="k\x00\x01\x1b[31m\ufffe")(sweep)
    edited("1/point.json", kernel="$\\undefinedmacro{$")(sweep)
    assert run_command("report", [str(sweep), "--redraw", "--output", str(tmp_path / "page.html")]) == EXIT_OK
    assert "not drawn" not in capsys.readouterr().err
    page = (tmp_path / "page.html").read_text()
    assert "$\\undefinedmacro{$" in page
    assert not {letter for letter in page if letter < " " and letter not in "\n\t"}
    assert run_command("diagnose", [str(sweep), "--dry-run"]) == EXIT_OK
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.timeout(20)
def test_aliases_that_stand_for_billions_of_values_are_refused_at_once(tmp_path: Path) -> None:
    lines = [f"l{i}: &l{i} [{','.join([f'*l{i - 1}'] * 9) if i else 'a'}]" for i in range(10)]
    (tmp_path / "sweep.yaml").write_text("\n".join(lines))
    with pytest.raises(BadInputError, match=r"sweep\.yaml: .*aliases"):
        read_yaml(tmp_path / "sweep.yaml")


@pytest.mark.parametrize("text", ["- " * 100_000, "[" * 100_000, "? " * 100_000, "{a: " * 100_000])
def test_yaml_that_is_nested_too_deep_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text(text)
    with pytest.raises(BadInputError, match=r"deep\.yaml: [^\n]*$"):
        read_yaml(tmp_path / "deep.yaml")


def test_stored_roofs_that_cannot_be_read_are_measured_again(sweep: Path) -> None:
    (sweep / "stored.json").write_text(f"{'[' * 5000}")
    assert read_stored(sweep / "stored.json") is None
    assert read_stored(sweep / "0") is None


@pytest.mark.parametrize("cell", ["=1+1", "@SUM(1)", "-cmd", "+cmd", "\t=1", "\r=1", "-2+3", "+1-A1", "=", "＝1"])
def test_a_cell_that_a_spreadsheet_would_run_is_quoted(cell: str) -> None:
    assert table_bytes([{"a": cell}]).decode().splitlines()[1].strip('"').startswith("'")


@pytest.mark.parametrize("cell", ["-2", "-1.5e-3", "+7", "-", "a=b", "-inf", 3, -2.5])
def test_a_number_is_not_quoted(cell: object) -> None:
    assert table_bytes([{"a": cell}]).decode().splitlines()[1] == str(cell)


def test_what_a_sweep_says_of_itself_keeps_what_is_not_read(sweep: Path) -> None:
    described = read_sweep(sweep) | {"reproduces": "a1", "more": [1, 2]}
    (sweep / "sweep.yaml").write_text(yaml.safe_dump(described))
    assert read_sweep(sweep) == described
    assert read_roofs(sweep)
    assert read_sample_times(sweep)[0] == [2e-5, 1e-5]
