"""What happens before the first and after the last point of a sweep, hooked into Hydra.

Hydra swallows exceptions of callbacks: each body turns its own into an exit (which Hydra lets through) or a line.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import Any

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from roofexp.errors import EXIT_BAD_INPUT, EXIT_POINT_FAILED, BadInputError
from roofexp.run.finish import finish
from roofexp.run.prepare import prepare
from roofexp.run.process import PROCESS


class SweepCallback(Callback):
    def __init__(self) -> None:
        self._last: JobReturn | None = None

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        self._start(config, plain_run=True)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        self._start(config, plain_run=False)
        with contextlib.suppress(ImportError):  # a Hydra whose insides are others composes every job by itself
            from roofexp.config.composition import share_compositions

            share_compositions(config.hydra.overrides.hydra)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Launchers keep what every job returned: half a megabyte of configuration each. It is let go when the next job
        starts, so that other callbacks still see it at the end of its own."""
        if self._last is not None:
            self._last.cfg = self._last.hydra_cfg = None

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        self._last = job_return

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        self._end()

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        self._end()

    def _start(self, config: DictConfig, plain_run: bool) -> None:
        try:
            PROCESS.begin(prepare(config, plain_run))
        except BadInputError as error:
            print(f"roofexp: {error}", file=sys.stderr)
            raise SystemExit(EXIT_BAD_INPUT) from error
        except Exception as error:  # Hydra would go on without a sweep's folder
            traceback.print_exc()
            raise SystemExit(EXIT_POINT_FAILED) from error

    def _end(self) -> None:
        if PROCESS.run is None:
            return
        try:
            finish(PROCESS.run)
        except Exception:  # Hydra would turn it into a warning, and the exit code would be 0
            traceback.print_exc()
            PROCESS.run.exit_code = EXIT_POINT_FAILED
