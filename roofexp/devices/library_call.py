"""Library calls written in YAML: one nested call expression, turned into a function without ``eval``.

``matmul(a, b, out=c)`` on NumPy is looked up once; launching it costs what the library's call costs. Only functions
that compute are allowed, by their whole names: a YAML file of somebody else can reach no file and no program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from roofexp.errors import BadInputError

# Array functions with one name in NumPy and PyTorch. None takes a path, a function, or the text of a program.
_SHARED = """
abs add all amax amin any arange arctan arctan2 argmax argmin argsort bincount broadcast_to ceil clip concatenate cos
cosh cumprod cumsum diag diagonal diff divide dot einsum empty_like equal exp exp2 expm1 eye flip floor floor_divide
fmod full full_like gcd greater greater_equal hypot isfinite isinf isnan isclose kron less less_equal linspace log log10
log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul max maximum mean min minimum moveaxis
multiply nanmean nansum negative not_equal ones ones_like outer positive prod ravel reciprocal remainder reshape roll
round searchsorted sign signbit sin sinh sort sqrt square squeeze std subtract sum swapaxes take tan tanh tensordot
tile trace transpose tril triu true_divide trunc unique vdot var where zeros zeros_like empty
bool float16 float32 float64 int8 int16 int32 int64 uint8 complex64 complex128 pi inf nan
linalg.cholesky linalg.det linalg.eigh linalg.eigvalsh linalg.inv linalg.lstsq linalg.matrix_power linalg.norm
linalg.pinv linalg.qr linalg.solve linalg.svd fft.fft fft.fft2 fft.fftn fft.ifft fft.ifft2 fft.ifftn fft.irfft
fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
"""

NUMPY = frozenset(
    f"""
{_SHARED} absolute bitwise_and bitwise_or bitwise_xor cbrt compress convolve copyto correlate cross cumulative_sum
expand_dims float_power fmax fmin histogram hstack inner interp invert left_shift matvec median nancumsum nanmax nanmin
nanstd nanvar partition percentile power ptp putmask quantile repeat right_shift rint rot90 split stack take_along_axis
vecdot vecmat vstack uint16 uint32 uint64
""".split()
)

TORCH = frozenset(
    f"""
{_SHARED} _int_mm _scaled_mm addbmm addcdiv addcmul addmm addmv baddbmm bmm cat cdist chain_matmul clamp clone
conv1d conv2d conv3d cummax cummin div erf erfc flatten gather ger index_select inner lerp logsumexp masked_fill mm mul
mv neg norm permute pow relu rsqrt scatter scatter_add select sigmoid slice_scatter softmax log_softmax stack sub
sum_to_size t topk unsqueeze view_as_complex view_as_real bfloat16 float8_e4m3fn float8_e5m2
nn.functional.avg_pool2d nn.functional.batch_norm nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
nn.functional.cross_entropy nn.functional.dropout nn.functional.elu nn.functional.embedding nn.functional.gelu
nn.functional.glu nn.functional.group_norm nn.functional.hardswish nn.functional.instance_norm nn.functional.layer_norm
nn.functional.leaky_relu nn.functional.linear nn.functional.log_softmax nn.functional.max_pool2d nn.functional.mish
nn.functional.mse_loss nn.functional.normalize nn.functional.pad nn.functional.relu nn.functional.relu6
nn.functional.rms_norm nn.functional.scaled_dot_product_attention nn.functional.scaled_mm nn.functional.sigmoid
nn.functional.silu nn.functional.softmax nn.functional.softplus nn.functional.tanh
""".split()
)

CUBLAS = frozenset({"matmul"})
LIBRARIES = {"numpy": NUMPY, "torch": TORCH, "cuBLAS": CUBLAS}  # by the name that a library's module has


def compile_call(call: str, library: Any, names: Mapping[str, Any], where: str) -> Callable[[], Any]:
    """A function of no arguments. Functions are those that LIBRARIES names of ``library``; arguments are names
    (operands, scalars, dimensions), literals, arithmetic signs, or further calls.

    Raises BadInputError for anything else, naming what is unknown.
    """
    try:
        tree = ast.parse(call, mode="eval").body
    except SyntaxError as error:
        raise BadInputError(f"{where}: {call!r} is not a call ({error.msg})") from error
    if not isinstance(tree, ast.Call):
        raise BadInputError(f"{where}: {call!r} is not a call; write it like matmul(a, b, out=c)")
    return _call(tree, library, names, where)


def _call(node: ast.Call, library: Any, names: Mapping[str, Any], where: str) -> Callable[[], Any]:
    function = _function(node.func, library, where)
    positional = [_value(argument, library, names, where) for argument in node.args]
    keyword: dict[str, Any] = {}
    for entry in node.keywords:
        if entry.arg is None:
            raise BadInputError(f"{where}: ** is not allowed in a call")
        keyword[entry.arg] = _value(entry.value, library, names, where)
    if not any(isinstance(value, _Deferred) for value in [*positional, *keyword.values()]):
        return lambda: function(*positional, **keyword)
    return lambda: function(*[_now(v) for v in positional], **{key: _now(v) for key, v in keyword.items()})


class _Deferred:
    """An argument that is itself a call: made at every launch."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function


def _now(value: Any) -> Any:
    return value.function() if isinstance(value, _Deferred) else value


def _value(node: ast.expr, library: Any, names: Mapping[str, Any], where: str) -> Any:
    if isinstance(node, ast.Call):
        return _Deferred(_call(node, library, names, where))
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise BadInputError(f"{where}: unknown name {node.id!r}; known: {', '.join(sorted(names))}")
        return names[node.id]
    if isinstance(node, ast.Attribute):  # a constant of the library, such as float32
        return _function(node, library, where)
    if isinstance(node, (ast.Tuple, ast.List)):
        items = [_value(item, library, names, where) for item in node.elts]
        if any(isinstance(item, _Deferred) for item in items):
            raise BadInputError(f"{where}: a call inside a list is not allowed")
        return items if isinstance(node, ast.List) else tuple(items)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise BadInputError(f"{where}: {ast.unparse(node)!r} is neither a name, a literal nor a call") from error


def _function(node: ast.expr, library: Any, where: str) -> Any:
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise BadInputError(f"{where}: {ast.unparse(node)!r} is not a function's name")
    name = ".".join([node.id, *path])
    allowed = LIBRARIES[library.__name__]
    found = library if name in allowed else None
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        from roofexp.config.explain import nearest  # here: a worker starts without it

        near = nearest(name, sorted(allowed))
        hint = f" (did you mean {near}?)" if near else ""
        raise BadInputError(
            f"{where}: {library.__name__} has no function {name!r} that a kernel may call{hint}; allowed: functions "
            f"that compute on arrays, as roofexp/devices/library_call.py lists them"
        )
    return found
