"""An ncu that runs nothing: it reads what the child was told to run and prints the report that ncu would have printed.

``behave`` is a Python expression for what is special about it; everything else is as ncu 2025.3.1 on an H200 does it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SCRIPT = """#!{python}
import csv, json, os, sys, time
from pathlib import Path

BEHAVE = {behave!r}
CALLS = Path({calls!r})
NAME = "NVIDIA H200"
WORDS = sys.argv[1:]
with CALLS.open("a") as file:
    file.write(json.dumps(WORDS) + "\\n")


def option(name):
    return WORDS[WORDS.index(name) + 1]


if "--version" in WORDS:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880) (public-release)")
    sys.exit(0)
if BEHAVE.get("says"):  # before anything else, and nothing else
    print(BEHAVE["says"], file=sys.stderr)
    sys.exit(BEHAVE.get("code", 1))
if "--query-metrics" in WORDS:
    print("Device NVIDIA H200 (GH100)")
    for name in {offers!r}:
        print(name.ljust(70) + " # what it counts")
    sys.exit(0)

plan, progress = json.loads(Path(WORDS[-2]).read_text()), Path(WORDS[-1])
metrics, log = option("--metrics").split(","), Path(option("--log-file"))


def step(state, **fields):
    with progress.open("a") as file:
        file.write(json.dumps(dict(state=state, **fields)) + "\\n")


def finish(lines, code):
    log.write_text("".join(line + "\\n" for line in lines))
    sys.exit(code)


for refused in BEHAVE.get("options", []):
    if refused in WORDS:
        finish(["==ERROR== unrecognised option '" + refused + "'. Use --help for further details."], 1)
for refused in BEHAVE.get("refuses", []):
    if any(metric.split(".")[0] == refused for metric in metrics):
        step("ready", machine_name=NAME)
        step("start", name=plan["tasks"][0]["name"])
        pattern = "regex:^" + refused + "\\\\.(sum|min|max|avg|pct|ratio|max_rate)$"
        finish(["==PROF== Connected to process 1 (python)", "==ERROR== Failed to find metric " + pattern], 1)

UNITS = {{"gpu__time_duration": "ns", "per_second": "hz", "dram__bytes": "byte", "l1tex__t_bytes": "byte", "pct": "%"}}
columns = [metric for metric in metrics if metric.split(".")[0] not in BEHAVE.get("drops", [])]
columns += ["launch__registers_per_thread", "launch__sm_count", "profiler__replayer_passes"]
units = [next((unit for part, unit in UNITS.items() if part in column), "") for column in columns]
head = ["ID", "Process ID", "Process Name", "Host Name"]
head += ["thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"]
head += ["Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
rows = []


def add(range_name, kernel, flops, moved, tensor=False, time_ns=10000):
    # ``moved`` None is a launch that failed
    bare = moved is None or BEHAVE.get("values") == "nan"
    moved = moved or 0
    values = {{
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 0 if tensor else flops // 2,
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum": flops if tensor else 0,
        "dram__bytes_read.sum": moved * 2 // 3,
        "dram__bytes_write.sum": moved - moved * 2 // 3,
        "gpu__time_duration.sum": time_ns,
        "sm__cycles_elapsed.avg": 1.5 * time_ns,
        "sm__cycles_elapsed.avg.per_second": 1.5e9,
        "dram__cycles_elapsed.avg.per_second": 3.2e9,
        "lts__t_sectors_srcunit_tex.sum": moved // 32,
        "l1tex__t_bytes.sum": 2 * moved,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 49.0,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 30.0,
        "launch__registers_per_thread": 32,
        "launch__sm_count": 132,
        "profiler__replayer_passes": 4,
    }}
    cells = ["nan" if bare and "launch" not in column else values.get(column, 0) for column in columns]
    nvtx = '1  "<default domain>:' + range_name + ':none:none:none:none:none:none" ' if range_name else ""
    name = range_name + "/" + kernel if range_name and "--print-nvtx-rename" in WORDS else kernel
    where = [nvtx, name, "1", "7", "(256, 1, 1)", "(64, 1, 1)", "0", "9.0"]
    rows.append([str(len(rows)), "1", "python", "127.0.0.1", *where, *map(str, cells)])


def report(*tail):
    lines = ["==WARNING== Note: Running with unmodified GPU clocks.", "==PROF== Connected to process 1 (python)"]
    text = []
    if rows:
        for cells in [head + columns, [""] * len(head) + units, *rows]:
            text.append(",".join('"' + cell.replace('"', '""') + '"' for cell in cells))
    if not rows:
        tail = [*tail, "==WARNING== No kernels were profiled."]
    return [*lines, *tail, *text]


step("ready", machine_name=BEHAVE.get("machine", NAME), pid=0)
if BEHAVE.get("machine", NAME) != plan["machine_name"]:
    finish(["==PROF== Connected to process 1 (python)", "==ERROR== The application returned an error code (69)."], 69)
add("", "cupy_random__standard_normal", 10**9, 10**9)  # a kernel outside all ranges: never counted
tasks = plan["tasks"]
for task in reversed(tasks) if BEHAVE.get("reversed") else tasks:
    kernel, name = task["kernel"], task["name"]
    if BEHAVE.get("permission"):
        step("start", name=name)
        step("done", name=name)
        continue
    step("start", name=name)
    if BEHAVE.get("busy_at") == kernel["size"]:
        finish(report("==ERROR== Profiling failed because a driver resource was unavailable."), 1)
    if BEHAVE.get("faults_at") == kernel["size"]:
        add(name, "faulty", 0, None)
        finish(report("==ERROR== An error was reported by the driver:", "==ERROR== LaunchFailed",
                      "==ERROR== The application returned an error code (9)."), 9)
    if BEHAVE.get("crashes_at") == kernel["size"]:
        print("Segmentation fault (core dumped)")
        finish(report("==ERROR== The application returned an error code (11)."), 11)
    if BEHAVE.get("hangs_at") == kernel["size"]:
        time.sleep(600)
    if BEHAVE.get("slow_at") == kernel["size"]:
        step("timeout", name=name)
        finish(report("==ERROR== The application returned an error code (75)."), 75)
    if BEHAVE.get("cannot_build") == kernel["size"]:
        step("refused", name=name, reason="does not compile")
        continue
    entries = [entry.strip() for entry in kernel["implementations"]["cuda"]["entry"].split(",")]
    if BEHAVE.get("silent_at") != kernel["size"]:
        for entry in entries:
            flops = int(kernel["work"]["flops"] * BEHAVE.get("ratio", 1)) // len(entries)
            moved = kernel["work"]["dram_bytes"] * BEHAVE.get("excess", 1)
            if not BEHAVE.get("no_kernels"):
                add(name, entry, flops, moved, tensor=kernel["precision"] == "bf16")
    step("done", name=name)
if BEHAVE.get("no_kernels"):
    rows.clear()
if BEHAVE.get("permission"):
    finish(["==PROF== Connected to process 1 (python)",
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            "==WARNING== No kernels were profiled."], 0)
finish(report(), 0)
"""


class FakeNcu:
    """``path`` is the program; ``calls`` are the command lines that it got."""

    def __init__(self, folder: Path, offers: list[str], **behave: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._calls = folder / "ncu", folder / "calls.jsonl"
        text = SCRIPT.format(python=sys.executable, behave=behave, calls=str(self._calls), offers=offers)
        self.path.write_text(text)
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self._calls.read_text().splitlines()] if self._calls.exists() else []

    @property
    def sessions(self) -> list[list[str]]:
        return [words for words in self.calls if "--log-file" in words]
