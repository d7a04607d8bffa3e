"""The runs of one MLflow experiment, its creation and its views. The only import of mlflow."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from roofexp.records.files import write_atomically
from roofexp.text.console import one_line
from roofexp.tracking.run import RunContent
from roofexp.tracking.store import (
    ARTIFACTS,
    StoreAddress,
    TrackingError,
    TrackingInputError,
    check_address,
    check_database,
    check_revision,
    creation_lock,
    shown,
    sqlite_address,
)

ENVIRONMENT = {  # unless the user says otherwise
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}

RUNS_AT_ONCE = 1000  # in one answer of a search
PARAMS_AT_ONCE = 100  # that a server takes


def import_mlflow() -> Any:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with _no_warnings():
        import mlflow
    for name in ("mlflow", "alembic", "urllib3.connectionpool"):  # each logs what it then raises, with tracebacks
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return mlflow


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Deprecations inside MLflow are nothing that a user of this program can act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class RunStore:
    """Gives MLflow's own runs and raises what MLflow raises. Runs are named by id only, so MLFLOW_RUN_ID and an active
    run change nothing."""

    def __init__(self, client: Any, address: StoreAddress, experiment: str, experiment_id: str) -> None:
        self.client, self.address = client, address
        self.experiment, self.experiment_id = experiment, experiment_id

    def create(self, content: RunContent, tags: Mapping[str, str] | None = None) -> Any:
        """A new run with all but its files, still running."""
        run = self.client.create_run(
            self.experiment_id,
            start_time=content.start_ms,
            tags={**content.tags, **(tags or {})},
            run_name=content.name,
        )
        self.log(run.info.run_id, content.params, content.metrics, {}, content.end_ms)
        return run

    def get(self, run_id: str) -> Any:
        return self.client.get_run(run_id)

    def search(self, tags: Mapping[str, str]) -> list[Any]:
        """All runs with these tags, the oldest first."""
        condition = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        runs: list[Any] = []
        token = None
        while True:
            page = self.client.search_runs(
                [self.experiment_id], condition, max_results=RUNS_AT_ONCE, order_by=["start_time ASC"], page_token=token
            )
            runs += page
            token = page.token
            if not token:
                return runs

    def log(
        self,
        run_id: str,
        params: Mapping[str, str],
        metrics: Mapping[str, float],
        tags: Mapping[str, str],
        at_ms: int,
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag

        values = [Metric(key, float(value), at_ms, 0) for key, value in metrics.items()]
        marks = [RunTag(key, text) for key, text in tags.items()]
        texts = [Param(key, text) for key, text in params.items()]
        for start in range(0, max(len(texts), 1), PARAMS_AT_ONCE):
            part = texts[start : start + PARAMS_AT_ONCE]
            self.client.log_batch(run_id, metrics=values, params=part, tags=marks)
            values, marks = [], []

    def upload(self, run: Any, files: Iterable[tuple[Path, str]], long_values: Mapping[str, str]) -> None:
        """``files`` each with its folder among the run's artifacts; the full text of what was cut beside them."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        # the client's own log_artifact asks the store for the run again for every file
        artifacts = get_artifact_repository(run.info.artifact_uri, tracking_uri=self.address.client_uri)
        for file, place in files:
            artifacts.log_artifact(str(file), place or None)
        if long_values:
            with tempfile.TemporaryDirectory(prefix="roofexp") as folder:
                whole = Path(folder) / "long_values.json"
                whole.write_text(json.dumps(long_values, indent=2, ensure_ascii=False), encoding="utf-8")
                artifacts.log_artifact(str(whole), None)

    def exclusive(self) -> AbstractContextManager[None]:
        """One process at a time, so that two do not make the same run; a server has no such lock."""
        return creation_lock(self.address.database) if self.address.database else nullcontext()

    def reopen(self, run_id: str) -> None:
        self.client.update_run(run_id, status="RUNNING")

    def end(self, run_id: str, status: str, end_ms: int | None = None) -> None:
        """``end_ms``: now, unless said."""
        self.client.set_terminated(run_id, status, end_ms)

    def delete(self, run_id: str) -> None:
        self.client.delete_run(run_id)


def open_runs(address: StoreAddress, experiment: str) -> RunStore:
    """Checks the store, creates it and the experiment if need be. Raises TrackingInputError and TrackingError."""
    if address.database is not None and address.default:
        with suppress(OSError):  # the check names what is wrong with the folder
            address.database.parent.mkdir(parents=True, exist_ok=True)
    check_address(address)
    if address.database is not None:
        _prepare_database(address.database)
    mlflow = import_mlflow()
    try:
        with _no_warnings():
            client = mlflow.MlflowClient(tracking_uri=address.client_uri)
        return RunStore(client, address, experiment, _experiment_id(client, address, experiment))
    except TrackingError:
        raise
    except Exception as error:  # whatever a store or a server raises: the caller can measure without it
        raise TrackingError(f"{shown(address.uri)}: MLflow cannot use this store ({one_line(error)})") from error


def _prepare_database(database: Path) -> None:
    if check_database(database) is None:
        with creation_lock(database):
            if check_database(database) is None:
                _create_database(database)
    version, revisions = _revisions_of_mlflow()
    check_revision(database, check_database(database) or "", revisions, version)


def _create_database(database: Path) -> None:
    """Made elsewhere and moved into place whole: a creation that is killed halfway leaves a database that MLflow
    cannot repair."""
    mlflow = import_mlflow()
    with tempfile.TemporaryDirectory(prefix="roofexp") as folder:
        fresh = Path(folder) / "mlflow.db"
        with _no_warnings():
            mlflow.MlflowClient(tracking_uri=sqlite_address(fresh)).search_experiments(max_results=1)
        try:
            write_atomically(database, fresh.read_bytes())
        except OSError as error:
            raise TrackingError(f"{database}: cannot be created ({error.strerror})") from error


def _revisions_of_mlflow() -> tuple[str, list[str]]:
    """The version of the installed MLflow and its schema revisions, the newest first."""
    mlflow = import_mlflow()
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(Path(mlflow.__file__).parent / "store" / "db_migrations"))
    return mlflow.__version__, [script.revision for script in scripts.walk_revisions()]


def _experiment_id(client: Any, address: StoreAddress, name: str) -> str:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        place = address.artifacts.as_uri() if address.artifacts else None
        try:
            return str(client.create_experiment(name, artifact_location=place, tags=experiment_tags()))
        except MlflowException:  # another process was faster
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        store = shown(address.uri)
        raise TrackingInputError(
            f"tracking.experiment={name}: this experiment was deleted in {store}; use another name, or restore it: "
            f"MLFLOW_TRACKING_URI={store} mlflow experiments restore --experiment-id {experiment.experiment_id}"
        )
    _check_artifacts(experiment.artifact_location, address, name)
    for key, text in experiment_tags().items():
        if experiment.tags.get(key) != text and (key not in KIND or key not in experiment.tags):
            client.set_experiment_tag(experiment.experiment_id, key, text)
    return str(experiment.experiment_id)


def _check_artifacts(location: str, address: StoreAddress, name: str) -> None:
    """MLflow fixes the place of an experiment's files once, as an absolute path: it would make a moved one anew."""
    place = urlsplit(location)
    folder = Path(unquote(place.path))
    if address.database and place.scheme in ("", "file") and not folder.exists() and not folder.parent.is_dir():
        raise TrackingInputError(
            f"tracking.experiment={name}: {address.database} was moved: the files of this experiment belong in "
            f"{folder}, which is gone; use another name, or move the folder back"
        )
    own = address.database and address.database.parent.resolve()
    if own and place.scheme in ("", "file") and folder.name == ARTIFACTS and folder.parent.resolve() != own:
        raise TrackingInputError(
            f"tracking.experiment={name}: {address.database} is a copy, and MLflow would write the files of this "
            f"experiment beside the original, into {folder}; use another name, or remove the copied database and "
            f"mirror the sweeps again with python -m roofexp.track"
        )


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
