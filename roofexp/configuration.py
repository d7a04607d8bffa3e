"""From Hydra's composed configuration to plain data, and kernels in YAML that Hydra did not compose."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from roofexp.errors import BadInputError
from roofexp.kernel import Kernel, build_kernel
from roofexp.schema import KernelConfig, PrecisionConfig

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


def kernel_of(config: dict[str, Any]) -> Kernel:
    """The kernel of a point's plain configuration."""
    return build_kernel(config["kernel"], config["precision"], config["size"], config["fill"])


def load_kernel(
    name: str, folders: list[Path], precision: str, size: int | None, params: dict[str, Any], fill: str
) -> Kernel:
    """A kernel by its YAML's name, outside a sweep (roofs are measured so). The first folder that has it wins.

    Checked against the same types as a composed configuration; raises BadInputError.
    """
    root = OmegaConf.structured(_KernelAlone)
    root.kernel = OmegaConf.merge(root.kernel, _load(f"kernel/{name}", folders))
    root.precision = OmegaConf.merge(root.precision, _load(f"precision/{precision}", folders))
    root.size = root.kernel.size if size is None else size
    for key, value in params.items():
        root.kernel.params[key] = value
    try:
        kernel = OmegaConf.to_container(root.kernel, resolve=True, enum_to_str=True)
        described = OmegaConf.to_container(root.precision, resolve=True, enum_to_str=True)
    except OmegaConfBaseException as error:
        raise BadInputError(f"conf/kernel/{name}.yaml: {explain(error)}") from error
    assert isinstance(kernel, dict)
    assert isinstance(described, dict)
    return build_kernel(
        {str(k): v for k, v in kernel.items()}, {str(k): v for k, v in described.items()}, root.size, fill
    )


@dataclass
class _KernelAlone:
    """What a kernel's YAML may refer to; the whole configuration takes three times as long to build."""

    kernel: KernelConfig = field(default_factory=KernelConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    size: int = MISSING


def explain(error: BaseException) -> str:
    """OmegaConf's error as one line: what, where, and what is allowed."""
    message = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    key = getattr(error, "full_key", None)
    return f"{key}: {message}" if key and key not in message else message


def _load(name: str, folders: list[Path]) -> Any:
    for folder in folders:
        file = folder / f"{name}.yaml"
        if file.is_file():
            try:
                return OmegaConf.load(file)
            except Exception as error:  # PyYAML's and OmegaConf's own kinds
                raise BadInputError(f"{file}: {yaml_reason(error)}") from error
    raise BadInputError(f"no {name}.yaml in: {', '.join(str(folder) for folder in folders)}")


def yaml_reason(error: BaseException) -> str:
    """What is wrong with a YAML file, and on which line."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if problem and mark:
        return f"line {mark.line + 1}: {problem}"
    return explain(error)
