"""The small files in which the kernel tells about CPUs; what is not there, or no number, is None."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def integer(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


def kibibytes(text: str | None) -> int | None:
    """``32K`` and ``1M`` as the kernel writes them: powers of 1024, in bytes."""
    if not text:
        return None
    unit = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1])
    number = integer(text[:-1] if unit else text)
    return None if number is None else number * (unit or 1)


def cpus_in(cpu_list: str) -> list[int]:
    """The CPUs that ``0-3,8`` names."""
    cpus: list[int] = []
    for part in filter(None, cpu_list.split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
