"""Variables of the environment in configurations: ``${oc.env:NAME}`` gives something to the user's own configuration,
at keys that are never kept with results, and nothing to one that was stored, which another may have written."""

from __future__ import annotations

import os
from typing import Any

from omegaconf import OmegaConf

from roofexp.errors import BadInputError

FROM_ENVIRONMENT = ("tracking.uri", "outputs", "counters.ncu")  # kept as they are written, never as what they give
LIVE = "roofexp_of_the_user"  # a flag of configurations that were composed and checked in this program


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
