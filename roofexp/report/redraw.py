"""The figures of a sweep drawn again from its files, in whichever layout it lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofexp.folders import conf_folder
from roofexp.report.contents import Contents
from roofexp.schema import FiguresConfig
from roofexp.sweep import JUDGED_WITH, point_row

GROUPS = {"figures": "screen", "placing": "default"}  # what stands in for a configuration that is not at hand


def redraw(contents: Contents) -> list[Path]:
    """Writes ``figures/*`` in the sweep's folder; empty where no point was measured."""
    if not any(point.status == "ok" for point in contents.points):
        return []
    from roofexp.figures import draw_all

    placing = _group(contents, "placing") | (contents.sweep.get(JUDGED_WITH) or {})
    far_below = float(placing["far_below"])
    return draw_all(contents.folder, points_frame(contents), contents.roofs, _settings(contents), far_below)


def wanted(contents: Contents) -> bool:
    """Whether the sweep has no figures and was not told to have none."""
    return not any((contents.folder / "figures").glob("*.*")) and bool(_group(contents, "figures").get("draw", True))


def points_frame(contents: Contents) -> Any:
    """The rows of points.csv, made again from the records where there are any."""
    import pandas

    if contents.source == "table":
        return pandas.read_csv(contents.folder / "points.csv")
    return pandas.DataFrame([point_row(point) for point in contents.points])


def _settings(contents: Contents) -> FiguresConfig:
    from omegaconf import OmegaConf

    known = {
        name: value for name, value in _group(contents, "figures").items() if name in FiguresConfig.__annotations__
    }
    found = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(FiguresConfig), known, {"draw": True}))
    assert isinstance(found, FiguresConfig)
    return found


def _group(contents: Contents, name: str) -> dict[str, Any]:
    """As the sweep was configured, else as the program's own default says."""
    stored = (contents.config or {}).get(name)
    if isinstance(stored, dict):
        return stored
    import yaml

    default = yaml.safe_load((conf_folder() / name / f"{GROUPS[name]}.yaml").read_text())
    assert isinstance(default, dict)
    return default
