"""A sweep packed for publication: nothing of it is lost, nothing private is in it, and it works like the original."""

from __future__ import annotations

import csv
import lzma
import shutil
from pathlib import Path

import msgspec
import pytest

from roofexp.commands import run_command
from roofexp.commands.publish import findings, first_private
from roofexp.errors import EXIT_BAD_INPUT, EXIT_OK, BadInputError
from roofexp.records.archive import (
    is_packed,
    job_folders,
    portable,
    read_configs,
    read_sample_times,
    read_sweep_machines,
    read_sweep_points,
    read_tables,
)
from roofexp.records.point import Flag, write_point
from roofexp.records.sweep_folder import read_roofs, read_sweep, write_sweep
from roofexp.report import write_report
from roofexp.run.finish import collect, stored_configuration
from roofexp.run.resume import resumed_arguments
from roofexp.tracking.sweep_run import read_sweep as read_folder
from roofexp.tracking.sweep_run import sweep_files
from tests.counted_sweep import make_sweep

COMMIT = {"git_commit": "0123456789abcdef", "git_dirty": False, "started": "2026-11-30T06:00:00+00:00"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A measured sweep; not to be changed."""
    folder = make_sweep(
        tmp_path_factory.mktemp("original") / "sweep", ["kernel=vadd"], ["kernel=gemm", "precision=bf16", "size=4096"]
    )
    for job in (0, 1):
        rows = f"sample,at_s,time_s,launches\n0,0.1,2e-05,1\n1,0.2,{job + 1}e-05,1\n"
        (folder / f"{job}/samples.csv").write_text(rows)
    (folder / "1/clocks.csv").write_text("at_s,sm_hz\n0.1,1.9e9\n")
    (folder / "figures").mkdir()
    (folder / "figures/roofline.svg").write_text(
        "<svg xmlns='http://www.w3.org/2000/svg'><path d='M 0 0 L 1 1'/></svg>"
    )
    write_sweep(folder, read_sweep(folder) | COMMIT)
    collect(folder)
    return folder


@pytest.fixture(scope="module")
def packed(original: Path) -> Path:
    """The same sweep, published; not to be changed."""
    target = original.parent / "published"
    assert run_command("publish", [str(original), str(target)]) == EXIT_OK
    return target


@pytest.fixture
def sweep(original: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(original, tmp_path / "sweep"))


def test_both_layouts_read_the_same(original: Path, packed: Path) -> None:
    assert is_packed(packed)
    assert not is_packed(original)
    assert read_sweep_points(packed) == read_sweep_points(original)
    assert [point.job for point in read_sweep_points(packed)] == [0, 1]
    for kind in ("samples", "clocks", "counters"):
        assert read_tables(packed, kind) == read_tables(original, kind)
    assert read_sample_times(packed) == {0: [2e-5, 1e-5], 1: [2e-5, 2e-5]}
    assert read_sweep_machines(packed) == read_sweep_machines(original)
    assert read_roofs(packed) == read_roofs(original)
    assert read_configs(packed) == {job: portable(config) for job, config in read_configs(original).items()}
    assert "outputs" not in read_configs(packed)[0]
    assert set(job_folders(original)) == {0, 1}
    assert job_folders(packed) == {}
    assert stored_configuration(packed).figures.style == "screen"


def test_the_same_sweep_gives_the_same_bytes(original: Path, packed: Path, tmp_path: Path) -> None:
    again = tmp_path / "published"
    assert run_command("publish", [str(original), str(again)]) == EXIT_OK
    names = {file.relative_to(packed) for file in packed.rglob("*") if file.is_file()}
    assert {"report.html", "points.jsonl.xz", "samples.csv.xz", "configs.jsonl.xz"} <= {file.name for file in names}
    assert all((packed / name).read_bytes() == (again / name).read_bytes() for name in names)


def test_an_earlier_publication_is_replaced_only_when_asked(
    original: Path, packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("publish", [str(original), str(packed)]) == EXIT_BAD_INPUT
    assert "--replace" in capsys.readouterr().err
    assert run_command("publish", [str(original), str(packed), "--replace"]) == EXIT_OK
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").touch()
    assert run_command("publish", [str(original), str(tmp_path / "mine"), "--replace"]) == EXIT_BAD_INPUT
    assert (tmp_path / "mine/thesis.tex").exists()


def test_private_words_are_refused_and_nothing_is_left(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("platform.node", lambda: "ada-box.example.org")
    point = read_sweep_points(sweep)[0]
    write_point(sweep / "0", msgspec.structs.replace(point, flags=[Flag("noisy", "see ada-box for more")]))
    assert run_command("publish", [str(sweep), str(tmp_path / "published")]) == EXIT_BAD_INPUT
    said = capsys.readouterr().err
    assert "points.jsonl.xz: 'ada-box'" in said
    assert [path.name for path in tmp_path.iterdir()] == ["sweep"]


@pytest.mark.parametrize(
    "text",
    [
        "hydra.run.dir=/a1/b2",
        '{"path": "/nix/store/x"}',
        "C:\\Users\\ada",
        "file:///a",
        "see /opt/cuda/bin",
        "(/tmp/x)",
    ],
)
def test_absolute_paths_are_found(text: str) -> None:
    assert first_private(text, False, [])


@pytest.mark.parametrize(
    "text",
    ["3 FLOP/B at 1/2 of the roof", "https://example.org/home/x", "kernels/stream/vadd.cu", "B/s / s", "<g></g>"],
)
def test_ordinary_text_is_no_path(text: str) -> None:
    assert first_private(text, False, []) is None
    assert first_private(f"<p>{text}</p>", True, []) is None


def test_a_sweep_of_unknown_or_changed_code_is_not_published(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sweep(sweep, read_sweep(sweep) | {"git_dirty": True})
    assert run_command("publish", [str(sweep), str(sweep.parent / "published")]) == EXIT_BAD_INPUT
    assert "uncommitted" in capsys.readouterr().err
    write_sweep(sweep, read_sweep(sweep) | {"git_commit": None})
    assert run_command("publish", [str(sweep), str(sweep.parent / "published")]) == EXIT_BAD_INPUT
    assert "git commit" in capsys.readouterr().err
    assert run_command("publish", [str(sweep.parent / "nowhere"), str(sweep.parent / "again")]) == EXIT_BAD_INPUT


def test_a_point_without_its_configuration_is_not_published(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sweep / "1/.hydra/config.yaml").unlink()
    assert run_command("publish", [str(sweep), str(sweep.parent / "published")]) == EXIT_BAD_INPUT
    assert "job 1" in capsys.readouterr().err


def test_where_things_lay_is_not_published(sweep: Path, tmp_path: Path) -> None:
    words = ["outputs=/scratch/ada", "size=8", "hydra.sweep.dir=/scratch/x"]
    write_sweep(sweep, read_sweep(sweep) | {"command": f"python -m roofexp {' '.join(words)} -m", "arguments": words})
    write_point(sweep / "0", msgspec.structs.replace(read_sweep_points(sweep)[0], overrides=words))
    assert run_command("publish", [str(sweep), str(tmp_path / "published")]) == EXIT_OK
    said = read_sweep(tmp_path / "published")
    assert (said["command"], said["arguments"]) == ("python -m roofexp size=8 -m", ["size=8"])
    assert read_sweep_points(tmp_path / "published")[0].overrides == ["size=8"]


def test_a_published_sweep_is_not_published_again(packed: Path, tmp_path: Path) -> None:
    assert run_command("publish", [str(packed), str(tmp_path / "again")]) == EXIT_BAD_INPUT


def test_a_damaged_packed_file_is_named(packed: Path, tmp_path: Path) -> None:
    packed = Path(shutil.copytree(packed, tmp_path / "published"))
    (packed / "points.jsonl.xz").write_bytes(lzma.compress(b"{}\n"))
    with pytest.raises(BadInputError, match=r"points\.jsonl\.xz"):
        read_sweep_points(packed)
    (packed / "points.jsonl.xz").write_bytes(b"no archive")
    with pytest.raises(BadInputError, match="cannot be read"):
        read_sweep_points(packed)


def test_every_text_file_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(b"job,where\n0,/home/ada\n"))
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/b.svg").write_text("<!-- /home/ada/plot.py -->")
    (tmp_path / "c.yaml").write_text("command: python -m roofexp\n")
    assert [line.split(":")[0] for line in findings(tmp_path)] == ["a.csv.xz", "figures/b.svg"]


def test_a_published_sweep_is_neither_counted_nor_resumed(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file: file.read_bytes() for file in packed.rglob("*") if file.is_file()}
    assert run_command("count", [str(packed)]) == EXIT_BAD_INPUT
    assert "is published; allowed: the folder that was measured" in capsys.readouterr().err
    with pytest.raises(BadInputError, match=r"published, and stays as it is; run python -m roofexp\.reproduce"):
        resumed_arguments([f"resume={packed}"])
    assert {file: file.read_bytes() for file in packed.rglob("*") if file.is_file()} == before


def test_a_published_sweep_is_mirrored_from_its_packed_records(packed: Path) -> None:
    found = read_folder(packed)
    assert found.records == read_sweep_points(packed)
    kept = {file.name for file, _ in sweep_files(packed)}
    assert {"points.jsonl.xz", "configs.jsonl.xz", "samples.csv.xz", "clocks.csv.xz", "points.csv"} <= kept


# ------------------------------------------------------------------------------------------------------- judged anew


def verdicts(folder: Path) -> list[str]:
    """Of the records; the table and the page must say the same."""
    found = [point.placement.bound for point in read_sweep_points(folder) if point.placement]
    assert [row["bound"] for row in csv.DictReader((folder / "points.csv").open())] == found
    page = (folder / "report.html").read_text()
    assert all(bound in page for bound in found)
    return found


@pytest.mark.parametrize("layout", ["original", "packed"])
def test_a_changed_threshold_is_in_records_table_page_and_figures(
    layout: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(layout)
    if layout == "original":
        folder = Path(shutil.copytree(folder, tmp_path / "sweep"))
        write_report(folder)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    fractions = [point.placement.fraction or 0 for point in read_sweep_points(folder) if point.placement]
    assert all(1.02 < fraction < 10 for fraction in fractions)
    copy = tmp_path / "copy"
    assert (
        run_command("diagnose", [str(folder), "--output", str(copy), "--above-roof", "10", "--on-roof", "0.9"])
        == EXIT_OK
    )
    assert {file: file.read_bytes() for file in before} == before
    assert verdicts(copy) == ["on the bandwidth roof", "on the compute roof"]
    assert is_packed(copy) == is_packed(folder)
    assert read_sample_times(copy) == read_sample_times(folder)
    assert "judged again with" in (copy / "report.html").read_text()
    assert read_sweep(copy)["placing"] == {"on_roof": 0.9, "above_roof": 10.0}
    assert list((copy / "figures").glob("roofline_*.png"))
    # without thresholds: as it was measured, in its own place
    assert run_command("diagnose", [str(copy)]) == EXIT_OK
    assert verdicts(copy) == ["above a roof", "above a roof"]
    assert "placing" not in read_sweep(copy)
    assert list(findings(copy)) == [] or layout == "original"


def test_a_copy_that_is_there_or_cannot_be_written_is_one_line(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("diagnose", [str(packed), "--output", str(tmp_path)]) == EXIT_BAD_INPUT
    assert "is there already" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert run_command("diagnose", [str(packed), "--output", str(tmp_path / "file/copy")]) == EXIT_BAD_INPUT
    assert run_command("diagnose", [str(packed), "--on-roof", "9"]) == EXIT_BAD_INPUT
    first, second = capsys.readouterr().err.splitlines()
    assert "file/copy: Not a directory" in first
    assert "placing.on_roof=9: allowed: a share of the roof, above 0 and at most 1" in second
