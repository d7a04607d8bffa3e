"""z = x + y"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from roofexp.kernel.llvm.builder import Values, Vector
from roofexp.kernel.llvm.streams import Stream


def build(dtype: np.dtype[Any], params: dict[str, Any], threads: int) -> Callable[..., None]:
    stream = Stream(dtype, threads, 2, 0, formula, **params)
    return lambda x, y, z: stream.run(z, x, y)


def formula(builder: ir.IRBuilder, vector: Vector, loaded: list[Values], scalars: Values) -> Values:
    return [builder.fadd(x, y) for x, y in zip(*loaded, strict=True)]
