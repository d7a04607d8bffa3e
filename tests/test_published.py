"""What is published: complete, small, nothing private, true to its own records, and quoted correctly."""

from __future__ import annotations

import csv
import html
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofexp.commands.publish import findings
from roofexp.compare.agreement import CAUSES
from roofexp.config.plain import plain
from roofexp.kernel.load import kernel_of
from roofexp.records.archive import is_packed, read_configs, read_sample_times, read_sweep_points
from roofexp.records.points_table import point_row
from roofexp.records.sweep_folder import read_roofs, read_sweep
from roofexp.run.resume import typed_config
from roofexp.text.numbers import engineering
from tests import quoted_roofs
from tests.quoted_numbers import corrected, quotations

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "outputs" / "reference"
SWEEPS = sorted(file.parent for file in REFERENCE.glob("*/*/sweep.yaml"))
PACKED = [folder for folder in SWEEPS if is_packed(folder)]
LARGEST_BYTES = 30_000_000
ABOVE_ROOF = 1.02
TEXTS = sorted([ROOT / "README.md", *REFERENCE.rglob("*.md")])

every_sweep = pytest.mark.parametrize("folder", SWEEPS, ids=lambda folder: folder.name)
every_packed = pytest.mark.parametrize("folder", PACKED, ids=lambda folder: folder.name)


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "points.csv").open(newline="") as table:
        return list(csv.DictReader(table))


@every_sweep
def test_complete(folder: Path) -> None:
    sweep = read_sweep(folder)
    assert re.fullmatch(r"[0-9a-f]{40}", sweep["git_commit"])
    assert sweep["git_dirty"] is False
    assert sweep["machines"]
    assert read_roofs(folder)
    figures = {file.suffix for file in (folder / "figures").iterdir()}
    assert {".svg", ".png", ".csv"} <= figures
    assert not list(folder.glob("*/point.json")), "a published sweep is packed"


@every_sweep
def test_the_table_parses_and_holds_finite_numbers(folder: Path) -> None:
    rows = rows_of(folder)
    assert rows
    for row in rows:
        assert None not in row
        assert row["status"] in ("ok", "skipped", "failed")
        values = [float(row[name]) for name in ("time_s", "fraction", "flops_per_s", "bytes_per_s") if row[name]]
        assert all(math.isfinite(value) and value >= 0 for value in values)
        assert row["status"] != "ok" or float(row["time_s"]) > 0


@every_sweep
def test_no_point_lies_above_its_roof_without_a_word(folder: Path) -> None:
    for row in rows_of(folder):
        if row["fraction"] and float(row["fraction"]) > ABOVE_ROOF:
            flags = {name.strip() for name in row["flags"].split(";")}
            assert flags & {"above a roof", *CAUSES}, f"{row['kernel']} {row['size']} {row['precision']}"
            assert row["cause"]


@every_sweep
def test_nothing_private(folder: Path) -> None:
    assert list(findings(folder)) == []


def test_small_enough_to_clone() -> None:
    assert sum(file.stat().st_size for file in REFERENCE.rglob("*") if file.is_file()) <= LARGEST_BYTES


@every_packed
def test_the_table_is_that_of_the_records(folder: Path) -> None:
    points, rows = read_sweep_points(folder), rows_of(folder)
    assert [str(point.job) for point in points] == [row["job"] for row in rows]
    for point, row in zip(points, rows, strict=True):
        made = point_row(point)
        assert {key: text for key, text in row.items() if key in made and not same(made[key], text)} == {}


def same(value: Any, text: str) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return text != "" and math.isclose(value, float(text), rel_tol=1e-12)
    return ("" if value is None else str(value)) == text


@every_packed
def test_every_point_can_be_measured_again(folder: Path) -> None:
    configs, samples = read_configs(folder), read_sample_times(folder)
    typed_lists: list[Any] = []  # of roofs: equal for all points of a sweep, and most of the time of a type check
    for point in read_sweep_points(folder):
        config = configs[point.job]
        if config["roofs"] in typed_lists:
            config = config | {"roofs": config["roofs"] | {"cpu": {}, "cuda": {}}}
        kernel = kernel_of(plain(typed_config(config, f"{folder.name} job {point.job}")))
        typed_lists.append(configs[point.job]["roofs"])
        assert (kernel.name, kernel.size, kernel.work) == (point.kernel, point.size, point.work or kernel.work)
        assert point.status != "ok" or len(samples[point.job]) >= 1


@every_packed
def test_the_report_shows_the_times_of_the_table(folder: Path) -> None:
    text = " ".join(html.unescape((folder / "report.html").read_text()).split())
    missing = {row["job"]: row["time_s"] for row in rows_of(folder) if row["status"] == "ok"}
    missing = {job: time_s for job, time_s in missing.items() if engineering(float(time_s), "s") not in text}
    assert missing == {}


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_texts_quote_the_numbers_of_the_tables(file: Path) -> None:
    text = file.read_text()
    assert corrected(text) == text, "python -m tests.quoted_numbers puts the numbers right"


def test_the_readme_quotes_the_published_roofs() -> None:
    text = (ROOT / "README.md").read_text()
    roofs = [line for line in text.splitlines() if line.startswith("| bf16 tensor |")]
    assert len(roofs) == 1
    assert quoted_roofs.corrected(text) == text, "python -m tests.quoted_roofs puts the table right"
    assert quoted_roofs.corrected(text.replace(roofs[0] + "\n", "")) == text


def test_the_readme_quotes_published_numbers() -> None:
    assert quotations((ROOT / "README.md").read_text()) >= 4


def test_a_wrong_number_is_found_and_put_right() -> None:
    folder = SWEEPS[0].relative_to(ROOT)
    row = rows_of(SWEEPS[0])[0]
    keys = f"job={row['job']}"
    wrong = f"It took <!-- {folder} {keys}: time_s -->1 s<!-- -->."
    right = f"It took <!-- {folder} {keys}: time_s -->{engineering(float(row['time_s']), 's')}<!-- -->."
    assert corrected(wrong) == right
    table = f"<!-- numbers of {folder} by job kernel: time_s -->\n| job | kernel | time |\n|---|---|---|\n"
    assert "1 s" not in corrected(f"{table}| {row['job']} | {row['kernel']} | 1 s |\n")
    with pytest.raises(ValueError, match="0 rows"):
        corrected(f"{table}| 12345 | {row['kernel']} | 1 s |\n")


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation), "what the format asks for"
    assert citation["type"] == "software"
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation["authors"] == [{"name": "roofexp contributors"}]
