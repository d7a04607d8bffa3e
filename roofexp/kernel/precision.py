"""How a number of each precision is stored: NumPy's name of the type (or bfloat16, float8_e4m3), and its bytes.

A point's own precision comes from conf/precision, where users may describe another; this is for operands and formulas
that name one of the program's.
"""

STORAGE = {
    "fp64": ("float64", 8),
    "fp32": ("float32", 4),
    "tf32": ("float32", 4),
    "fp16": ("float16", 2),
    "bf16": ("bfloat16", 2),
    "fp8": ("float8_e4m3", 1),
    "int8": ("int8", 1),
    "int32": ("int32", 4),
}
