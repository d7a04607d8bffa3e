"""The sweep behind an MLflow run: its folder where it still lies, else its files out of the store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roofexp.errors import BadInputError
from roofexp.tracking.client import import_mlflow, one_line
from roofexp.tracking.store import StoreAddress, TrackingError, check_address, resolve_store, shown


@contextmanager
def fetched_sweep(run_id: str, uri: str | None, outputs: Path) -> Iterator[Path]:
    """The folder of the sweep of a run (its own or, for a point's run, its parent's). Files that were fetched are
    removed afterwards.

    Raises BadInputError for a run that the store does not have or that is no sweep's.
    """
    address = resolve_store("sqlite", uri, outputs)
    client, run = _find(run_id, address)
    sweep_id = run.data.tags.get("roofexp.sweep_id")
    if not sweep_id:
        raise BadInputError(f"run {run_id} in {shown(address.uri)}: not a run of roofexp (no tag roofexp.sweep_id)")
    parent = run.data.tags.get("mlflow.parentRunId", run_id)
    folder = _folder_of(sweep_id, outputs)
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="roofexp") as place:
        _download(client, parent, run.info.experiment_id, Path(place))
        yield Path(place)


def _find(run_id: str, address: StoreAddress) -> tuple[Any, Any]:
    if address.database is not None and not address.database.is_file():
        raise BadInputError(f"run {run_id}: no MLflow store at {shown(address.uri)}; name it by --uri")
    try:
        check_address(address)
        client = import_mlflow().MlflowClient(tracking_uri=address.client_uri)
        return client, client.get_run(run_id)
    except TrackingError as error:
        raise BadInputError(f"run {run_id}: {error}") from error
    except Exception as error:  # whatever a store raises
        raise BadInputError(f"run {run_id}: not in {shown(address.uri)} ({one_line(error)})") from error


def _folder_of(sweep_id: str, outputs: Path) -> Path | None:
    """The sweep that the run mirrors, below ``outputs``."""
    from roofexp.sweep import read_sweep

    for file in outputs.glob("*/*/sweep.yaml"):
        try:
            if str(read_sweep(file.parent).get("sweep_id")) == sweep_id:
                return file.parent
        except ValueError:
            continue
    return None


def _download(client: Any, parent: str, experiment: str, place: Path) -> None:
    """The files of the sweep, and those of each point in a folder of its job's number."""
    children = []
    token = None
    while True:
        page = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent}'", page_token=token)
        children += list(page)
        token = page.token
        if not token:
            break
    try:
        _files(client, parent, place, ("sweep.yaml", "roofs.json"))
        for child in children:
            own = place / child.data.tags.get("roofexp.job", child.info.run_id)
            own.mkdir(exist_ok=True)
            _files(client, child.info.run_id, own, ("point.json", "samples.csv"))
    except Exception as error:  # whatever an artifact store raises
        raise BadInputError(f"run {parent}: its files cannot be fetched ({one_line(error)})") from error


def _files(client: Any, run_id: str, place: Path, wanted: tuple[str, ...]) -> None:
    kept = {found.path for found in client.list_artifacts(run_id)}
    for name in wanted:
        if name in kept:
            client.download_artifacts(run_id, name, str(place))
