"""``python -m roofexp.doctor`` reports what this machine can measure and how to fix the rest.

Every check answers in lines of its own and never with a traceback.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from roofexp.commands import run_command
from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.text.console import one_line, printable
from roofexp.text.numbers import engineering, percent

State = Literal["ok", "limited", "missing"]
NEEDED = ("hydra-core", "omegaconf", "numpy", "numba", "pandas", "seaborn", "mlflow")
ENOUGH_DISK_BYTES = 500e6
PROFILING_SWITCH = "RmProfilingAdminOnly"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """``needed``: without it no measurement can run."""

    what: str
    state: State
    says: str
    cure: str = ""
    needed: bool = False


def examine(outputs: Path) -> list[Finding]:
    """All findings, in the order in which a reader needs them."""
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "packages": check_packages,
        "CPU": check_cpu,
        "environment": check_environment,
        "GPU": check_gpu,
        "NVRTC": check_nvrtc,
        "ncu": check_ncu,
        "clocks": check_clocks,
        "outputs": lambda: check_disk(outputs),
        "MLflow": lambda: check_tracking(outputs),
    }
    findings: list[Finding] = []
    for name, check in checks.items():
        try:
            findings += check()
        except Exception as error:  # a check that fails is a finding itself
            findings.append(Finding(what=name, state="limited", says=one_line(error)))
    return findings


def check_packages() -> list[Finding]:
    missing = [name for name in NEEDED if _version(name) is None]
    if missing:
        says, cure = f"not installed: {', '.join(missing)}", "python -m pip install roofexp"
        return [Finding(what="packages", state="missing", says=says, cure=cure, needed=True)]
    listed = ", ".join(f"{name} {_version(name)}" for name in NEEDED)
    return [Finding(what="packages", state="ok", says=f"Python {sys.version.split()[0]}, {listed}")]


def check_cpu() -> list[Finding]:
    from roofexp.devices.cpu.machine import allowed_cpus, describe_cpu, usable_cores

    machine, usable = describe_cpu(None), usable_cores()
    caches = ", ".join(f"{level.upper()} {_cache_size(size)}" for level, size in machine.cache_bytes.items())
    says = f"{machine.name}, {machine.units} cores in use, {caches or 'caches unknown'}"
    findings = [Finding(what="CPU", state="ok", says=says)]
    quota = "none" if usable.quota is None else f"{usable.quota:.3g} CPUs"
    says = f"{len(usable.by_core)} cores, {len(allowed_cpus())} of {os.cpu_count()} logical CPUs allowed, quota {quota}"
    says = f"{says}; {usable.says}" if usable.says else says
    findings.append(Finding(what="cores", state="limited" if usable.says else "ok", says=says))
    findings.append(Finding(what="memory", state="ok", says=_memory()))
    findings += [Finding(what="CPU", state="limited", says=f"unknown: {reason}") for reason in machine.unknown]
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > 0.3:
        cure = "stop other programs, or expect flagged points"
        findings.append(
            Finding(what="quiet", state="limited", says=f"the machine is {percent(load)} loaded", cure=cure)
        )
    return findings


def _memory() -> str:
    from roofexp.devices.cpu.control_group import memory_limit
    from roofexp.devices.cpu.machine import memory_bytes, memory_free_bytes

    limit = memory_limit()
    group = f"limit of the control group {engineering(limit, 'B')}" if limit else "no limit of a control group"
    return f"{engineering(memory_bytes(), 'B')}, {engineering(memory_free_bytes(), 'B')} free, {group}"


def check_environment() -> list[Finding]:
    """Variables of the shell that would change a measurement: what becomes of each."""
    from roofexp.devices.environment import NAMED_ONLY, changes_measurements, worker_environment

    used, findings = worker_environment("cpu"), []
    for name, value in sorted(os.environ.items()):
        if changes_measurements(name) and used.get(name) != value:
            becomes = f"{used[name]} is used" if name in used else "left out"
            says = f"{name}={printable(value)}: {becomes} while measuring"
            findings.append(Finding(what="environment", state="ok", says=says))
        elif name in NAMED_ONLY and value:
            says, cure = f"{name}={printable(value)} holds while measuring too", f"unset {name}, or expect other rates"
            findings.append(Finding(what="environment", state="limited", says=says, cure=cure))
    return findings


def check_gpu() -> list[Finding]:
    from roofexp.devices.cuda.machine import describe_gpu, open_nvml, why_no_cuda

    reason = why_no_cuda(0)
    if reason:
        return [Finding(what="GPU", state="missing", says=reason, cure="device=cpu measures the CPU")]
    nvml = open_nvml(0)
    machine = describe_gpu(0, nvml)
    details = machine.details
    says = f"{machine.name}, {machine.units} SMs, driver {details.get('driver')}, CUDA {details.get('cuda_runtime')}"
    findings = [Finding(what="GPU", state="ok", says=says)]
    findings += [Finding(what="GPU", state="limited", says=f"unknown: {text}") for text in machine.unknown]
    if nvml is None:
        return findings
    if details.get("mig"):
        says, cure = "on: clocks and counters are shared or refused", "switch MIG off to measure the whole GPU"
        findings.append(Finding(what="MIG", state="limited", says=says, cure=cure))
    limit, default = details.get("power_limit_w"), details.get("power_limit_default_w")
    if limit and default and limit < 0.99 * default:
        says = f"{limit:.0f} W, the default is {default:.0f} W: compute roofs will be lower"
        findings.append(Finding(what="power limit", state="limited", says=says, cure="nvidia-smi -pl (administrator)"))
    others = nvml.others()
    if others and others.processes:
        cure = "wait for them, or use another GPU with device=cuda:1"
        says = f"{others.processes} program{'s' if others.processes > 1 else ''} computing on this GPU"
        findings.append(Finding(what="other work", state="limited", says=says, cure=cure))
    return findings


def check_nvrtc() -> list[Finding]:
    from roofexp.devices.cuda.code import find_nvrtc

    compiler = find_nvrtc()
    if compiler.reason:
        return [Finding(what="NVRTC", state="missing", says=compiler.reason)]
    return [Finding(what="NVRTC", state="ok", says=f"{compiler.version}, with the CUDA headers")]


def check_ncu() -> list[Finding]:
    """Nsight Compute, and whether this user may read the counters."""
    from roofexp.ncu import find_ncu

    path = find_ncu(None)
    if path is None:
        cure = "install Nsight Compute; without it traffic is modelled from the kernels' formulas"
        return [Finding(what="ncu", state="missing", says="not found", cure=cure)]
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    version = next((line for line in done.stdout.splitlines() if line.startswith("Version")), done.stdout.strip()[-60:])
    findings = [
        Finding(what="ncu", state="ok" if done.returncode == 0 else "limited", says=version or "gives no version")
    ]
    if os.geteuid() != 0 and _profiling_is_restricted():
        cure = "NVreg_RestrictProfilingToAdminUsers=0 as a driver option, or CAP_SYS_ADMIN"
        findings.append(Finding(what="counters", state="limited", says="only administrators may read them", cure=cure))
    return findings


def check_clocks() -> list[Finding]:
    """The clock modes that are allowed here. Changes nothing."""
    from roofexp.clocks.journal import allowed_modes, ncu_or_none
    from roofexp.config.paths import cache_folder
    from roofexp.devices.cuda.machine import open_nvml

    return [
        Finding(
            what="clock",
            state="ok" if method.allowed else "limited",
            says=f"{method.modes}: {method.says}",
            cure=method.cure,
        )
        for method in allowed_modes(open_nvml(0), ncu_or_none(), cache_folder() / "clocks")
    ]


def check_disk(outputs: Path) -> list[Finding]:
    folder = next(path for path in [outputs, *outputs.parents] if path.is_dir())
    free = shutil.disk_usage(folder).free
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        says = f"{outputs} cannot be written ({error.strerror})"
        return [Finding(what="outputs", state="missing", says=says, cure="outputs=FOLDER", needed=True)]
    state: State = "ok" if free > ENOUGH_DISK_BYTES else "limited"
    cure = "" if state == "ok" else "free some disk space"
    return [Finding(what="outputs", state=state, says=f"{engineering(free, 'B')} free", cure=cure)]


def check_tracking(outputs: Path) -> list[Finding]:
    """The store that a sweep would use. Creates none."""
    from roofexp.tracking.store import TrackingError, check_address, resolve_store

    try:
        check_address(resolve_store("sqlite", None, outputs))
    except TrackingError as error:
        needed, cure = isinstance(error, BadInputError), "tracking=none measures without MLflow"
        return [Finding(what="MLflow", state="missing", says=str(error), cure=cure, needed=needed)]
    return [Finding(what="MLflow", state="ok", says="the store can be used")]


def _profiling_is_restricted() -> bool:
    try:
        text = Path("/proc/driver/nvidia/params").read_text()
    except OSError:
        return False
    return any(line.startswith(PROFILING_SWITCH) and line.split(":")[-1].strip() == "1" for line in text.splitlines())


def _cache_size(size_bytes: float) -> str:
    return f"{size_bytes / 2**20:.3g} MiB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:.3g} KiB"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit code: 0 a measurement can run; 1 something that it needs is missing"
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="the folder for results")


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 where a measurement cannot run."""
    findings = examine(options.outputs.absolute())
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        cure = f"  [{finding.cure}]" if finding.cure else ""
        print(f"{finding.state:8}{finding.what:{width}}  {finding.says}{cure}")
    missing = [finding.what for finding in findings if finding.needed and finding.state == "missing"]
    print(f"measurements cannot run; missing: {', '.join(missing)}" if missing else "measurements can run")
    return EXIT_POINT_FAILED if missing else EXIT_OK


if __name__ == "__main__":
    sys.exit(run_command("doctor"))
