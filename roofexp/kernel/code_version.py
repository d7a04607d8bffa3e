"""Which code a point was measured with: a hash of its kernel's files, and one of the program's own that measure."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roofexp.config.paths import PACKAGE

MEASURING = ("measure", "devices", "kernel")  # rooms whose code can change a time
INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
IMPORTED = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+([\w., ]+))", re.MULTILINE)


def kernel_code(kernel: Mapping[str, Any], roots: Sequence[Path]) -> str:
    return _hash(code_files(kernel, roots))


def code_files(kernel: Mapping[str, Any], roots: Sequence[Path]) -> list[Path]:
    """The files that a kernel's plain configuration names, and those that they include and import from the kernel
    folders. Files that are missing are passed over: they fail where they are loaded."""
    cpu, cuda = kernel.get("cpu") or {}, kernel.get("cuda") or {}
    names = [str(cpu.get(key) or "").partition(":")[0] for key in ("function", "factory")] + [cuda.get("source") or ""]
    files = [file for name in names if name for file in [_first(name, roots)] if file]
    return _with_included(files, roots)


@functools.cache
def program_code() -> str:
    """Of the rooms of the program that measure."""
    files = [file for room in MEASURING for file in sorted((PACKAGE / room).rglob("*"))]
    return _hash(file for file in files if file.suffix in (".py", ".yaml", ".cu", ".cuh"))


def _with_included(files: list[Path], roots: Sequence[Path]) -> list[Path]:
    known = list(files)
    for file in known:  # grows while it is read
        places = [file.parent, *roots]
        for name in _named_in(file):
            found = _first(name, places)
            if found and found not in known:
                known.append(found)
    return sorted(known)


def _named_in(file: Path) -> list[str]:
    text = file.read_text(errors="replace")
    if file.suffix != ".py":
        return INCLUDED.findall(text)
    modules = [
        one.strip().split(" ")[0] for pair in IMPORTED.findall(text) for one in f"{pair[0]},{pair[1]}".split(",")
    ]
    return [f"{module.replace('.', '/')}.py" for module in modules if module]


def _first(name: str, places: Iterable[Path]) -> Path | None:
    return next((file.resolve() for place in places if (file := place / name).is_file()), None)


def _hash(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]
