"""Kernels from YAML: one that a configuration composed, and one by its name alone, as roofs are measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from roofexp.config.paths import is_inner
from roofexp.config.plain import explain
from roofexp.config.schema import KernelConfig, PrecisionConfig
from roofexp.config.yaml_file import read_mapping
from roofexp.errors import BadInputError, SkippedError
from roofexp.kernel import Kernel, build_kernel


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
    try:
        root.kernel = OmegaConf.merge(root.kernel, _load(f"kernel/{name}", folders))
        root.precision = OmegaConf.merge(root.precision, _load(f"precision/{precision}", folders))
        root.size = root.kernel.size if size is None else size
        for key, value in params.items():
            root.kernel.params[key] = value
        kernel = OmegaConf.to_container(root.kernel, resolve=True, enum_to_str=True)
        described = OmegaConf.to_container(root.precision, resolve=True, enum_to_str=True)
    except OmegaConfBaseException as error:
        raise BadInputError(f"conf/kernel/{name}.yaml: {explain(error)}") from error
    assert isinstance(kernel, dict)
    assert isinstance(described, dict)
    try:
        return build_kernel(
            {str(k): v for k, v in kernel.items()}, {str(k): v for k, v in described.items()}, root.size, fill
        )
    except SkippedError as error:  # a roof that names a precision which its kernel lacks is a mistake in its YAML
        raise BadInputError(str(error)) from error


@dataclass
class _KernelAlone:
    """What a kernel's YAML may refer to; the whole configuration takes three times as long to build."""

    kernel: KernelConfig = field(default_factory=KernelConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    size: int = MISSING


def _load(name: str, folders: list[Path]) -> Any:
    for folder in folders if is_inner(name) else ():
        file = folder / f"{name}.yaml"
        if file.is_file():
            return OmegaConf.create(read_mapping(file))
    raise BadInputError(f"no {name}.yaml in: {', '.join(str(folder) for folder in folders)}")
