"""The YAML files that lie beside this code."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read_yaml(name: str) -> dict[str, Any]:
    """A data file of this package, as plain dicts and lists."""
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(OmegaConf.load(Path(__file__).with_name(name)))
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}
