"""A sweep that goes on with other code says so: every commit that measured points stands in sweep.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofexp.commands import run_command
from roofexp.errors import EXIT_BAD_INPUT
from roofexp.records import sweep_folder
from roofexp.records.sweep_folder import commit_names, read_sweep, resumed_sweep, without_idle_commits, write_sweep
from roofexp.report import write_report
from roofexp.report.cautions import cautions
from roofexp.report.contents import read_contents
from roofexp.run.finish import collect
from tests.counted_sweep import make_sweep

CLEAN, LATER = "a" * 40, "b" * 40

STARTED = {"git_commit": CLEAN, "git_dirty": False, "started": "2020-01-01T10:00:00.000+00:00"}


def code_is(monkeypatch: pytest.MonkeyPatch, commit: str | None, dirty: bool | None, at: str) -> None:
    monkeypatch.setattr(sweep_folder, "git_state", lambda: (commit, dirty))
    monkeypatch.setattr(sweep_folder, "now", lambda: at)


def test_points_of_a_dirty_commit_are_not_published_under_the_clean_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_sweep(tmp_path / "sweep", ["kernel=vadd"])
    code_is(monkeypatch, LATER, True, "2020-01-02T10:00:00.000+00:00")
    write_sweep(folder, resumed_sweep(read_sweep(folder) | STARTED))
    collect(folder)
    assert run_command("publish", [str(folder), str(tmp_path / "published")]) == EXIT_BAD_INPUT
    assert f"uncommitted changes ({LATER} with uncommitted changes)" in capsys.readouterr().err
    assert "uncommitted changes" in {caution.title for caution in cautions(read_contents(folder))}
    assert f"{LATER} with uncommitted changes" in write_report(folder).read_text()


@pytest.mark.parametrize(
    ("commit", "dirty", "worst"),
    [
        (CLEAN, False, (CLEAN, False)),
        (LATER, False, (CLEAN, False)),
        (LATER, True, (LATER, True)),
        (None, None, (None, None)),
    ],
)
def test_the_worst_state_of_the_code_is_the_sweeps(
    commit: str | None, dirty: bool | None, worst: tuple[str | None, bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    code_is(monkeypatch, commit, dirty, "2020-01-02T10:00:00.000+00:00")
    sweep = resumed_sweep(dict(STARTED))
    assert (sweep["git_commit"], sweep["git_dirty"]) == worst
    assert len(sweep.get("commits", [sweep])) == (1 if (commit, dirty) == (CLEAN, False) else 2)
    assert resumed_sweep(sweep) == sweep
    assert commit_names(sweep)[0] == CLEAN


def test_a_state_that_measured_nothing_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumed where nothing was missing: the points are the first commit's, and stay publishable."""
    code_is(monkeypatch, LATER, True, "2020-01-02T10:00:00.000+00:00")
    resumed = resumed_sweep(dict(STARTED))
    before = "2020-01-01T10:01:00.000+00:00"
    settled = without_idle_commits(resumed, [before])
    assert (settled["git_commit"], settled["git_dirty"]) == (CLEAN, False)
    assert commit_names(settled) == [CLEAN]
    assert without_idle_commits(resumed, [before, "2020-01-03T10:00:00.000+00:00"]) == resumed
