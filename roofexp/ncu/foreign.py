"""What people take for a report of ncu and is none: told by its first bytes or words, with what reads it instead."""

from __future__ import annotations

import re

EXPORT = "ncu --import REPORT.ncu-rep --csv --page raw --print-units base"
REP_START = b"NVR\0"  # of an .ncu-rep

_NSYS = "it has times but no counters; `nsys stats FILE` prints them"

_WEB_PAGE = "a web page, perhaps that of a sign-in; download the report itself"

FIRST_BYTES = (  # letters in lower case
    (b"version https://git-lfs", "a Git LFS pointer, not the file that it stands for; fetch that by `git lfs pull`"),
    (b"SQLite format 3\0", f"an SQLite database, such as Nsight Systems exports; {_NSYS}"),
    (b"PK\3\4", "a zip archive; unpack it and name the report that is in it"),
    (b"\x1f\x8b", "packed by gzip; unpack it first: gunzip FILE"),
    (b"\xfd7zXZ\0", "packed by xz; unpack it first: unxz FILE"),
    (b"BZh", "packed by bzip2; unpack it first: bunzip2 FILE"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd; unpack it first: unzstd FILE"),
    (b"\x7fELF", "a program; profile it first: ncu --export REPORT PROGRAM"),
    (b"%PDF", f"a PDF document; a report is exported by: {EXPORT}"),
    (b"\x89PNG", f"an image; a report is exported by: {EXPORT}"),
    (b"<html", _WEB_PAGE),
    (b"<!doctype html", _WEB_PAGE),
)

_ENDINGS = {  # of binary files without first bytes of their own
    (".nsys-rep", ".qdrep", ".qdstrm"): f"a report of Nsight Systems: {_NSYS}",
}

_SMI = (
    r"nvidia-smi|nvsmi log|clocks\.\w+\.(sm|gr)|pci\.bus_id, |^# ?gpu +(pwr|sm)|"
    r"^timestamp, .*\b(pstate|uuid|power\.draw|utilization\.gpu)"
)
_SOURCE_PAGE = r'^"?#"?,"?(address|source)\b|"source".*"address"|"address".*"source"'

# words of the first lines
_WORDS = (
    (r"total time \(ns\)|^time ?\(%\)|gpukernsum|cuda_gpu_kern_sum", f"a summary of Nsight Systems; {_NSYS}"),
    (r"existing sqlite export found", "a message of Nsight Systems: its export is stale; add --force-export=true"),
    (_SOURCE_PAGE, f"ncu's source page, which has no launches; export the raw page: {EXPORT}"),
    (_SMI, "a log of nvidia-smi: it has clocks and power but no kernels; a sweep keeps its own in clocks.csv"),
    (
        r'"traceevents"|^\[?\s*\{\s*"(name|ph|cat|ts|pid)":',
        "a trace of the PyTorch profiler or Chrome: it has times but no counters; https://ui.perfetto.dev shows it",
    ),
)


def name_bytes(data: bytes, name: str = "") -> str | None:
    """What a file of these first bytes is, with the cure; None for text and for reports of ncu. ``name`` is the
    file's."""
    if not data.strip():
        return f"an empty file; export the report again: {EXPORT}"
    for start, what in FIRST_BYTES:
        if data.startswith(start) or data[:20].lstrip().lower().startswith(start):
            return what
    return next((what for endings, what in _ENDINGS.items() if b"\0" in data and name.endswith(endings)), None)


def name_text(text: str) -> str | None:
    """What a text is, by words of its first lines; None where they say nothing."""
    return next((what for words, what in _WORDS if re.search(words, text, re.IGNORECASE | re.MULTILINE)), None)
