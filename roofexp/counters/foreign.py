"""What a file without launches is, so that the error can say what was found and what to do."""

from __future__ import annotations

from roofexp.counters.messages import explain_ncu_failure
from roofexp.counters.table import Contents

EXPORT = "ncu --import REPORT.ncu-rep --csv --page raw --print-units base"
# words that stand in the first lines of what people take for an ncu report
FOREIGN = [
    (("Total Time (ns)", "Instances"), "a kernel summary of Nsight Systems, which has times but no counters"),
    (("Time (%)", "Name"), "a summary of Nsight Systems, which has times but no counters"),
    (("Source", "Address"), f"ncu's source page, which has no launches; export the raw page: {EXPORT}"),
    (("clocks", "pstate"), "a log of nvidia-smi"),
    (("traceEvents",), "a trace of the PyTorch profiler or Chrome, which has times but no counters"),
]
_SHOWN = 3
_WIDTH = 100


def what_is_it(contents: Contents) -> str:
    """One line: what stands in the file instead of a table of launches, with its first lines."""
    if contents.tables:
        return f"a table with a header in line {contents.tables[0].line}, but no row below it; {EXPORT}"
    said = "\n".join(f"=={kind}== {text}" for kind, text in contents.tool_lines)
    explanation = explain_ncu_failure(said, 0)
    if explanation:
        return str(explanation)
    first = "\n".join(contents.other_lines[:20])
    for words, name in FOREIGN:
        if all(word in first for word in words):
            return f"this is {name}"
    lines = [text for _, text in contents.tool_lines][:1] + contents.other_lines
    if not lines:
        return "the file is empty"
    shown = " | ".join(line.strip()[:_WIDTH] for line in lines[:_SHOWN])
    return f"none of ncu's tables is in it; it begins with: {shown}; a report is exported by: {EXPORT}"
