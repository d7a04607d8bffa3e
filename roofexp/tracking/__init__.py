"""MLflow as a mirror of the files. Importing this imports no mlflow; opening a store does."""

from __future__ import annotations

from roofexp.tracking.store import TrackingError, TrackingInputError
from roofexp.tracking.tracker import Mirrored, SafeTracker, Tracker, mirror, open_store

__all__ = ["Mirrored", "SafeTracker", "Tracker", "TrackingError", "TrackingInputError", "mirror", "open_store"]
