"""Where MLflow keeps the runs, and whether it can be written, asked before anything is measured.

MLflow itself retries an unwritable database for 100 s, adds its tables to the database of another program and migrates
an older one without asking. Each of these is found here first, within seconds, and is one line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import sqlite3
import ssl
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from roofexp.errors import BadInputError
from roofexp.records.files import lock_held
from roofexp.text.addresses import without_secrets

FREE_BYTES = 16_000_000  # a fresh database takes 1 MB, a point 15 kB
PROBE_S = 4.0  # for a lock to be released, or a server to answer
ARTIFACTS = "artifacts"  # the folder beside the store that this program's experiments keep their files in
CREATION_S = 120.0  # another process may be creating the database; MLflow needs up to 5 s for it
PORTS = {"postgres": 5432, "mysql": 3306, "mssql": 1433}
OTHER_STORE = "name another with tracking.uri=sqlite:////folder/new.db, or go on without MLflow by tracking=none"


class TrackingError(Exception):
    """The store cannot be used now; measuring can go on, and the results be mirrored later. One line."""


class TrackingInputError(TrackingError, BadInputError):
    """What was asked for cannot work: stop before measuring. One line: what, where, what is allowed."""


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """``database`` is set for an SQLite store; ``artifacts`` where this program decides the artifacts' place."""

    uri: str
    database: Path | None = None
    default: bool = False  # nobody named it: its folder is made when it is missing
    artifacts: Path | None = None

    @property
    def client_uri(self) -> str:
        """What the client gets: SQLite waits longer than its 5 s for other writers."""
        return sqlite_address(self.database, timeout="60") if self.database else self.uri


def sqlite_address(database: Path, **options: str) -> str:
    """With the characters of the path quoted that mean something in an address: ``%``, ``?``, ``#``."""
    from sqlalchemy.engine import URL

    return URL.create("sqlite", database=str(database), query=options).render_as_string()


def resolve_store(store: str, uri: str | None, outputs: Path) -> StoreAddress:
    """The store of a configuration: its ``uri``, else MLFLOW_TRACKING_URI, else mlflow.db in ``outputs``.

    Relative SQLite paths are made absolute here, once, before any job changes the folder.
    """
    named = uri or os.environ.get("MLFLOW_TRACKING_URI")
    if not named:
        if store == "server":
            raise TrackingInputError(
                "tracking=server: no server is named; set MLFLOW_TRACKING_URI or tracking.uri=http://host:5000"
            )
        return _database_address(outputs.absolute() / "mlflow.db", default=True)
    if re.fullmatch(r"sqlite:///[^?]+(\?.*)?", named):
        from sqlalchemy.engine import make_url

        return _database_address(Path(make_url(named).database or "").absolute(), default=False)
    if re.match(r"(https?:|databricks\b|(postgres|postgresql|mysql|mssql)[+:])", named):
        served = named.startswith(("http", "databricks"))
        return StoreAddress(uri=named, artifacts=None if served else outputs.absolute() / ARTIFACTS)
    raise TrackingInputError(
        f"tracking.uri={shown(named)}: not a store that MLflow can keep runs in; allowed: sqlite:////folder/file.db, "
        "http://host:5000, or a PostgreSQL, MySQL or SQL Server address"
    )


def _database_address(database: Path, default: bool) -> StoreAddress:
    return StoreAddress(
        uri=f"sqlite:///{database}", database=database, default=default, artifacts=database.parent / ARTIFACTS
    )


def check_address(address: StoreAddress) -> None:
    """That the store can be used, or made; makes nothing. A managed service is left to its own client.

    Raises TrackingInputError and TrackingError.
    """
    database = address.database
    if database is not None:
        if not address.default or database.parent.exists():
            check_folder(database)
            check_database(database)
    elif address.uri.startswith("http"):
        check_server(address.uri)
    elif not address.uri.startswith("databricks"):
        check_database_server(address.uri)


def check_folder(database: Path) -> None:
    """That files can be made beside the database, as SQLite must.

    Raises TrackingInputError, or TrackingError where only space is lacking.
    """
    folder = database.parent
    if database.is_dir():
        raise TrackingInputError(f"{database}: a folder, not a database; {OTHER_STORE}")
    if not folder.is_dir():
        what = "a file, not a folder" if folder.exists() else "no such folder"
        raise TrackingInputError(f"{folder}: {what}, so no MLflow database can be kept there; {OTHER_STORE}")
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".roofexp") as file:
            file.write(bytes(65536))
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TrackingError(f"{folder}: the disk is full, MLflow's database cannot grow") from error
        raise TrackingInputError(
            f"{folder}: cannot be written ({error.strerror}), so no MLflow database can be kept there; {OTHER_STORE}"
        ) from error
    if free < FREE_BYTES:
        raise TrackingError(f"{folder}: only {free / 1e6:.0f} MB are free, MLflow's database cannot grow")


def check_database(database: Path) -> str | None:
    """The schema revision of an MLflow database that can be written now; None where there is none yet.

    Raises TrackingInputError for a file of another program, TrackingError for one that is locked or damaged.
    """
    try:
        if not database.exists() or database.stat().st_size == 0:
            return None
        with database.open("rb") as file:
            if file.read(16) != b"SQLite format 3\x00":
                raise TrackingInputError(f"{database}: not an SQLite database; {OTHER_STORE}")
        return _read_revision(database)
    except PermissionError as error:
        raise TrackingInputError(f"{database}: cannot be opened ({error.strerror}); {OTHER_STORE}") from error
    except sqlite3.Error as error:
        raise _database_error(database, error) from error


def _read_revision(database: Path) -> str | None:
    address = f"file:{quote(str(database))}?mode=rw"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=PROBE_S, isolation_level=None)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        if not {"alembic_version", "experiments", "runs", "metrics"} <= tables:
            some = ", ".join(sorted(tables)[:4])
            raise TrackingInputError(f"{database}: the database of another program (tables: {some}); {OTHER_STORE}")
        connection.execute("BEGIN IMMEDIATE")  # fails now where a write would fail later: locked, or read-only
        connection.execute("ROLLBACK")
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else ""


def _database_error(database: Path, error: sqlite3.Error) -> TrackingError:
    text = str(error)
    if "locked" in text:
        return TrackingError(f"{database}: locked by another program for more than {PROBE_S:.0f} s")
    if "readonly" in text or "unable to open" in text:
        return TrackingInputError(f"{database}: cannot be written ({text}); {OTHER_STORE}")
    return TrackingError(f"{database}: damaged ({text}); {OTHER_STORE}")


def check_revision(database: Path, revision: str, revisions: list[str], version: str) -> None:
    """``revisions`` are those of the installed MLflow, the newest first. Raises TrackingError unless it is that."""
    if revision == revisions[0]:
        return
    if revision in revisions:
        raise TrackingError(
            f"{database}: made by an older MLflow than {version}; copy it and run: mlflow db upgrade "
            f"{sqlite_address(database)}; or {OTHER_STORE}"
        )
    raise TrackingError(
        f"{database}: made by a newer MLflow than {version} (schema {revision or 'unknown'}); install a newer mlflow, "
        f"or {OTHER_STORE}"
    )


def check_server(uri: str) -> None:
    """That a server answers HTTP at ``uri``; raises TrackingError within a few seconds."""
    if not urlsplit(uri).hostname:
        raise TrackingInputError(f"tracking.uri={shown(uri)}: no host in it; allowed: http://host:5000")
    try:
        parts = urlsplit(uri)
        place = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
        with urllib.request.urlopen(f"{place}/health", timeout=PROBE_S):
            return
    except urllib.error.HTTPError as error:
        if error.code in (502, 503, 504):
            raise TrackingError(f"{shown(uri)}: the MLflow server is down (HTTP {error.code})") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):  # MLflow has its own settings for certificates: let it judge
            return
        raise TrackingError(f"{shown(uri)}: no MLflow server answers ({reason})") from error


def check_database_server(uri: str) -> None:
    """That the host of an SQL server takes connections; MLflow would try for 100 s. Raises TrackingError."""
    parts = urlsplit(uri)
    port = parts.port or next(port for name, port in PORTS.items() if parts.scheme.startswith(name))
    if not parts.hostname:  # a socket file, or a name that only the driver knows
        return
    try:
        socket.create_connection((parts.hostname, port), timeout=PROBE_S).close()
    except OSError as error:
        raise TrackingError(f"{shown(uri)}: no database server answers ({error})") from error


def shown(uri: str) -> str:
    """Without the passwords and tokens that a URI may hold."""
    return without_secrets(uri)


@contextlib.contextmanager
def creation_lock(database: Path) -> Iterator[None]:
    """One process at a time: two that create the same database corrupt it for good."""
    from filelock import Timeout

    try:
        with lock_held(Path(f"{database}.lock"), CREATION_S, mode=0o666):
            yield
    except Timeout as error:
        raise TrackingError(f"{database}.lock: held by another program for {CREATION_S:.0f} s") from error
