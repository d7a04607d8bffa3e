"""CUDA C++ to machine code through NVRTC, without a toolkit and without a driver.

NVRTC and the headers come from NVIDIA's wheels (the extras ``cuda12`` and ``cuda13``). What was compiled once is kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import site
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.paths import find_kernel_file
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel
from roofexp.kernel.formula import evaluate, evaluate_count
from roofexp.records.files import write_atomically
from roofexp.text.console import first_line

OPTIONS = ("--std=c++17", "--generate-line-info", "--device-as-default-execution-space")
HEADERS_MISSING = "CUDA's headers (cuda_fp16.h) were not found; install nvidia-cuda-runtime or set CUDA_HOME"
CURE = "install roofexp[cuda13] or roofexp[cuda12]"
CUBIN_START = b"\x7fELF"
FRONT_END_ERROR = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<what>.*)$")
MISSING_HEADER = re.compile(r"(?:cannot|could not) open source file")
ASSEMBLER_ERROR = re.compile(r"^ptxas .*?(?:error|fatal)\s*: (?P<what>.*)$")
COMMENT_OR_TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL)
DIRECTIVE = re.compile(r"^[^\S\n]*(?:#|%:)[^\S\n]*(?:include\w*|import|embed)\b[^\S\n]*([^\n]*)", re.MULTILINE)
NAMED = re.compile(r'<(?P<system>[^>]+)>|"(?P<quoted>[^"]+)"')


class CompileError(BadInputError):
    """Code that does not compile: the first error in one line; ``log`` holds the include paths and all that the
    compiler said."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


class Nvrtc(msgspec.Struct, frozen=True, kw_only=True):
    """The compiler as it was found. ``reason`` says why it cannot be used; None when it can, if only for kernels
    without CUDA's headers (``header_folder`` is None)."""

    version: str | None = None  # "13.0"
    architectures: list[int] = []  # 75, 80, ...
    header_folder: Path | None = None
    reason: str | None = None


def find_nvrtc() -> Nvrtc:
    """Looks for the compiler and the CUDA headers. Never raises: what is missing, and the cure, is in ``reason``."""
    try:
        from cuda.bindings import nvrtc

        major, minor = _checked(nvrtc, nvrtc.nvrtcVersion())
        (architectures,) = _checked(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    except ImportError as error:
        return Nvrtc(reason=f"NVRTC's Python bindings are missing ({error}); {CURE}")
    except Exception as error:  # the bindings raise their own kinds when the shared library is missing
        return Nvrtc(reason=f"NVRTC could not be loaded ({first_line(error)}); {CURE}")
    version = f"{major}.{minor}"
    return Nvrtc(version=version, architectures=list(architectures), header_folder=find_header_folder(int(major)))


def find_header_folder(major: int) -> Path | None:
    """The folder with cuda_fp16.h: NVIDIA's wheels, then CUDA_HOME, CUDA_PATH and /usr/local/cuda."""
    candidates: list[Path] = []
    try:
        from cuda.pathfinder import find_nvidia_header_directory

        found = find_nvidia_header_directory("cudart")
        candidates += [Path(found)] if found else []
    except Exception:  # older releases have no such function; it also raises for an installation it does not know
        pass
    for packages in [*site.getsitepackages(), *sys.path]:
        nvidia = Path(packages) / "nvidia"
        candidates += [nvidia / f"cu{major}" / "include", nvidia / "cuda_runtime" / "include"]
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        candidates += [Path(root) / "include"] if root else []
    return next((folder for folder in candidates if (folder / "cuda_fp16.h").is_file()), None)


def compile_source(
    file: Path,
    arch: str,
    defines: Mapping[str, str | int],
    include_folders: Sequence[Path],
    cache: Path | None,
) -> bytes:
    """The machine code (cubin) of ``file`` for ``arch``, e.g. sm_90 or sm_90a.

    ``defines`` are the macros; ``include_folders`` are searched for headers, the file's own folder first; ``cache`` is
    a folder that keeps results, None keeps nothing. Raises CompileError with the first error, and BadInputError when
    NVRTC is missing or does not know the architecture.
    """
    compiler = find_nvrtc()
    if compiler.reason:
        raise BadInputError(f"{file.name} cannot be compiled: {compiler.reason}")
    _check_architecture(arch, compiler)
    folders = [file.parent, *include_folders]
    options = [
        f"--gpu-architecture={arch}",
        *OPTIONS,
        *(f"-D{name}={value}" for name, value in defines.items()),
        *(f"-I{folder}" for folder in [*folders, compiler.header_folder] if folder),
    ]
    source = _read(file)
    key = _cache_key(file, folders, options, compiler)
    kept = cache / f"{key}.cubin" if cache else None
    if kept and kept.is_file():
        cubin = kept.read_bytes()
        if cubin.startswith(CUBIN_START):
            return cubin
    cubin = _compile(source, _shown_name(file, include_folders), options, folders)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, cubin)
    return cubin


def _check_architecture(arch: str, compiler: Nvrtc) -> None:
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match and int(match[1]) in compiler.architectures:
        return
    known = ", ".join(f"sm_{number}" for number in compiler.architectures)
    raise BadInputError(f"architecture {arch} is not known to NVRTC {compiler.version}; it compiles for {known}")


def _compile(source: str, name: str, options: Sequence[str], folders: Sequence[Path]) -> bytes:
    from cuda.bindings import nvrtc

    (program,) = _checked(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []))
    try:
        result = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])[0]
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            (size,) = _checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
            log = bytearray(size)
            _checked(nvrtc, nvrtc.nvrtcGetProgramLog(program, log))
            text = log.decode(errors="replace").strip("\0")
            raise CompileError(_explained(first_error(text, name, folders), options), _whole_log(text, name, options))
        (size,) = _checked(nvrtc, nvrtc.nvrtcGetCUBINSize(program))
        cubin = bytearray(size)
        _checked(nvrtc, nvrtc.nvrtcGetCUBIN(program, cubin))
        return bytes(cubin)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _explained(error: str, options: Sequence[str]) -> str:
    """A header that was not found with where it was looked for, by the ends of the folders' paths."""
    if not MISSING_HEADER.search(error):
        return error
    folders = [Path(option.removeprefix("-I")) for option in options if option.startswith("-I")]
    searched = ", ".join(dict.fromkeys("/".join(folder.parts[-2:]) for folder in folders))
    has_headers = any((folder / "cuda_fp16.h").is_file() for folder in folders)
    return f"{error}; looked for in {searched}" + ("" if has_headers else f"; {HEADERS_MISSING}")


def _whole_log(log: str, name: str, options: Sequence[str]) -> str:
    return "\n".join([f"NVRTC on {name} with", *(f"  {option}" for option in options), "", log.strip(), ""])


def first_error(log: str, name: str, folders: Sequence[Path] = ()) -> str:
    """The first error of a compiler's log as one line, ``stream/saxpy.cu(12): identifier "foo" is undefined``.

    ``folders`` are cut from the paths of headers. An error of the assembler has no line of the source.
    """
    lines = [line.rstrip() for line in log.splitlines()]
    for line in lines:
        if match := FRONT_END_ERROR.match(line):
            shown = match["file"]
            for folder in sorted(folders, key=lambda path: len(str(path))):
                shown = shown.removeprefix(f"{folder}/")
            return f"{shown}({match['line']}): {match['what'].strip()}"
    for line in lines:
        if match := ASSEMBLER_ERROR.match(line):
            return f"{name}: assembler: {match['what'].strip()}"
    first = next((line for line in lines if line.strip()), "the compiler gave no reason")
    return f"{name}: {first.strip()}"


def _cache_key(file: Path, folders: Sequence[Path], options: Sequence[str], compiler: Nvrtc) -> str:
    digest = hashlib.sha256(f"NVRTC {compiler.version}".encode())
    for part in [*options, *(_read(path) for path in included_files(file, folders))]:
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()


def included_files(file: Path, folders: Sequence[Path]) -> list[Path]:
    """``file`` and every header that it includes from ``folders`` or its own, in the order they are met; CUDA's own
    headers left out.

    Raises BadInputError for an include that leads out of the folders.
    """
    found: list[Path] = []
    waiting = [file]
    while waiting:
        path = waiting.pop(0)
        if path not in found:
            found.append(path)
            waiting += _included_by(path, folders)
    return found


def _included_by(file: Path, folders: Sequence[Path]) -> list[Path]:
    """A header is named as it lies in the folders: no way up out of them, no absolute path, no link out, and no macro
    that would say what is read."""
    raw = _read(file).replace("\\\n", "")
    text = COMMENT_OR_TEXT.sub(lambda match: " " if match[0].startswith("/") else match[0], raw)
    found = []
    for directive in dict.fromkeys([*DIRECTIVE.findall(text), *DIRECTIVE.findall(raw)]):
        named = NAMED.match(directive)
        name = Path((named["system"] or named["quoted"]) if named else "/")
        header = next((place / name for place in (file.parent, *folders) if (place / name).is_file()), None)
        inside = header and any(header.resolve().is_relative_to(folder.resolve()) for folder in folders)
        if name.is_absolute() or not (inside or (header is None and ".." not in name.parts)):
            what = directive.strip()[:80]
            raise BadInputError(f"{file.name}: #include {what} leads out of the kernel folders; name a file in them")
        found += [header] if header else []
    return found


def _shown_name(file: Path, include_folders: Sequence[Path]) -> str:
    for folder in include_folders:
        if file.is_relative_to(folder):
            return file.relative_to(folder).as_posix()
    return file.name


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file} cannot be read ({error})") from error


def _checked(nvrtc: Any, answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a call without its status; raises RuntimeError naming a status that is not success."""
    status, *values = answer
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"NVRTC failed: {status.name}")
    return tuple(values)


STATIC_SHARED_BYTES = 48 * 1024  # more dynamic shared memory than this must be asked for


def compile_cache() -> Path | None:
    folder = os.environ.get("ROOFEXP_CACHE_DIR")
    return Path(folder) / "cubin" if folder else None


def load_module(
    source: str, arch: str, defines: dict[str, str | int], roots: list[Path], cache: Path | None, where: str
) -> Any:
    """The compiled module. Raises BadInputError with the compiler's first error."""
    import cupy

    file = find_kernel_file(source, roots, where)
    try:
        cubin = compile_source(file, arch, defines, roots, cache)
    except CompileError as error:
        raise CompileError(f"{where}: {error}", error.log) from error
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error
    with tempfile.NamedTemporaryFile(suffix=".cubin") as kept:  # CuPy loads machine code from a file only
        kept.write(cubin)
        kept.flush()
        return _Loaded(cupy.RawModule(path=kept.name))


class _Loaded:
    """Functions are looked up while the file is there: CuPy loads it at the first."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._module.compile()

    def get_function(self, name: str) -> Any:
        return self._module.get_function(name)


def defines_of(kernel: Kernel) -> dict[str, str | int]:
    """The macros that kernels are compiled with; kernels/common.cuh says what they mean."""
    defines: dict[str, str | int] = {f"ROOFEXP_{kernel.precision.upper()}": 1}
    for name, value in kernel.params.items():
        defines[name.upper()] = int(value) if isinstance(value, bool) else value
    return defines


def build_launch(
    kernel: Kernel, operands: dict[str, Any], arch: str, sms: int, roots: list[Path], cache: Path | None
) -> Callable[[], Any]:
    """A function that puts one launch of the kernel on the current stream."""
    code, where = kernel.implementations["cuda"], f"{kernel.where}: cuda"
    module = load_module(code["source"], code.get("arch") or arch, defines_of(kernel), roots, cache, where)
    arguments = _arguments(kernel, operands)
    launches = [_one_launch(kernel, module, entry, arguments, sms) for entry in entries_of(code)]
    if len(launches) == 1:
        return launches[0]

    def launch() -> None:
        for one in launches:
            one()

    return launch


def least_capability(kernel: Kernel) -> int:
    """The oldest architecture that the kernel's code runs on in this precision, 80 for sm_80; 0 for any."""
    least = kernel.implementations["cuda"].get("min_arch") or 0
    return int(least.get(kernel.precision, 0) if isinstance(least, dict) else least)


def entries_of(code: dict[str, Any]) -> list[str]:
    """An op of several kernels names them in order: ``entry: "silu, mul"``."""
    return [name.strip() for name in str(code["entry"]).split(",")]


def _one_launch(kernel: Kernel, module: Any, entry: str, arguments: tuple[Any, ...], sms: int) -> Callable[[], Any]:
    code, where = kernel.implementations["cuda"], f"{kernel.where}: cuda"
    try:
        function = module.get_function(entry)
    except Exception as error:  # CuPy's own kind
        raise BadInputError(f"{where}.entry: {code['source']} has no kernel {entry!r}") from error
    block, grid, shared_bytes = launch_shape(kernel, sms)
    if shared_bytes > STATIC_SHARED_BYTES:
        function.max_dynamic_shared_size_bytes = shared_bytes
    if code.get("max_l1"):
        function.preferred_shared_memory_carveout = 0
    return lambda: function(grid, block, arguments, shared_mem=shared_bytes)


def launch_shape(kernel: Kernel, sms: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Block, grid and bytes of dynamic shared memory from the YAML's formulas; ``sm_count`` is known to them, and to
    the grid also ``block`` (threads per block)."""
    code, where = kernel.implementations["cuda"], f"{kernel.where}: cuda"
    names: dict[str, Any] = {**kernel.names, "sm_count": sms}
    block = _dimensions(code["block"], names, f"{where}.block")
    threads = 1
    for size in block:
        threads *= size
    names |= {"block": threads}
    grid = _dimensions(code["grid"], names, f"{where}.grid")
    return block, grid, evaluate_count(code.get("shared_bytes", 0), names, f"{where}.shared_bytes")


def _dimensions(value: Any, names: dict[str, Any], where: str) -> tuple[int, ...]:
    parts = list(value) if isinstance(value, (list, tuple)) else [value]
    if not 1 <= len(parts) <= 3:
        raise BadInputError(f"{where}: {len(parts)} dimensions; 1 to 3 are possible")
    return tuple(max(1, int(evaluate(part, names, where))) for part in parts)


def _arguments(kernel: Kernel, operands: dict[str, Any]) -> tuple[Any, ...]:
    """Pointers, scalars in the type of the sums, and everything that is counted as a 64-bit integer."""
    import numpy

    real = numpy.float64 if kernel.precision == "fp64" else numpy.float32
    packed: list[Any] = []
    for name in kernel.argument_names("cuda"):
        if name in operands:
            packed.append(operands[name])
        elif name in kernel.scalars:
            packed.append(real(kernel.scalars[name]))
        else:
            packed.append(numpy.int64(kernel.names[name]))
    return tuple(packed)
