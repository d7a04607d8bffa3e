"""Matrix products through cuBLAS by their raw interface, so that every precision is the same call with another type.

All arrays are row-major and cuBLAS is column-major: C = A B is computed as C' = B' A'.
"""

from __future__ import annotations

from typing import Any

# cudaDataType_t and cublasComputeType_t, from library_types.h and cublas_api.h
DATA_TYPES = {"fp64": 1, "fp32": 0, "tf32": 0, "fp16": 2, "bf16": 14}
COMPUTE_TYPES = {"fp64": 70, "fp32": 68, "tf32": 77, "fp16": 68, "bf16": 68}
NO_TRANSPOSE, DEFAULT_ALGORITHM = 0, -1


class Cublas:
    """``precision`` fixes types; fp32 stays on the CUDA cores, tf32 and narrower go to the tensor cores."""

    __name__ = "cuBLAS"

    def __init__(self, precision: str) -> None:
        import cupy
        import numpy

        self._blas = cupy.cuda.cublas
        self._handle = cupy.cuda.device.get_cublas_handle()
        self._data = DATA_TYPES[precision]
        self._compute = COMPUTE_TYPES[precision]
        kind = numpy.float64 if precision == "fp64" else numpy.float32
        self._one, self._zero = numpy.ones(1, kind), numpy.zeros(1, kind)

    def matmul(self, a: Any, b: Any, out: Any) -> None:
        """out[m, n] = a[m, k] b[k, n]; a vector ``b`` is a matrix of one column."""
        (m, k), n = a.shape, b.shape[1] if b.ndim == 2 else 1
        data = self._data
        self._blas.gemmEx(
            self._handle, NO_TRANSPOSE, NO_TRANSPOSE, n, m, k, self._one.ctypes.data,
            b.data.ptr, data, n, a.data.ptr, data, k, self._zero.ctypes.data, out.data.ptr, data, n,
            self._compute, DEFAULT_ALGORITHM,
        )  # fmt: skip
