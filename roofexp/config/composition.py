"""Jobs that differ in plain values share one composition.

Hydra composes every job of a sweep from scratch, and does so twice: once to check it before the first job starts, once
to launch it. With our groups that costs several times what the job does besides. Most jobs of a sweep take the same
files and differ in values (``size=...``), which Hydra applies last. So the files are composed once for each choice of
them, kept as bytes, and the values are applied to a fresh copy, by Hydra's own code.

This holds for what Hydra composes after a sweep has begun. ``--cfg``, ``--info``, plain runs and the sweep's own
configuration are untouched, and anything that is not understood here is left to Hydra.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig

from roofexp.config.guard import GuardedLoader

KEPT = 1000  # compositions, about 25 kB each


class SharingLoader(GuardedLoader):
    """Hydra's loader, asked for the same files once only. A file that changes during a sweep changes no job of it."""

    def __init__(self, search_path: Any, words: Sequence[str] = ()) -> None:
        super().__init__(search_path, words)
        self._composed: dict[Any, bytes] = {}
        self._is_group: dict[Any, bool] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Launchers send the loader to each of their jobs, which would use one composition of all."""
        return {**self.__dict__, "_composed": {}, "_is_group": {}}

    def load_configuration(
        self, config_name: str | None, overrides: list[str], run_mode: RunMode, *args: Any, **kwargs: Any
    ) -> DictConfig:
        shared = None
        if run_mode == RunMode.RUN and not args and not kwargs:
            try:
                shared = self._shared(config_name, overrides)
            except Exception:  # Hydra says what is wrong, in its own words
                shared = None
        if shared is not None:
            return self.guarded(shared)
        return super().load_configuration(config_name, overrides, run_mode, *args, **kwargs)

    def _shared(self, config_name: str | None, overrides: list[str]) -> DictConfig | None:
        """None where the overrides are more than files and values."""
        parsed = OverridesParser.create().parse_overrides(overrides)
        if any(override.is_sweep_override() for override in parsed):
            return None
        hydras = [_line(override) for override in parsed if override.is_hydra_override()]
        values: list[Override] = []
        chosen: list[str] = []
        for override in parsed:
            if self._chooses_files(override, config_name, hydras):
                chosen.append(_line(override))
            else:
                values.append(override)
        config = self._copy(config_name, chosen)
        if config.hydra.job.env_copy:  # read when a job is composed
            return None
        self._apply_overrides_to_config(values, config)
        _describe(config, [override for override in parsed if not override.is_hydra_override()])
        return config

    def _chooses_files(self, override: Override, config_name: str | None, hydras: list[str]) -> bool:
        """Whether the override must be known before values are applied; as Hydra decides it."""
        if override.is_hydra_override():
            return True
        if isinstance(override.value(), dict):
            return False
        group = override.key_or_group
        key = (group, config_name, *hydras)
        if key not in self._is_group:
            self._is_group[key] = bool(self.get_group_options(group, None, config_name, hydras))
        return self._is_group[key]

    def _copy(self, config_name: str | None, chosen: list[str]) -> DictConfig:
        """Unpickling copies a configuration in a fifth of the time of a deep copy."""
        key = (config_name, os.getcwd(), *chosen)
        if key not in self._composed:
            if len(self._composed) >= KEPT:
                self._composed.pop(next(iter(self._composed)))
            composed = super().load_configuration(config_name, chosen, RunMode.RUN)
            self._composed[key] = pickle.dumps(composed, pickle.HIGHEST_PROTOCOL)
        copy = pickle.loads(self._composed[key])
        assert isinstance(copy, DictConfig)
        return copy


def share_compositions(words: Sequence[str] = ()) -> None:
    """From now on, in the Hydra of this process. An unknown Hydra, or a loader that is not Hydra's own, stays.
    ``words``: what else than the command line is the user's own in the jobs of the sweep."""
    from hydra.core.global_hydra import GlobalHydra

    hydra = GlobalHydra.instance().hydra
    loader = getattr(hydra, "config_loader", None)
    of_hydra = isinstance(loader, ConfigLoaderImpl) and type(loader) in (ConfigLoaderImpl, GuardedLoader)
    if hydra and loader and of_hydra and hasattr(loader, "_apply_overrides_to_config"):
        hydra.config_loader = SharingLoader(loader.get_search_path(), [*getattr(loader, "words", ()), *words])


def _line(override: Override) -> str:
    assert override.input_line is not None
    return override.input_line


def _describe(config: DictConfig, overrides: list[Override]) -> None:
    """What Hydra notes of a job's overrides, those that chose files and those that set values in the order given."""
    job = config.hydra.job
    config.hydra.overrides.task = [_line(override) for override in overrides]
    names = job.config.override_dirname
    job.override_dirname = get_overrides_dirname(
        overrides=overrides, exclude_keys=names.exclude_keys, item_sep=names.item_sep, kv_sep=names.kv_sep
    )
