"""Every kernel that has CUDA code, at sizes that are awkward: what the tests with and without a GPU share."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from roofexp.config.schema import Config
from roofexp.kernel import Kernel, build_kernel

ROOT = Path(__file__).parent.parent
CONF, KERNELS = ROOT / "conf", ROOT / "kernels"

VECTOR_SIZES = [1, 31, 33, 1000, 4097]
MATRIX_SIZES = [1, 31, 33, 1000]
ROWS, COLUMNS = [1, 33], [1, 31, 33, 1000, 4097, 40_000]  # the last does not fit in the registers of a block


@functools.cache
def kernel_yaml(name: str) -> DictConfig:
    """A kernel's YAML on top of the one that it inherits, as Hydra composes them (which takes a second for three)."""
    own = OmegaConf.load(CONF / "kernel" / f"{name}.yaml")
    assert isinstance(own, DictConfig)
    bases = [base for base in own.pop("defaults", []) if base != "_self_"]
    return OmegaConf.unsafe_merge(*[kernel_yaml(base).copy() for base in bases], own)  # type: ignore[return-value]


@functools.cache
def precision_config(name: str) -> dict[str, Any]:
    config = OmegaConf.to_container(OmegaConf.load(CONF / "precision" / f"{name}.yaml"))
    assert isinstance(config, dict)
    return {str(key): value for key, value in config.items()}


@functools.cache
def kernel_config(name: str, size: int | None = None, **shape: int) -> tuple[dict[str, Any], int]:
    """The kernel's plain configuration at a size, with some dimensions changed."""
    root = OmegaConf.structured(Config)
    root.kernel = OmegaConf.merge(root.kernel, kernel_yaml(name), {"shape": shape})
    root.size = size or root.kernel.size
    kernel = OmegaConf.to_container(root.kernel, resolve=True, enum_to_str=True)
    assert isinstance(kernel, dict)
    return {str(key): value for key, value in kernel.items()}, int(root.size)


def build(name: str, precision: str, size: int | None = None, **shape: int) -> Kernel:
    config, size = kernel_config(name, size, **shape)
    return build_kernel(config, precision_config(precision), size, "normal")


@functools.cache
def cuda_names() -> tuple[str, ...]:
    """The names under conf/kernel of all kernels with CUDA code of their own."""
    files = sorted(CONF.glob("kernel/**/*.yaml"))
    names = [file.relative_to(CONF / "kernel").with_suffix("").as_posix() for file in files]
    return tuple(name for name in names if not name.startswith("faults/") and kernel_config(name)[0].get("cuda"))


def cuda_precisions(name: str) -> list[str]:
    config, _ = kernel_config(name)
    own = config["cuda"].get("precisions")
    return [precision for precision in config["precisions"] if own is None or precision in own]


def numeric_cases(name: str, precision: str) -> Iterator[Kernel]:
    """The kernel at the sizes where mistakes show: one element, around a warp, ragged, past a power of two."""
    config, _ = kernel_config(name)
    dimensions = set(config["shape"])
    if "passes" in dimensions:  # roofs of the arithmetic and of what is on the chip
        size = {"blocks": 3}.get(next(iter(dimensions & {"blocks"}), ""), 1000)
        yield build(name, precision, size, passes=3 if name.endswith("dmma") else 16)
    elif "columns" in dimensions and not name.endswith("stencil"):
        for rows in ROWS:
            for columns in COLUMNS:
                yield build(name, precision, rows, columns=columns)
    elif "rows" in dimensions or {"m", "n"} <= dimensions:
        for size in MATRIX_SIZES:
            yield build(name, precision, size)
        yield build(name, precision, 64, **({"rows": 37} if "rows" in dimensions else {"n": 129}))
    else:
        for size in VECTOR_SIZES:
            yield build(name, precision, size)
