"""From Hydra's composed configuration to plain data, and kernels in YAML that Hydra did not compose."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from roofexp.config import environment as environment  # what ${oc.env:...} gives, before anything is resolved
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
