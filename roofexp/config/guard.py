"""What a composed configuration may do before anything is made of it: anybody's file may describe a measurement, and
only the user may name programs, servers, folders and variables of the environment.

The user's own are the command line, as it was typed, and the files of the program itself with ``conf/local``. A folder
given by ``--config-dir`` may bring kernels, and is anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig, ListConfig, OmegaConf, flag_override

from roofexp.config.paths import conf_folder, is_inner
from roofexp.config.plain import FROM_ENVIRONMENT, LIVE, no_environment
from roofexp.config.yaml_file import read_mapping
from roofexp.errors import BadInputError
from roofexp.text.addresses import all_without_secrets, mask_and_remember, without_secrets

CALLBACKS = {"sweep": {"_target_": "roofexp.run.callbacks.SweepCallback"}}
PLUGINS = "hydra_plugins.hydra_"
BUILT = {  # of each group of Hydra's, what may be built of it
    "launcher": (
        "hydra._internal.core_plugins.basic_launcher.BasicLauncher",
        f"{PLUGINS}joblib_launcher.joblib_launcher.JoblibLauncher",
        f"{PLUGINS}submitit_launcher.submitit_launcher.LocalLauncher",
        f"{PLUGINS}submitit_launcher.submitit_launcher.SlurmLauncher",
        f"{PLUGINS}ray_launcher.ray_launcher.RayLauncher",
    ),
    "sweeper": (
        "hydra._internal.core_plugins.basic_sweeper.BasicSweeper",
        f"{PLUGINS}optuna_sweeper.optuna_sweeper.OptunaSweeper",
        *(
            f"optuna.samplers.{name}Sampler"
            for name in ("TPE", "Random", "Grid", "CmaEs", "NSGAII", "QMC", "BruteForce")
        ),
    ),
}

LOGGING = {"version": 1, "root": None, "disable_existing_loggers": False}
OWN: dict[str, tuple[Any, ...]] = {  # keys that only the user sets, with the values that Hydra gives them
    "counters.ncu": (None,),
    "tracking.uri": (None,),
    "outputs": ("outputs",),
    "hydra.run.dir": (),
    "hydra.sweep.dir": (),
    "hydra.sweep.subdir": (),
    "hydra.output_subdir": (".hydra", None),
    "hydra.searchpath": ([],),
    "hydra.job.env_copy": ([],),  # before env_set, which Hydra fills with the values
    "hydra.job.env_set": ({},),
    "hydra.job_logging": (LOGGING,),
    "hydra.hydra_logging": (LOGGING,),
    "hydra.launcher.python": (None,),
    "hydra.launcher.setup": (None,),
    "hydra.launcher.srun_args": (None,),
    "hydra.launcher.additional_parameters": ({},),
    "hydra.launcher.submitit_folder": ("${hydra.sweep.dir}/.submitit/%j",),
    "hydra.launcher.ray": (),
    "hydra.sweeper.storage": (None,),
}
OWN_FILES = ("config", "tracking/server", "local/default")


class GuardedLoader(ConfigLoaderImpl):
    """Hydra's loader; what it composes is checked before Hydra builds callbacks, launcher or logging of it.
    ``words``: the command line as the user typed it."""

    def __init__(self, config_search_path: Any, words: Sequence[str] = ()) -> None:
        super().__init__(config_search_path)
        self.words = list(words)

    def load_configuration(self, *args: Any, **kwargs: Any) -> DictConfig:
        return self.guarded(super().load_configuration(*args, **kwargs))

    def guarded(self, config: DictConfig) -> DictConfig:
        """``config``, checked, with passwords masked. Raises BadInputError for what is not anybody's to say."""
        check(config, self.words)
        config._set_flag(LIVE, True)
        uri = _raw(config, "tracking.uri")
        if isinstance(uri, str):
            with flag_override(config, ["struct", "readonly"], [False, False]):
                config.tracking.uri = mask_and_remember(uri)
        return config


def install(words: Sequence[str]) -> None:
    """From now on Hydra composes with the guard. ``words``: the command line as the user typed it."""
    import hydra._internal.hydra as machinery

    machinery.ConfigLoaderImpl = lambda config_search_path: GuardedLoader(config_search_path, words)  # type: ignore[attr-defined,assignment]


def check(config: DictConfig, words: Sequence[str]) -> None:
    """Raises BadInputError for what would be built, run, read or written at the wish of anybody's file."""
    hydra = OmegaConf.to_container(config.hydra, resolve=False)
    assert isinstance(hydra, dict)
    _check_built(hydra)
    for group, option in (hydra.get("runtime", {}).get("choices") or {}).items():
        for name in option if isinstance(option, list) else [option]:
            if name is not None and not is_inner(str(name)):
                raise BadInputError(f"{group}={str(name)!r}: leads out of the configuration's folders")
    typed = {word.lstrip("+~").partition("=")[0].partition("@")[0].replace("/", ".") for word in words if "=" in word}
    for key, usual in OWN.items():
        value = _raw(config, key)
        if key == "hydra.job.env_set" and "hydra.job.env_copy" in typed:
            continue
        if value is None or value in usual or any(word == key or word.startswith(f"{key}.") for word in typed):
            continue
        own = own_values(key)
        if value not in own and value not in all_without_secrets(own):
            raise BadInputError(
                f"{key}={without_secrets(str(value))[:99]}: only the command line and conf/local/default.yaml may set "
                f"it, since it says where things lie or what is run; give {key}= yourself if you trust it"
            )
    for name in hydra.get("sweeper", {}).get("params") or {}:
        key = str(name).lstrip("+~").partition("@")[0].replace("/", ".")
        if (key in OWN or key.partition(".")[0] == "hydra") and f"hydra.sweeper.params.{name}" not in typed:
            raise BadInputError(
                f"hydra.sweeper.params: {name}: only the command line may sweep it; give {name}= yourself"
            )
    for key, text in _texts(config, ""):
        if "oc.env" in text and key not in FROM_ENVIRONMENT:
            raise BadInputError(no_environment(key, text))


def _check_built(hydra: dict[Any, Any]) -> None:
    """Hydra imports and calls whatever ``_target_`` names."""
    for name, callback in (hydra.get("callbacks") or {}).items():
        if callback != CALLBACKS.get(name):
            raise BadInputError(f"hydra.callbacks.{name}: {_target(callback)} is not built; only the program's own is")
    for key, target in _targets({key: value for key, value in hydra.items() if key != "callbacks"}, "hydra"):
        allowed = next((names for group, names in BUILT.items() if key.startswith(f"hydra.{group}.")), ())
        if target not in allowed:
            raise BadInputError(
                f"{key}={target}: not built; allowed: the launchers basic, joblib, submitit and ray, and the "
                f"sweepers basic and optuna"
            )


def _target(callback: Any) -> str:
    return str(callback.get("_target_", callback) if isinstance(callback, dict) else callback)[:80]


def _targets(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Keys that end in ``_target_``, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key == "_target_":
            yield f"{path}.{key}", item
        else:
            yield from _targets(item, f"{path}.{key}")


def own_values(key: str) -> list[Any]:
    """What the user's own files say of a key; files that are not there say nothing."""
    values = []
    for name in OWN_FILES:
        file = conf_folder() / f"{name}.yaml"
        group, _, rest = key.partition(".")
        path = [rest] if name.startswith(f"{group}/") else key.split(".")
        value: Any = read_mapping(file) if file.is_file() else None
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        values.append(value)
    return values


def _raw(config: DictConfig, key: str) -> Any:
    """The value as it is written, interpolations and all; None where there is none."""
    node: Any = config
    for part in key.split("."):
        node = node._get_node(part, validate_access=False) if isinstance(node, DictConfig) else None
    if isinstance(node, (DictConfig, ListConfig)) and not node._is_interpolation():
        return OmegaConf.to_container(node, resolve=False)
    return node._value() if node is not None and not node._is_missing() else None


def _texts(node: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text of a configuration with its key; Hydra's own templates and notes of the command line left out."""
    if isinstance(node, (DictConfig, ListConfig)) and not node._is_interpolation():
        if node._is_none() or node._is_missing():
            return
        for key in list(node) if isinstance(node, DictConfig) else range(len(node)):
            where = f"{path}.{key}" if path else str(key)
            if not where.startswith(("hydra.help", "hydra.hydra_help", "hydra.overrides", "hydra.runtime")):
                yield from _texts(node._get_node(key), where)
    elif node is not None and isinstance(node._value(), str):
        yield path, node._value()
