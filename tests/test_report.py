"""The page of a sweep: what it says, from which layouts, and what a browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from pandas import DataFrame

from roofexp.commands import run_command
from roofexp.errors import EXIT_BAD_INPUT, EXIT_OK
from roofexp.records.archive import CONFIGS as CONFIGS_FILE
from roofexp.records.archive import POINTS as POINTS_FILE
from roofexp.records.archive import read_sweep_points
from roofexp.records.point import Flag, read_point, write_point
from roofexp.records.sweep_folder import read_sweep, write_sweep
from roofexp.report import breakable, size_text, write_report
from roofexp.report.cautions import cautions
from roofexp.report.contents import Links, read_contents
from roofexp.report.figures import figures, inline_svg, points_frame
from roofexp.report.machines import command_of, repetition
from roofexp.report.point_details import quantity
from roofexp.report.verdict_rows import verdict_rows
from roofexp.run.finish import report as finish_report
from tests.browser import Browser
from tests.made_points import SCREEN
from tests.made_sweep import make_sweep

POINTS = 30
SVG = b"""<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
width="72pt" height="36pt" viewBox="0 0 72 36"><title>seen</title><metadata>x</metadata>
<defs><style>*{stroke-linejoin: round}</style><clipPath id="c"><path id="p" d="M 1.23456 2"/></clipPath></defs>
<g id="point-3" clip-path="url(#c)"><title>a &lt; b 1.23456</title><use xlink:href="#p" x="0.123456"/></g></svg>"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep with two figures and its page."""
    from roofexp.figures.kinds.roofline import draw_roofline
    from roofexp.figures.kinds.size_sweep import draw_size_sweep

    folder = make_sweep(tmp_path_factory.mktemp("report") / "made sweep", POINTS)
    contents = read_contents(folder)
    for name, draw in (("roofline_example", draw_roofline), ("size_sweep", draw_size_sweep)):
        drawing = draw(points_frame(contents), contents.roofs[0], SCREEN)
        assert drawing is not None
        drawing.save(folder / "figures" / name)
    assert run_command("report", [str(folder)]) == EXIT_OK
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make_sweep(tmp_path / "sweep", 8)


class Elements(HTMLParser):
    """All start tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def page_of(folder: Path) -> str:
    return (folder / "report.html").read_text()


def test_every_id_is_there_once_and_every_inner_link_leads_to_one(sweep: Path) -> None:
    elements = Elements(page_of(sweep)).found
    ids = [found["id"] for _, found in elements if "id" in found]
    assert len(ids) == len(set(ids))
    inner = {found["href"][1:] for _, found in elements if (found.get("href") or "").startswith("#")}
    assert inner <= set(ids)


def test_every_file_link_leads_to_a_file_and_nothing_is_fetched(sweep: Path) -> None:
    from urllib.parse import unquote

    elements = Elements(page_of(sweep)).found
    hrefs = [href for tag, found in elements if tag == "a" and not (href := found.get("href") or "").startswith("#")]
    assert hrefs
    assert all((sweep / unquote(href)).is_file() for href in hrefs)
    assert not [found for _, found in elements if not (found.get("src") or "data:").startswith("data:")]
    assert [found["href"] for tag, found in elements if tag == "link"] == ["data:,"]
    assert "http" not in re.sub(r'xmlns[:\w]*="[^"]*"|http-equiv', "", page_of(sweep))


def test_every_point_has_its_row_with_its_record(sweep: Path) -> None:
    text = page_of(sweep)
    for point in read_sweep_points(sweep):
        row = text[text.index(f'<tbody id="p{point.job}"') :].split("</tbody>")[0]
        assert f'href="{point.job}/point.json"' in row
        assert f'href="{point.job}/samples.csv"' in row
        assert (point.reason or point.kernel) in row


def test_the_page_lies_elsewhere_and_still_finds_its_files(sweep: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run_command("report", [str(sweep), "--output", str(page)]) == EXIT_OK
    hrefs = [found.get("href") or "" for tag, found in Elements(page.read_text()).found if tag == "a"]
    record = next(href for href in hrefs if href.endswith("/0/point.json"))
    assert record.startswith("../")
    assert "%20" in record


def test_the_same_files_give_the_same_page(sweep: Path) -> None:
    before = page_of(sweep)
    write_report(sweep)
    assert page_of(sweep) == before


def test_warnings_come_worst_first_and_name_their_points(sweep: Path) -> None:
    found = cautions(read_contents(sweep))
    titles = [caution.title for caution in found]
    for title in (
        "failed: wrong result",
        "skipped: precision",
        "noisy",
        "counters unavailable",
        "traffic modelled",
        "uncommitted changes",
        "roofs disturbed",
        "roofs incomplete: only lower bounds",
        "roofs that failed a check",
        "roofs that could not be measured",
    ):
        assert title in titles
    levels = [caution.level for caution in found]
    assert levels == sorted(levels, key=("wrong", "caution", "note").index)
    noisy = next(caution for caution in found if caution.title == "noisy")
    assert noisy.points == sum(any(flag.name == "noisy" for flag in point.flags) for point in read_sweep_points(sweep))
    text = page_of(sweep)
    assert text.index("h-warnings") < text.index("h-verdicts") < text.index("h-figures")


def test_a_sweep_that_was_stopped_or_damaged_says_so(bare: Path) -> None:
    described = read_sweep(bare)
    described.pop("finished")
    write_sweep(bare, {**described, "git_commit": None, "git_dirty": None})
    (bare / "1/point.json").write_text("{")
    (bare / "99/.hydra").mkdir(parents=True)
    (bare / "roofs-cafe_observe.json").unlink()
    (bare / "roofs.json").write_text("not json")
    contents = read_contents(bare)
    found = {caution.title: caution for caution in cautions(contents)}
    assert "sweep not finished" in found
    assert "git commit unknown" in found
    messages = " ".join(entry.message for entry in found["files that could not be read"].entries)
    damaged = [entry.message for caution in cautions(contents) if caution.level == "wrong" for entry in caution.entries]
    assert any(message.startswith("1/point.json is not a point record") for message in damaged)
    assert "job 99" in messages
    assert str(bare) not in " ".join(damaged)
    assert write_report(bare).is_file()
    assert len(contents.points) == 8


def test_a_broken_gate_and_an_unexpected_verdict_come_first(bare: Path) -> None:
    (bare / "gate.xml").write_text(
        '<testsuites><testsuite><testcase name="x"><failure message="m">gemm: fraction 0.5, wanted 0.8</failure>'
        "</testcase></testsuite></testsuites>"
    )
    point = read_point(bare / "0/point.json")
    write_point(bare / "0", msgspec.structs.replace(point, expect="bank conflicts"))
    found = {caution.title: caution for caution in cautions(read_contents(bare))}
    assert found["gate broken"].level == "wrong"
    assert found["gate broken"].entries[0].message == "gemm: fraction 0.5, wanted 0.8"
    assert found["not the verdict expected"].entries[0].message == "bank conflicts expected, long scoreboard found"


def test_a_clean_sweep_has_no_warnings(bare: Path) -> None:
    write_sweep(bare, {**read_sweep(bare), "git_dirty": False})
    for point in read_sweep_points(bare):
        if point.status != "ok" or point.traffic is None or point.traffic.source != "counted":
            shutil.rmtree(bare / str(point.job))
        else:
            write_point(bare / str(point.job), msgspec.structs.replace(point, flags=[]))
    contents = read_contents(bare)
    clean = [
        msgspec.structs.replace(roofs, disturbed=False, unavailable={}, roofs=roofs.roofs[1:5])
        for roofs in contents.roofs
    ]
    assert cautions(msgspec.structs.replace(contents, roofs=clean)) == []


def test_text_from_records_is_escaped(bare: Path) -> None:
    point = read_point(bare / "0/point.json")
    nasty = "<script>alert(1)</script>"
    write_point(bare / "0", msgspec.structs.replace(point, kernel=nasty, flags=[Flag('"quoted" & <b>', nasty)]))
    text = write_report(bare).read_text()
    assert nasty not in text
    assert '"quoted" & <b>' not in text


def test_diagnosis_stands_above_the_placement(sweep: Path) -> None:
    contents = read_contents(sweep)
    rows = verdict_rows(contents, Links(contents, sweep / "report.html"))
    diagnosed = next(row for row in rows if row.point.diagnosis)
    assert (diagnosed.verdict, diagnosed.next_move) == ("long scoreboard", "more loads in flight")
    assert [cause.name for cause in diagnosed.causes] == ["long scoreboard", "occupancy"]
    placed = next(row for row in rows if row.point.placement and not row.point.diagnosis)
    assert placed.message == placed.point.placement.cause


def test_figures_say_what_they_leave_out(sweep: Path) -> None:
    contents = read_contents(sweep)
    drawn = figures(contents, Links(contents, sweep / "report.html"))
    ok = sum(point.status == "ok" for point in contents.points)
    roofline = drawn[0]
    assert roofline.remark.startswith(f"Draws {ok} of {POINTS} points and names ")
    assert "failed" in roofline.remark
    assert "skipped" in roofline.remark
    assert {Path(link.text).suffix for link in roofline.links} >= {".png", ".svg", ".csv"}
    assert roofline.svg.count("data-job=") == ok


def test_an_inlined_svg_keeps_to_itself() -> None:
    text = inline_svg(SVG, "f1-", "words", {"point-3": 17})
    assert set(re.findall(r' id="([^"]+)"', text)) == {"f1-svg", "f1-c", "f1-p", "f1-point-3"}
    assert 'clip-path="url(#f1-c)"' in text
    assert 'href="#f1-p"' in text
    assert "#f1-svg *{" in text
    assert 'data-job="17"' in text
    assert 'd="M 1.23 2"' in text
    assert "a &lt; b 1.23456" in text
    assert "metadata" not in text
    assert "xmlns" not in text


FOREIGN = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 xmlns:h="http://www.w3.org/1999/xhtml" viewBox="0 0 9 9" onload="alert(1)"><title>t</title>
<script>alert(2)</script><h:script>alert(3)</h:script><style>@import url(//x.org/a); body{display:none} *{fill: red}
</style><a xlink:href="javascript:alert(4)"><rect width="5"/></a>
<foreignObject><h:form action="//x.org"/></foreignObject>
<animate attributeName="href" values="javascript:alert(5)"/><set attributeName="onclick" to="alert(6)"/>
<g onclick="alert(7)" class="skip" style="position: fixed; fill: url(//x.org/b); stroke: #123456"><image
 href="//x.org/c.png"/><image href="data:image/svg+xml;base64,AAAA"/><image href="data:image/png;base64,AAAA"/>
<use href="//x.org/d.svg#e" fill="url( 'x' )" stroke="url(#p)"/><rect width="5" data-job="3"/></g></svg>"""


def test_a_figure_of_somebody_else_brings_what_draws_and_nothing_else() -> None:
    text = inline_svg(FOREIGN.encode(), "f1-", "words", {})
    for trace in (
        "alert",
        "script",
        "x.org",
        "import",
        "body",
        "foreignObject",
        "form",
        "class",
        "position",
        "svg+xml",
    ):
        assert trace not in text, trace
    assert "<a" not in text.replace("<animate", "")
    assert "svg+xml" not in text
    assert "data-job" not in text
    kept = (
        'style="stroke: #123456"',
        '<image href="data:image/png;base64,AAAA"',
        'stroke="url(#f1-p)"',
        "*{fill: red}",
    )
    assert all(part in text for part in kept)
    assert '<rect width="5"' in text


def test_only_the_pages_own_scripts_may_run(sweep: Path) -> None:
    text = write_report(sweep).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 2
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = next(part for part in policy[1].split("; ") if part.startswith("script-src"))
    assert allowed == "script-src " + " ".join(f"'sha256-{each}'" for each in hashes)


def test_a_table_alone_is_enough(sweep: Path, tmp_path: Path) -> None:
    for name in ("points.csv", "roofs.json", "sweep.yaml"):
        shutil.copy(sweep / name, tmp_path)
    shutil.copytree(sweep / "figures", tmp_path / "figures")
    whole, table = read_contents(sweep), read_contents(tmp_path)
    assert table.source == "table"
    for ours, theirs in zip(table.points, whole.points, strict=True):
        for name in ("label", "status", "reason", "flops_per_s", "bytes_per_s"):
            assert getattr(ours, name) == getattr(theirs, name)
        assert [flag.name for flag in ours.flags] == [flag.name for flag in theirs.flags]
    write_report(tmp_path)
    text = page_of(tmp_path)
    assert "not published with this sweep" in text
    assert text.count("<tbody id=") == POINTS


def test_packed_records_are_linked_where_they_lie(bare: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.mkdir()
    for name in ("points.csv", "roofs.json", "sweep.yaml"):
        shutil.copy(bare / name, packed)
    lines = [msgspec.json.encode(point) for point in read_sweep_points(bare)]
    (packed / POINTS_FILE).write_bytes(lzma.compress(b"\n".join(lines)))
    config = {"job": 0, "config": {"kernel": {"name": "gemm"}, "size": 32}}
    (packed / CONFIGS_FILE).write_bytes(lzma.compress(msgspec.json.encode(config)))
    assert read_contents(packed).source == "packed"
    text = write_report(packed).read_text()
    row = text[text.index('<tbody id="p3"') :].split("</tbody>")[0]
    assert f'href="{POINTS_FILE}"' in row
    assert "size: 32" in text
    assert "xz -dc" in text


def test_published_sweeps_have_a_page(tmp_path: Path) -> None:
    published = Path(__file__).parent.parent / "outputs/reference"
    for file in published.glob("*/*/sweep.yaml"):
        contents = read_contents(file.parent)
        assert contents.points
        page = tmp_path / f"{file.parent.name}.html"
        assert run_command("report", [str(file.parent), "--output", str(page)]) == EXIT_OK
        assert "Repeat it" in page.read_text()


@pytest.mark.parametrize("words", [[], ["--redraw"]])
def test_figures_are_drawn_again(
    words: list[str], bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (bare / "figures").mkdir()
    if words:
        (bare / "figures/old.svg").write_bytes(SVG)
    asked = []

    def draw_all(folder: Path, points: DataFrame, *rest: object) -> list[Path]:
        asked.append((folder, len(points), *rest))
        raise OSError("no ink")

    monkeypatch.setattr("roofexp.figures.draw_all", draw_all)
    assert run_command("report", [str(bare), *words]) == EXIT_OK
    folder, number, roofs, settings, far_below = asked[0]
    assert (folder, number, settings.style.name, far_below) == (bare, 8, "screen", 0.3)
    assert len(roofs) == 1
    assert "no ink" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["missing", "empty", "other table", "unwritable"])
def test_bad_input_is_one_line(what: str, bare: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = {"missing": [str(tmp_path / "no")], "unwritable": [str(bare), "--output", str(tmp_path / "no/x.html")]}
    if what in ("empty", "other table"):
        (tmp_path / "folder").mkdir()
        if what == "other table":
            (tmp_path / "folder/points.csv").write_text("a,b\n1,2\n")
        arguments[what] = [str(tmp_path / "folder")]
    (bare / "figures").mkdir()
    (bare / "figures/other.txt").touch()  # nothing is drawn for a page that cannot be written
    assert run_command("report", arguments[what]) == EXIT_BAD_INPUT
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("roofexp.report: ")


def test_an_error_in_the_page_loses_nothing(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bare / "report.html").mkdir()
    assert finish_report(bare, read_sweep_points(bare)) is None
    assert capsys.readouterr().err.count("\n") == 1
    assert finish_report(bare, []) is None


def test_the_command_can_be_typed_as_it_stands(sweep: Path) -> None:
    assert command_of(read_sweep(sweep)) == "python -m roofexp kernel=gemm,saxpy 'size=range(1,9)' -m"
    assert command_of({"arguments": ["experiment=quick"], "plain_run": False}) == "python -m roofexp experiment=quick"
    assert command_of({"arguments": ["size=8"], "plain_run": True}) == "python -m roofexp size=8"
    assert command_of({"command": "python x.py"}) == "python x.py"
    varies = dict(repetition(read_contents(sweep))["varies"])
    assert varies["precision"] == ["fp32", "fp64"]


def test_numbers_carry_their_units() -> None:
    assert quantity("nvml_sm_hz", 1.98e9) == ("NVML SM", "1.98 GHz")
    assert quantity("temperature_c", 41.0) == ("temperature", "41 °C")
    assert quantity("ecc", True) == ("ECC", "yes")
    assert quantity("driver", "580.1") == ("driver", "580.1")
    assert size_text(268435456) == "2^28"
    assert size_text(8192) == "8192"
    assert size_text(3_000_001) == "3000001"
    assert breakable("<a_b>") == "&lt;a_<wbr>b&gt;"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.mark.browser
def test_a_browser_shows_all_of_it(sweep: Path, browser: Browser) -> None:
    browser.errors.clear()
    browser.open((sweep / "report.html").as_uri())
    sizes = browser.run("[...document.querySelectorAll('.paper svg')].map(s => s.getBoundingClientRect().height)")
    assert len(sizes) == len(list((sweep / "figures").glob("*.svg")))
    assert min(sizes) > 100
    shown = browser.run("[...document.querySelectorAll('svg [data-job]')].every(g => g.getBBox().width > 0)")
    assert shown
    assert browser.run("performance.getEntriesByType('resource').length") == 0
    assert browser.errors == []


@pytest.mark.browser
def test_sorting_filtering_and_unfolding(sweep: Path, browser: Browser) -> None:
    browser.errors.clear()
    browser.open((sweep / "report.html").as_uri())
    column = """(name) => { const t = document.getElementById('table');
      const i = [...t.tHead.rows[0].cells].findIndex(c => c.textContent.trim() === name);
      return [i, [...t.tBodies].map(b => b.rows[0].cells[i].dataset.v ?? b.rows[0].cells[i].textContent.trim())]; }"""
    place, _ = browser.run(f"({column})('time')")
    head = f"document.getElementById('table').tHead.rows[0].cells[{place}]"
    browser.run(f"{head}.querySelector('button').focus()")
    browser.press("Enter", 13, "\r")
    times = [float(text) for text in browser.run(f"({column})('time')")[1] if text]
    assert times == sorted(times)
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    browser.press("Enter", 13, "\r")
    texts = browser.run(f"({column})('time')")[1]
    times = [float(text) for text in texts if text]
    assert times == sorted(times, reverse=True)
    assert texts[len(times) :] == [""] * (len(texts) - len(times))  # what was not timed stays last
    browser.run("document.getElementById('filter').value = 'gemm fp32'")
    browser.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    visible = browser.run("[...document.getElementById('table').tBodies].filter(b => !b.hidden).map(b => b.innerText)")
    assert visible
    assert all("gemm" in text and "fp32" in text for text in visible)
    assert f"{len(visible)} of {POINTS}" in browser.run("document.getElementById('shown').textContent")
    browser.run("document.querySelector('.cautions a[href=\"#p3\"]').click()")
    browser.until("document.querySelector('#p3 .more').offsetHeight > 0")
    assert browser.run("document.querySelector('#p3 .open').getAttribute('aria-expanded')") == "true"
    browser.run("document.querySelector('.paper [data-job]').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert "FLOP" in browser.run("document.querySelector('#mark pre').innerText")
    assert browser.errors == []


@pytest.mark.browser
@pytest.mark.parametrize(("width", "phone"), [(360, True), (800, False), (1180, False), (1280, False), (1900, False)])
def test_the_page_fits_its_window(sweep: Path, browser: Browser, width: int, phone: bool) -> None:
    for dark in (False, True):
        browser.open((sweep / "report.html").as_uri(), width, 800, dark=dark, phone=phone)
        browser.run("document.getElementById('unfold').click()")
        assert browser.run("document.documentElement.scrollWidth") <= width
        ground = browser.run("getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) is dark


@pytest.mark.browser
def test_it_prints(sweep: Path, browser: Browser, tmp_path: Path) -> None:
    browser.open((sweep / "report.html").as_uri())
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert 3 < len(re.findall(rb"/Type\s*/Page\b", pdf)) < 30
    if shutil.which("pdftotext"):
        (tmp_path / "page.pdf").write_bytes(pdf)
        text = subprocess.run(["pdftotext", "-layout", str(tmp_path / "page.pdf"), "-"], capture_output=True, text=True)
        assert text.stdout.count("next move") > 1  # the head of the table on each of its pages
        assert "range(1,9)" in text.stdout


@pytest.mark.browser
def test_a_long_table_is_cut_on_the_screen_and_says_so(tmp_path: Path, browser: Browser) -> None:
    folder = make_sweep(tmp_path / "long", 160)
    write_report(folder)
    browser.open((folder / "report.html").as_uri())
    count = "[...document.getElementById('table').tBodies].filter(b => b.offsetHeight > 0).length"
    assert browser.run(count) == 100
    assert browser.run("document.getElementById('shown').textContent") == "the first 100 of 160 points"
    browser.run("document.getElementById('all').click()")
    assert browser.run(count) == 160
