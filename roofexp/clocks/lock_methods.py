"""The two ways to hold a GPU's clocks: NVML's lock, which needs rights, and a process that is kept under ncu."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from roofexp.devices.nvml import NEEDS_RIGHTS, Nvml, RefusedError
from roofexp.errors import BadInputError
from roofexp.ncu import explain_ncu_failure


class NvmlLock:
    """``take`` and ``undo`` raise RefusedError."""

    def __init__(self, nvml: Nvml, mhz: int | None = None) -> None:
        self._nvml, self._mhz = nvml, mhz

    def check(self) -> None:
        """Raises BadInputError for a clock that this GPU does not have."""
        allowed = allowed_mhz(self._nvml)
        if self._mhz is not None and allowed and not allowed[0] <= self._mhz <= allowed[1]:
            raise BadInputError(f"clock.mhz={self._mhz}: this GPU's SMs go from {allowed[0]} to {allowed[1]} MHz")

    def take(self) -> None:
        self._nvml.order("SetGpuLockedClocks", self._mhz, self._mhz)

    def undo(self) -> None:
        self._nvml.order("ResetGpuLockedClocks")

    def alive(self) -> bool:
        return True


def allowed_mhz(nvml: Nvml) -> tuple[int, int] | None:
    """The lowest and the highest SM clock; None where the driver does not say."""
    memory = nvml.ask("GetSupportedMemoryClocks")
    clocks = nvml.ask("GetSupportedGraphicsClocks", max(memory)) if memory else None
    return (int(min(clocks)), int(max(clocks))) if clocks else None


def why_shared(nvml: Nvml, worker_pid: int | None) -> str | None:
    """Why a lock would be felt by others: who else computes on this GPU; None when nobody does.

    The worker has a context of its own. Inside a container its number is another than the driver's: then it is the one
    that is left when one is taken off.
    """
    mig = nvml.ask("GetMigMode")
    if mig and mig[0]:
        raise RefusedError("MIG is on: the clocks belong to all instances; use clock=duty")
    listed = nvml.ask("GetComputeRunningProcesses")
    if listed is None:
        return "the driver does not say who else uses this GPU"
    pids = [int(process.pid) for process in listed]
    others = len(pids) - (1 if pids and worker_pid is not None else 0)
    if others <= 0:
        return None
    return f"{others} other program{'s' if others > 1 else ''} use{'' if others > 1 else 's'} this GPU"


START_S = 60.0
END_S = 15.0
ASK_S = 30.0


class NcuHold:
    """``take`` and ``undo`` raise RefusedError."""

    def __init__(self, ncu: Path, mode: str, uuid: str, environment: Mapping[str, str]) -> None:
        self.ncu, self._mode = ncu, mode
        self._environment = {**environment, "CUDA_VISIBLE_DEVICES": uuid}
        self._process: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Raises RefusedError for a mode that this ncu does not have."""
        offered = clock_controls(self.ncu)
        if offered is not None and self._mode not in offered:
            raise RefusedError(f"this ncu has no clock control {self._mode!r}, only {', '.join(offered)}")

    def take(self) -> None:
        words = [str(self.ncu), "--config-file", "off", "--clock-control", self._mode]
        words += ["--target-processes", "application-only", sys.executable, "-P", "-m", "roofexp.clocks.idle"]
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True, env=dict(self._environment),
            )  # fmt: skip
        except OSError as error:
            raise RefusedError(f"ncu could not be started ({error.strerror})") from error
        output = self._until_ready()
        complaint = _complaint(output)
        if complaint or "ready" not in output.split():
            raise RefusedError(complaint or "ncu ended, or did not start the process that holds the clocks")

    def undo(self) -> None:
        """Lets the process end by itself; where it had to be killed, ncu is asked to reset the clocks."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reset(self.ncu)
        finally:
            if process.stdout:
                process.stdout.close()

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _until_ready(self) -> str:
        """The output up to the word ``ready``, to its end, or until START_S have passed."""
        assert self._process
        assert self._process.stdout
        output, end = b"", time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while time.monotonic() < end and b"ready" not in output.split():
                if not selector.select(0.2):
                    continue
                read = os.read(self._process.stdout.fileno(), 65536)
                if not read:
                    break
                output += read
        return output.decode(errors="replace")


def clock_controls(ncu: Path) -> list[str] | None:
    """The values that this ncu takes for --clock-control, from its own help; None where that does not say."""
    try:
        done = subprocess.run([str(ncu), "--help"], capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    option = re.search(r"--clock-control\b(.*?)(?=\n\s*--\w|\Z)", done.stdout, re.DOTALL)
    words = set(re.findall(r"[\w-]+", option[1])) if option else set()
    return [word for word in ("none", "base", "boost", "force-boost", "reset") if word in words] or None


def reset(ncu: Path) -> None:
    """Raises RefusedError where ncu cannot."""
    words = [str(ncu), "--config-file", "off", "--clock-control", "reset"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"ncu --clock-control reset did not run ({type(error).__name__})") from error
    complaint = _complaint(f"{done.stdout}\n{done.stderr}")
    if done.returncode != 0 or complaint:
        raise RefusedError(complaint or f"ncu --clock-control reset ended with exit code {done.returncode}")


def _complaint(output: str) -> str | None:
    """An error of ncu, or its warning about the clocks."""
    failure = explain_ncu_failure(output, 0)
    if failure is not None and failure.kind != "no kernels":
        return f"{failure.cause}; {NEEDS_RIGHTS if failure.kind == 'unknown' else failure.cure}"
    lines = [line for line in output.splitlines() if line.startswith("==WARNING==") and "clock" in line.lower()]
    return f"ncu says: {lines[0].removeprefix('==WARNING==').strip()}; {NEEDS_RIGHTS}" if lines else None
