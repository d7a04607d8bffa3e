"""A kernel at one size and precision: its shapes, useful work, operands and arguments, worked out from its YAML.

The object is plain data, so that it can be sent to the worker process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from roofexp.config.numbers import LARGEST
from roofexp.errors import BadInputError, SkippedError
from roofexp.kernel.formula import evaluate, evaluate_count
from roofexp.kernel.precision import STORAGE
from roofexp.records.point import Work
from roofexp.text.console import one_line

RoleName = Literal["in", "out", "inout"]
ROLES = get_args(RoleName)
IMPLEMENTATIONS = ("cpu", "numpy", "cuda", "cupy", "torch")


class Operand(msgspec.Struct, frozen=True, kw_only=True):
    """An array: shape in elements, what the kernel does to it, how it is stored and filled."""

    name: str
    shape: tuple[int, ...]
    role: RoleName
    storage: str  # NumPy's name of the stored type, or bfloat16, float8_e4m3
    itemsize: int
    fill: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.itemsize


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """``implementations`` holds the YAML of each device's code under cpu, numpy, cuda, cupy, torch."""

    name: str
    size: int
    precision: str
    itemsize: int
    storage: str
    shape: dict[str, int]
    params: dict[str, Any]
    scalars: dict[str, float]
    operands: list[Operand]
    work: Work
    references: dict[str, str]  # output operand to NumPy formula
    error_scale: str | None
    tolerance: float
    implementations: dict[str, dict[str, Any]]
    where: str  # names the YAML in error lines

    @property
    def names(self) -> dict[str, Any]:
        """What formulas of this kernel may use."""
        return {**self.shape, **self.scalars, **self.params, "size": self.size, "itemsize": self.itemsize}

    @property
    def outputs(self) -> list[Operand]:
        return [operand for operand in self.operands if operand.role != "in"]

    def operand(self, name: str) -> Operand | None:
        return next((operand for operand in self.operands if operand.name == name), None)

    def argument_names(self, implementation: str) -> list[str]:
        """The order in which the code takes its arguments: as the YAML says, else operands, scalars (and on CUDA
        the dimensions)."""
        code = self.implementations[implementation]
        if code.get("args") is not None:
            allowed = [operand.name for operand in self.operands] + list(self.names)
            for name in code["args"]:
                if name not in allowed:
                    where = f"{self.where}: {implementation}.args"
                    raise BadInputError(f"{where}: unknown name {name!r}; known: {', '.join(allowed)}")
            return list(code["args"])
        names = [operand.name for operand in self.operands] + list(self.scalars)
        return names + list(self.shape) if implementation == "cuda" else names

    def supports(self, implementation: str) -> str | None:
        """Why ``implementation`` does not do this precision; None when it does."""
        only = self.implementations[implementation].get("precisions")
        if only is not None and self.precision not in only:
            return f"{self.name} on {implementation} does {', '.join(only)}, not {self.precision}"
        return None


def build_kernel(config: Mapping[str, Any], precision: Mapping[str, Any], size: int, fill: str) -> Kernel:
    """Works out a kernel from its resolved configuration (plain dicts, enum values as strings).

    Raises SkippedError for a precision that the kernel is not written for, and BadInputError naming file, key, value
    and what is allowed.
    """
    try:
        return _built(config, precision, size, fill)
    except BadInputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:  # a stranger's configuration
        where = f"kernel {config.get('name')!r}"
        raise BadInputError(f"{where}: a key is missing, or holds another type of value ({one_line(error)})") from error


def _built(config: Mapping[str, Any], precision: Mapping[str, Any], size: int, fill: str) -> Kernel:
    name = config["name"]
    where = f"kernel {name!r}"
    if size < 1:
        raise BadInputError(f"size={size}: {where} needs a size of at least 1")
    allowed = list(config["precisions"])
    if precision["name"] not in allowed:
        raise SkippedError(f"precision={precision['name']}: {where} is written for {', '.join(allowed)}")
    scalars = {key: float(value) for key, value in config["scalars"].items()}
    names: dict[str, Any] = {"size": size, "itemsize": precision["itemsize"], **scalars, **config["params"]}
    shape: dict[str, int] = {}
    for key, formula in config["shape"].items():
        shape[key] = evaluate_count(formula, {**names, **shape}, f"{where}: shape.{key}")
        if shape[key] < 1:
            raise BadInputError(f"shape.{key}={shape[key]}: {where} needs every dimension to be at least 1")
    names |= shape
    operands = [_build_operand(key, value, names, precision, fill, where) for key, value in config["operands"].items()]
    if sum(operand.bytes for operand in operands) > LARGEST:
        raise BadInputError(f"size={size}: the operands of {where} take more than 2^63 bytes; choose a smaller one")
    work = Work(
        flops=evaluate_count(config["work"]["flops"], names, f"{where}: work.flops"),
        dram_bytes=evaluate_count(config["work"]["bytes"], names, f"{where}: work.bytes"),
        working_set_bytes=sum(operand.bytes for operand in operands),
        written_bytes=sum(operand.bytes for operand in operands if operand.role != "in"),
    )
    implementations = {key: dict(config[key]) for key in IMPLEMENTATIONS if config.get(key) is not None}
    return Kernel(
        name=name,
        size=size,
        precision=precision["name"],
        itemsize=precision["itemsize"],
        storage=precision["storage"],
        shape=shape,
        params=dict(config["params"]),
        scalars=scalars,
        operands=operands,
        work=work,
        references=_references(config["reference"], operands, where),
        error_scale=config.get("error_scale"),
        tolerance=float(config["tolerance"].get(precision["name"], precision["tolerance"])),
        implementations=implementations,
        where=where,
    )


def _build_operand(
    name: str,
    config: Mapping[str, Any],
    names: Mapping[str, Any],
    precision: Mapping[str, Any],
    fill: str,
    where: str,
) -> Operand:
    key = f"{where}: operands.{name}"
    role = config["role"]
    if role not in ROLES:
        raise BadInputError(f"{key}.role={role!r}; allowed: {', '.join(ROLES)}")
    shape = tuple(evaluate_count(dimension, names, f"{key}.shape") for dimension in config["shape"])
    own = config.get("precision")
    storage, itemsize = STORAGE[own] if own else (precision["storage"], precision["itemsize"])
    return Operand(
        name=name, shape=shape, role=role, storage=storage, itemsize=itemsize, fill=config.get("fill") or fill
    )


def _references(reference: Any, operands: list[Operand], where: str) -> dict[str, str]:
    """One formula per output operand; a single formula stands for a single output."""
    outputs = [operand.name for operand in operands if operand.role != "in"]
    listed = ", ".join(outputs) or "none"
    if isinstance(reference, str):
        if len(outputs) != 1:
            raise BadInputError(f"{where}: reference: one formula, but outputs are {listed}")
        return {outputs[0]: reference}
    for name in reference or ():
        if name not in outputs:
            raise BadInputError(f"{where}: reference.{name}: not an output; outputs: {listed}")
    return dict(reference or {})


def reference_values(kernel: Kernel, arrays: Mapping[str, Any], numeric: Any) -> dict[str, Any]:
    """The float64 result of each output. ``arrays`` are the operands before the launch, as float64;
    ``numeric`` is the array module (numpy or cupy)."""
    names = {**kernel.names, **arrays}
    functions = reference_functions(numeric)
    return {
        output: evaluate(formula, names, f"{kernel.where}: reference", functions)
        for output, formula in kernel.references.items()
    }


def error_scales(
    kernel: Kernel, arrays: Mapping[str, Any], expected: Mapping[str, Any], numeric: Any
) -> dict[str, float]:
    """What each output's deviation is measured against: the YAML's ``error_scale``, else the largest expected value."""
    if kernel.error_scale is None:
        return {name: _largest(value, numeric) for name, value in expected.items()}
    names = {**kernel.names, **arrays}
    where = f"{kernel.where}: error_scale"
    scale = evaluate(kernel.error_scale, names, where, reference_functions(numeric))
    if getattr(scale, "ndim", 0):  # CuPy would compile for seconds to find the largest of a single number
        scale = numeric.max(scale)
    return dict.fromkeys(expected, float(scale))


def _largest(value: Any, numeric: Any) -> float:
    """The largest absolute value. NumPy needs no copy for it; CuPy would compile two kernels instead of one."""
    if numeric.__name__ == "numpy":
        return float(numeric.maximum(numeric.max(value), -numeric.min(value)))
    return float(numeric.max(numeric.abs(value)))


def reference_functions(numeric: Any) -> dict[str, Any]:
    """Functions that a reference formula may call."""
    names = (
        "abs exp log sqrt tanh maximum minimum where sum max min mean var matmul dot transpose roll pad reshape "
        "zeros_like ones_like arange cumsum sin cos concatenate full eye triu tril outer einsum"
    )
    return {name: getattr(numeric, name) for name in names.split() if hasattr(numeric, name)} | {"range": range}
