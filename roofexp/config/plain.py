"""From Hydra's composed configuration to plain data, and what identifies a measurement.

``${oc.env:NAME}`` gives something to the user's own configuration, at keys that are never kept with results. It gives
nothing to a stored one, which another may have written.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from roofexp.errors import BadInputError
from roofexp.text.console import first_line

# What may change without the measurement being another one.
NOT_MEASURED = (
    "name",
    "placing",
    "tracking",
    "figures",
    "outputs",
    "fail_fast",
    "roofs",
    "counters",
    "machine",
    "gate",
)

FROM_ENVIRONMENT = ("tracking.uri", "outputs", "counters.ncu")  # kept as they are written, never as what they give
LIVE = "roofexp_of_the_user"  # a flag of configurations that were composed and checked in this program
OURS = f"{BadInputError.__name__} raised while resolving interpolation: "


def plain(config: DictConfig) -> dict[str, Any]:
    """All interpolations resolved, enums as their names. Raises BadInputError naming the key."""
    try:
        container = OmegaConf.to_container(config, resolve=True, throw_on_missing=True, enum_to_str=True)
    except OmegaConfBaseException as error:
        raise BadInputError(explain(error)) from error
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def config_hash(config: dict[str, Any]) -> str:
    """Identifies what was measured and how: equal for two points that may stand for one another."""
    measured = {key: value for key, value in config.items() if key not in NOT_MEASURED}
    return hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()[:16]


def explain(error: BaseException) -> str:
    """OmegaConf's error as one line: what, where, and what is allowed."""
    message = first_line(error)
    if message.startswith(OURS):  # OmegaConf forgets the cause
        return message.removeprefix(OURS)
    key = getattr(error, "full_key", None)
    return f"{key}: {message}" if key and key not in message else message


def no_environment(key: str, text: str) -> str:
    """The refusal of a variable at a key that is kept."""
    return (
        f"{key}: {text} would be kept with the results, so no variable of the environment is taken for it; let the "
        f"shell fill it in, or use oc.env for {', '.join(FROM_ENVIRONMENT)} in files of your own"
    )


def _environment(name: str, *default: Any, _node_: Any, _parent_: Any) -> Any:
    key = str(_node_._get_full_key(None)) if _node_ is not None else ""
    if key not in FROM_ENVIRONMENT:
        raise BadInputError(no_environment(key or "a text", "${oc.env:" + name + "}"))
    if not _parent_._get_flag(LIVE):
        return None
    if name not in os.environ and not default:
        raise BadInputError(f"{key}: the variable {name} of the environment is not set")
    return os.environ.get(name, default[0] if default else None)


OmegaConf.register_new_resolver("oc.env", _environment, replace=True)
