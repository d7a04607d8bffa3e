"""``.ncu-rep`` reports: through the ncu on the PATH, or NVIDIA's ``ncu_report`` package where the user installed it."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

from roofexp.counters.catalogue import is_known
from roofexp.counters.launch import Launch, Metric
from roofexp.counters.messages import explain_ncu_failure
from roofexp.counters.report import read_report
from roofexp.counters.units import UnknownUnitError, convert
from roofexp.errors import BadInputError

ENDINGS = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")
IMPORT_TIMEOUT_S = 600.0


def read_rep_file(path: Path, ncu: Path | None = None) -> list[Launch]:
    """The launches of a report file, by ``ncu`` or the one on the PATH.

    Raises BadInputError where neither ncu nor its package is there, or it fails.
    """
    if not path.is_file():
        raise BadInputError(f"{path}: no such file")
    program = ncu or shutil.which("ncu") or shutil.which("nv-nsight-cu-cli")
    if program:
        return _through_ncu(str(program), path)
    if importlib.util.find_spec("ncu_report"):
        return _through_package(path)
    raise BadInputError(
        f"{path}: a report of this kind is read by ncu, which is not on the PATH; install Nsight Compute or "
        "`pip install ncu-report`, or export the report where it was made: "
        f"ncu --import {path.name} --csv --page raw --print-units base > report.csv"
    )


def _through_ncu(ncu: str, path: Path) -> list[Launch]:
    command = [ncu, "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInputError(f"{path}: {ncu} could not import it ({error})") from error
    if done.returncode != 0:
        explanation = explain_ncu_failure(done.stdout + done.stderr, done.returncode)
        raise BadInputError(f"{path}: {explanation}")
    return read_report(done.stdout, str(path))


def _through_package(path: Path) -> list[Launch]:
    package: Any = importlib.import_module("ncu_report")
    try:
        report = package.load_report(str(path))
    except Exception as error:  # whatever the package raises for a file that it cannot read
        raise BadInputError(f"{path}: ncu_report cannot read it ({error})") from error
    launches = []
    for index in range(report.num_ranges()):
        actions = report.range_by_idx(index)
        launches += [_launch(actions.action_by_idx(i), i, index) for i in range(actions.num_actions())]
    if not launches:
        raise BadInputError(f"{path}: the report holds no launches")
    return launches


def _launch(action: Any, number: int, table: int) -> Launch:
    metrics = {name: _metric(name, action.metric_by_name(name)) for name in action.metric_names()}
    parts = [metrics.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
    version = [str(int(part.value)) for part in parts if part and part.value is not None]
    return Launch(
        table=table,
        process=None,
        launch=number,
        kernel=action.name(),
        nvtx=_ranges(action),
        architecture=".".join(version) if len(version) == 2 else None,
        metrics=metrics,
    )


def _ranges(action: Any) -> list[str]:
    state = action.nvtx_state()
    domains = [state.domain_by_id(index) for index in state.domains()] if state else []
    return [str(name) for domain in domains for name in domain.push_pop_ranges()]


def _metric(name: str, metric: Any) -> Metric:
    """Words are kept as words; a unit that is not known stops the reading only where something is made of it."""
    value, unit = metric.value(), metric.unit() or ""
    if isinstance(value, str):
        return Metric(None, "", value)
    if value is None or value != value:  # nan
        return Metric(None, unit)
    try:
        return Metric(*convert(value, unit))
    except UnknownUnitError as error:
        if is_known(name):
            raise BadInputError(f"{name} has the unit {unit!r}, which is not known") from error
        return Metric(value, unit)
