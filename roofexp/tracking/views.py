"""Views of an experiment in MLflow's web page: which runs and columns it shows when it is opened by our address.

MLflow keeps views that users share as tags of the experiment; a version that does not know them shows its own list.
"""

from __future__ import annotations

import json
from typing import Any

KIND = {"mlflow.experimentKind": "custom_model_development"}  # runs first, instead of language model traces
SHARED = "mlflow.sharedViewState."
POINTS, SWEEPS = "points", "sweeps"
BY_DATE = "attributes.start_time"
POINT_COLUMNS = [
    *("params.`kernel`", "params.`size`", "params.`precision`", "params.`cache_state`", "params.`clock_mode`"),
    *("metrics.`perf/flops_per_s`", "metrics.`mem/bytes_per_s`", "metrics.`ai/flop_per_byte`"),
    *("metrics.`roof/fraction`", "metrics.`time/event_median_s`", "tags.`roofexp.bound`"),
]
SWEEP_COLUMNS = [
    *("metrics.`points/ok`", "metrics.`points/failed`", "metrics.`points/flagged`"),
    *("metrics.`best/flops_per_s`", "metrics.`best/bytes_per_s`", "metrics.`best/roof_fraction`"),
    *("metrics.`perf/flops_per_s`", "metrics.`roof/fraction`", "tags.`roofexp.verdicts`"),
]


def experiment_tags() -> dict[str, str]:
    return {
        **KIND,
        SHARED + POINTS: json.dumps(_view("tags.roofexp.kind = 'point'", "metrics.`roof/fraction`", POINT_COLUMNS)),
        SHARED + SWEEPS: json.dumps(_view("", BY_DATE, SWEEP_COLUMNS)),
    }


def page(experiment_id: str, view: str) -> str:
    """The address of a view, from the server's own on."""
    return f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={view}"


def _view(condition: str, order: str, columns: list[str]) -> dict[str, Any]:
    """As the page's own Share button writes it. Points lie below their sweeps where the order is by date, else flat."""
    return {
        "searchFilter": condition,
        "orderByKey": order,
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": columns,
        "runsExpanded": {},
        "runsPinned": [],
        "runsHidden": [],
    }
