"""The figures on the page, and drawing them again from the records where that is asked."""

from __future__ import annotations

import base64
import csv
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.paths import conf_folder
from roofexp.config.schema import FiguresConfig
from roofexp.config.yaml_file import read_mapping
from roofexp.records.points_table import point_row
from roofexp.records.sweep_folder import JUDGED_WITH
from roofexp.report.contents import Contents, Link, Links
from roofexp.report.svg import headline, inline_svg, natural_width

MOST_BYTES = 10_000_000  # of SVG in one page; what goes beyond it stands as an image
FIRST = ("roofline", "size_sweep")  # kinds in this order, then the others by name


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """``svg`` is markup; where it is empty, ``png`` is a data URI. ``width_pt`` is the natural width."""

    anchor: str
    title: str
    alternative: str
    svg: str
    png: str
    width_pt: float | None
    remark: str  # how many points it draws and names, and what of the sweep is not in it
    links: list[Link]


def figures(contents: Contents, links: Links) -> list[Drawn]:
    """Those that lie in the sweep's folder ``figures``."""
    left, drawn = MOST_BYTES, []
    for number, stem in enumerate(_stems(contents.folder / "figures")):
        figure = _figure(stem, f"fig{number + 1}", contents, links, left)
        left -= len(figure.svg)
        drawn.append(figure)
    return drawn


def _stems(folder: Path) -> list[Path]:
    """Figures without their suffixes, each once."""
    stems = {file.with_suffix("") for kind in ("svg", "png") for file in folder.glob(f"*.{kind}")}

    def order(stem: Path) -> tuple[int, str]:
        kind = next((i for i, name in enumerate(FIRST) if stem.name.startswith(name)), len(FIRST))
        return kind, stem.name

    return sorted(stems, key=order)


def _figure(stem: Path, anchor: str, contents: Contents, links: Links, room: int) -> Drawn:
    rows = _table(stem.with_name(f"{stem.name}.csv"))
    svg_file, png_file = (stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png"))
    svg = svg_file.read_bytes() if svg_file.is_file() else b""
    title = headline(svg) or stem.name.replace("_", " ")
    remark = remark_on(rows, contents)
    alternative = f"{title}. {remark}".strip()
    markup = ""
    if svg and len(svg) <= room:
        try:
            markup = inline_svg(svg, f"{anchor}-", alternative, _jobs(rows))
        except ElementTree.ParseError:
            remark = f"{remark} {svg_file.name} is damaged; this is the PNG.".strip()
    elif svg:
        remark = f"{remark} Too large to stand in the page with its hover text: that is in {svg_file.name}.".strip()
    return Drawn(
        anchor=anchor,
        title=title,
        alternative=alternative,
        svg=markup,
        png="" if markup or not png_file.is_file() else _data_uri(png_file),
        width_pt=natural_width(svg),
        remark=remark,
        links=[
            link for kind in ("png", "svg", "pdf", "csv") if (link := links.to(stem.with_name(f"{stem.name}.{kind}")))
        ],
    )


def remark_on(rows: list[dict[str, str]], contents: Contents) -> str:
    """For instance ``Draws 940 of 1000 points and names 12 of them; not drawn: 60 skipped.``"""
    marks = [row for row in rows if row.get("kind") == "point" and row.get("job")]
    jobs = {int(float(row["job"])) for row in marks}
    if not jobs:
        return ""
    named = {int(float(row["job"])) for row in marks if row.get("named") == "True"}
    text = f"Draws {len(jobs)} of {len(contents.points)} points"
    if "named" in marks[0] and len(named) < len(jobs):
        text += f" and names {len(named)} of them; every mark names itself in its hover text, and the table has all"
    missing: dict[str, int] = {}
    for point in contents.points:
        if point.job not in jobs:
            why = point.status if point.status != "ok" else "measured, without a place in this figure"
            missing[why] = missing.get(why, 0) + 1
    if missing:
        text += "; not drawn: " + ", ".join(f"{number} {why}" for why, number in missing.items())
    return text + "."


def _jobs(rows: list[dict[str, str]]) -> dict[str, int]:
    """Which mark is which point's."""
    return {
        row["name"]: int(float(row["job"]))
        for row in rows
        if row.get("kind") == "point" and row.get("job") and re.match(r"[\w-]+$", row.get("name", ""))
    }


def _table(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        return []
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def _data_uri(file: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"


GROUPS = {"figures": "screen", "placing": "default"}  # what stands in for a configuration that is not at hand


def redraw(contents: Contents) -> list[Path]:
    """Writes ``figures/*`` in the sweep's folder; empty where no point was measured."""
    if not any(point.status == "ok" for point in contents.points):
        return []
    from roofexp.figures import draw_all

    placing = _group(contents, "placing") | (contents.sweep.get(JUDGED_WITH) or {})
    far_below = float(placing["far_below"])
    return draw_all(contents.folder, points_frame(contents), contents.roofs, _redraw_settings(contents), far_below)


def lacks_figures(contents: Contents) -> bool:
    """Whether the sweep has no figures and was not told to have none."""
    return not any((contents.folder / "figures").glob("*.*")) and bool(_group(contents, "figures").get("draw", True))


def points_frame(contents: Contents) -> Any:
    """The rows of points.csv, made again from the records where there are any."""
    import pandas

    if contents.source == "table":
        return pandas.read_csv(contents.folder / "points.csv")
    return pandas.DataFrame([point_row(point) for point in contents.points])


def _redraw_settings(contents: Contents) -> FiguresConfig:
    from omegaconf import OmegaConf

    stored = {key: value for key, value in _group(contents, "figures").items() if key in FiguresConfig.__annotations__}
    settings = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(FiguresConfig), stored, {"draw": True}))
    assert isinstance(settings, FiguresConfig)
    return settings


def _group(contents: Contents, name: str) -> dict[str, Any]:
    """As the sweep was configured, else as the program's own default says."""
    stored = (contents.config or {}).get(name)
    if isinstance(stored, dict):
        return stored
    return read_mapping(conf_folder() / name / f"{GROUPS[name]}.yaml")
