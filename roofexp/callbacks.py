"""What happens before the first and after the last point of a sweep, hooked into Hydra.

Hydra swallows exceptions of callbacks: each body turns its own into an exit (which Hydra lets through) or a line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from roofexp.errors import EXIT_BAD_INPUT, BadInputError
from roofexp.finish import finish
from roofexp.running import begin, current
from roofexp.start import prepare


class SweepCallback(Callback):
    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        self._start(config, Path(config.hydra.run.dir).parent, plain_run=True)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        self._start(config, Path(config.hydra.sweep.dir), plain_run=False)

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        self._end()

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        self._end()

    def _start(self, config: DictConfig, folder: Path, plain_run: bool) -> None:
        try:
            begin(prepare(config, Path(config.hydra.runtime.cwd) / folder, plain_run))
        except BadInputError as error:
            print(f"roofexp: {error}", file=sys.stderr)
            raise SystemExit(EXIT_BAD_INPUT) from error

    def _end(self) -> None:
        run = current()
        if run is not None:
            finish(run)
