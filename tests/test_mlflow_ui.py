"""MLflow's own page over a mirrored sweep, looked at with a browser: list, run, figure, report, comparison."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import pytest

from roofexp.config.settings import PlacingSettings
from roofexp.placing.roofline import place
from roofexp.records.archive import read_sweep_points
from roofexp.records.point import write_point
from roofexp.records.sweep_folder import read_sweep, write_sweep
from roofexp.run.finish import collect
from roofexp.tracking import open_store
from roofexp.tracking.client import POINTS, SWEEPS, page
from tests.browser import Browser, chromium
from tests.counted_sweep import ROOFS, make_sweep
from tests.test_tracking import free_port

pytestmark = pytest.mark.browser
PATIENCE_S = 90
TIMES_S = (5e-6, 40e-6, 200e-6)
PNG = bytes.fromhex(  # 1 x 1 pixel
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff"
    "56c72f0d0000000049454e44ae426082"
)
ROWS = """[...document.querySelectorAll('[row-index]')].sort(
    (one, other) => one.getAttribute('row-index') - other.getAttribute('row-index')
).map(row => row.innerText)"""
ARTIFACT = "document.querySelector('[artifact-name=\"{}\"]')"


class Page(NamedTuple):
    """The server's address, and the ids of the experiment, the sweep's run and its points' runs by name."""

    server: str
    experiment: str
    parent: str
    children: dict[str, str]


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    chromium()
    work = tmp_path_factory.mktemp("ui")
    port = free_port()
    sweep = measured(work / "outputs/gemm/2026-03-01_12-00-00")
    tracker = open_store("sqlite", None, "roofexp", work / "outputs")
    tracker.mirror(sweep)
    words = [sys.executable, "-m", *tracker.ui_command.split(), "--port", str(port)]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (work / "ui.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=work, env=environment)
    try:
        await_server(f"http://127.0.0.1:{port}", process, work / "ui.log")
        runs = tracker.runs.client.search_runs([tracker.runs.experiment_id])
        kinds = {run.info.run_id: run.data.tags["roofexp.kind"] for run in runs}
        parent = next(key for key, kind in kinds.items() if kind == "sweep")
        children = {run.info.run_name: run.info.run_id for run in runs if kinds[run.info.run_id] == "point"}
        yield Page(f"http://127.0.0.1:{port}", tracker.runs.experiment_id, parent, children)
    finally:
        process.terminate()
        process.wait(timeout=30)


def measured(folder: Path) -> Path:
    """A finished sweep of three sizes with a figure and a page; the largest is on the compute roof."""
    jobs = [["kernel=gemm", "precision=bf16", f"size={size}"] for size in (256, 1024, 4096)]
    make_sweep(folder, *jobs)
    for point, time_s in zip(read_sweep_points(folder), TIMES_S, strict=True):
        assert point.timing
        timed = msgspec.structs.replace(point, timing=msgspec.structs.replace(point.timing, median_s=time_s))
        settings = PlacingSettings(on_roof=0.85, far_below=0.3, above_roof=1.02, near_floor=3.0)
        placement, flags = place(timed, ROOFS, settings)
        write_point(folder / str(point.job), msgspec.structs.replace(timed, placement=placement, flags=flags))
    (folder / "figures").mkdir()
    (folder / "figures/roofline.png").write_bytes(PNG)
    (folder / "report.html").write_text("<!doctype html><title>r</title><p>the page of the sweep</p>")
    described = {"name": "gemm", "started": "2026-03-01T12:00:00+00:00", "overrides": ["kernel=gemm", "precision=bf16"]}
    write_sweep(folder, read_sweep(folder) | described)
    collect(folder)
    return folder


def await_server(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"mlflow ui did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def browser(ui: Page) -> Iterator[Browser]:
    with Browser() as browser:
        browser.ask("Emulation.setDeviceMetricsOverride", width=2400, height=1000, deviceScaleFactor=1, mobile=False)
        browser.ask("Page.navigate", url="about:blank")
        yield browser


def go(browser: Browser, url: str, *shown: str) -> str:
    """The text of the page at ``url`` once all of ``shown`` is on it."""
    browser.ask("Page.navigate", url=url)
    return see(browser, *shown)


def see(browser: Browser, *shown: str) -> str:
    text = "(document.body?.innerText || '')"
    browser.until(f"{json.dumps(shown)}.every(word => {text}.includes(word))", PATIENCE_S)
    return str(browser.run(text))


def test_the_list_of_sweeps_shows_names_and_best_values(ui: Page, browser: Browser) -> None:
    see_all = go(browser, ui.server + page(ui.experiment, SWEEPS), "gemm precision=bf16", "best/roof_fraction")
    assert "points/failed" in see_all
    assert "gemm-4096-bf16" not in see_all, "points lie folded below their sweep"


def test_the_list_of_points_shows_names_and_metrics_the_best_first(ui: Page, browser: Browser) -> None:
    go(browser, ui.server + page(ui.experiment, POINTS), "roof/fraction", "0.8951616048505264", *ui.children)
    best_first = ["gemm-4096-bf16", "gemm-1024-bf16", "gemm-256-bf16"]
    names = f"{ROWS}.flatMap(text => text.match(/gemm-[0-9]+-bf16/) || []).join()"
    browser.until(f"{names} === '{','.join(best_first)}'")


def test_a_sweep_s_run_says_its_verdict(ui: Page, browser: Browser) -> None:
    text = go(browser, f"{ui.server}/#/experiments/{ui.experiment}/runs/{ui.parent}", "Fastest", *ui.children)
    assert "3 points on NVIDIA H200" in text


def test_a_point_s_run_says_its_verdict(ui: Page, browser: Browser) -> None:
    run = ui.children["gemm-4096-bf16"]
    text = go(
        browser, f"{ui.server}/#/experiments/{ui.experiment}/runs/{run}", "Description", "gemm 4096 bf16 on NVIDIA"
    )
    assert "on the compute roof at 687 TFLOP/s: 90 % of the bf16 mma roof. Next:" in text


def test_the_figure_and_the_page_open_among_the_artifacts(ui: Page, browser: Browser) -> None:
    address = f"{ui.server}/#/experiments/{ui.experiment}/runs/{ui.parent}/artifacts"
    go(browser, address, "points.csv", "report.html", "figures")
    open_artifact(browser, "figures", "roofline.png")
    open_artifact(browser, "roofline.png", "figures/roofline.png")
    browser.until("[...document.images].some(image => image.src.startsWith('blob:') || image.naturalWidth === 1)")
    open_artifact(browser, "report.html", "report.html")
    browser.until("[...document.querySelectorAll('iframe')].some(frame => frame.clientWidth > 300)")


def open_artifact(browser: Browser, name: str, *shown: str) -> None:
    browser.until(f"{ARTIFACT.format(name)} !== null")
    browser.run(f"{ARTIFACT.format(name)}.closest('[data-radium]').click()")
    see(browser, *shown)


def test_two_points_are_compared_by_what_differs(ui: Page, browser: Browser) -> None:
    runs = [ui.children["gemm-1024-bf16"], ui.children["gemm-4096-bf16"]]
    asked = f"runs={quote(json.dumps(runs))}&experiments={quote(json.dumps([ui.experiment]))}"
    text = go(
        browser,
        f"{ui.server}/#/compare-runs?{asked}",
        "Comparing 2 Runs",
        "Parallel Coordinates Plot",
        "gemm-1024-bf16",
    )
    before = text[: text.index("Run details")]
    assert "size" in before
    assert "roof/fraction" in before
    assert "overrides" not in before
