"""What the shell, the container and the machine's kernel say about cores, threads and memory is heard or overruled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofexp.devices.base import FEWER_CORES, FRACTIONAL_QUOTA
from roofexp.devices.cpu import control_group, machine
from roofexp.devices.cpu.device import CpuDevice
from roofexp.devices.cpu.machine import cores_in_use
from roofexp.devices.environment import changes_measurements, worker_environment
from roofexp.measure.host_load import HELD_BACK, HostLoad, HostReading, quiet_flags
from roofexp.roofs.store import DISTURBING
from tests.conftest import ROOT, Run
from tests.test_host_load import SETTINGS

LINUX = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone tells where a thread stands")

# what a worker finds: threads, where each stands, and how numba compiles
ASK = """
import json, os, sys
sys.path.insert(0, "kernels/roofs")
from places import places
from numba import config, get_num_threads, threading_layer
stood = places(get_num_threads())
print(json.dumps([get_num_threads(), stood, threading_layer(), config.DISABLE_JIT, config.OPT, config.BOUNDSCHECK]))
"""


def asked(**variables: str) -> list[object]:
    """The answers of a process with the worker's environment, made in a shell that has these variables."""
    make = "import json; from roofexp.devices.environment import worker_environment as w; print(json.dumps(w('cpu')))"
    clean = {name: value for name, value in os.environ.items() if not changes_measurements(name)}
    made = subprocess.run(
        [sys.executable, "-c", make], cwd=ROOT, env={**clean, **variables}, capture_output=True, check=True
    )
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, env=json.loads(made.stdout), capture_output=True, check=True
    )
    answers: list[object] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def clean() -> list[object]:
    return asked()


@LINUX
@pytest.mark.parametrize(
    "variables",
    [
        {"OMP_PROC_BIND": "master", "OMP_PLACES": "{0}"},
        {"OMP_THREAD_LIMIT": "1", "OMP_NUM_THREADS": "1", "OMP_DYNAMIC": "true"},
        {"GOMP_CPU_AFFINITY": "0", "OMP_PROC_BIND": "false"},
        {"KMP_AFFINITY": "compact", "OMP_MAX_ACTIVE_LEVELS": "0", "OMP_WAIT_POLICY": "passive"},
        {"NUMBA_DISABLE_JIT": "1", "NUMBA_NUM_THREADS": "1"},
        {"NUMBA_OPT": "0", "NUMBA_BOUNDSCHECK": "1", "NUMBA_THREADING_LAYER": "workqueue"},
    ],
    ids=lambda variables: " ".join(variables),
)
def test_the_shell_changes_neither_threads_nor_places_nor_code(variables: dict[str, str], clean: list[object]) -> None:
    assert asked(**variables) == clean
    threads, stood = clean[:2]
    assert threads == len(machine.cores_in_use(None))
    assert len(set(stood)) == threads  # type: ignore[call-overload]


def test_every_library_gets_as_many_threads_as_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {
        "MKL_DYNAMIC": "1",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "AVX2",
        "MALLOC_PERTURB_": "7",
    }
    for name, value in {**left, "BLIS_NUM_THREADS": "9", "VECLIB_MAXIMUM_THREADS": "9", "LD_PRELOAD": ""}.items():
        monkeypatch.setenv(name, value)
    environment = worker_environment("cpu:1")
    assert not left.keys() & environment.keys()
    for name in (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ):
        assert environment[name] == "1"
    assert environment["VECLIB_MAXIMUM_THREADS"] == "1"


@LINUX
@pytest.mark.skipif(len(machine.cores_in_use(None)) < 2, reason="one core cannot be shared wrongly")
@pytest.mark.parametrize("bind", ["master", "close"])
def test_threads_that_share_a_core_are_seen(bind: str) -> None:
    """Without the worker's environment, which would put it right."""
    ask = (
        "from roofexp.devices.cpu.device import CpuDevice; from roofexp.config.paths import kernel_roots\n"
        "print([flag.name for flag in CpuDevice(2, kernel_roots([])).core_flags()])"
    )
    variables = {"OMP_PROC_BIND": bind, "OMP_PLACES": "cores", "NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    clean = {name: value for name, value in os.environ.items() if not changes_measurements(name)}
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=ROOT, env={**clean, **variables}, capture_output=True, text=True
    )
    assert done.stdout.strip() == str([FEWER_CORES] if bind == "master" else []), done.stderr
    assert FEWER_CORES in DISTURBING  # roofs of such a run are not kept


def test_a_point_is_measured_in_spite_of_the_shell(program: Run) -> None:
    done = program("kernel=vadd", "size=1000", NUMBA_DISABLE_JIT="1", OMP_PROC_BIND="master", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stdout + done.stderr
    assert FEWER_CORES not in done.stdout


def test_the_doctor_names_what_it_overrides(program: Run) -> None:
    text = program(
        bare=True, module="roofexp.doctor", OMP_PROC_BIND="master", GOMP_CPU_AFFINITY="0", LD_PRELOAD=""
    ).stdout
    assert "OMP_PROC_BIND=master: close is used while measuring" in text
    assert "GOMP_CPU_AFFINITY=0: left out while measuring" in text
    assert "logical CPUs allowed, quota" in text
    assert "control group" in text


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Writes control groups: paths from /sys/fs/cgroup on, and what the process's own lists say."""

    def write(files: dict[str, str], own: str = "", mounts: str = "") -> None:
        for name, text in files.items():
            file = tmp_path / "cgroup" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
        (tmp_path / "own").write_text(own)
        (tmp_path / "mounts").write_text(mounts.replace("ROOT", str(tmp_path / "cgroup")))
        monkeypatch.setattr(control_group, "USUAL", tmp_path / "cgroup")
        monkeypatch.setattr(control_group, "GROUPS", tmp_path / "own")
        monkeypatch.setattr(control_group, "MOUNTS", tmp_path / "mounts")

    return write


V1 = {"cpu.cfs_quota_us": "200000", "cpu.cfs_period_us": "100000"}
OVERLAY = "31 23 0:28 {root} ROOT/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.mark.parametrize(
    ("files", "own", "mounts", "threads"),
    [
        ({"cpu.max": "200000 100000"}, "0::/", "", 2),
        ({"system.slice/run-1.scope/cpu.max": "200000 100000"}, "0::/system.slice/run-1.scope", "", 2),
        ({"pods/one/cpu.max": "400000 100000", "pods/one/c/cpu.max": "max 100000"}, "0::/pods/one/c", "", 4),
        ({"pods/one/cpu.max": "400000 100000", "pods/one/c/cpu.max": "300000 100000"}, "0::/pods/one/c", "", 3),
        ({f"cpu/{name}": text for name, text in V1.items()}, "", "", 2),
        ({f"cpu,cpuacct/{name}": text for name, text in V1.items()}, "4:cpu,cpuacct:/", "", 2),
        ({f"cpu/job/step/{name}": text for name, text in V1.items()}, "4:cpuacct,cpu:/job/step/task", "", 2),
        ({f"cpu/{name}": text for name, text in V1.items()}, "4:cpu:/docker/ab", OVERLAY.format(root="/docker/ab"), 2),
        ({f"cpu/c/{name}": text for name, text in V1.items()}, "4:cpu:/pod/c", OVERLAY.format(root="/pod"), 2),
        ({"cpu.max": "700000 100000", **{f"cpu/{name}": text for name, text in V1.items()}}, "0::/../x", "", 2),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "", "", 16),
        ({"cpu.max": "max 100000"}, "0::/", "", 16),
        ({"cpu.max": "nonsense"}, "nonsense", "nonsense - x", 16),
        ({"cpu.max": "1600000 100000"}, "0::/", "", 16),
    ],
)
def test_as_many_threads_as_the_tightest_group_allows(
    files: dict[str, str], own: str, mounts: str, threads: int, groups, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    groups(files, own, mounts)
    monkeypatch.setattr(machine, "SYSTEM", tmp_path / "no topology")
    monkeypatch.setattr(machine, "allowed_cpus", lambda: list(range(16)))
    assert len(machine.cores_in_use(None)) == threads
    assert machine.usable_cores().says is None


@pytest.mark.parametrize(
    ("quota", "cores", "says"), [("150000", 1, "1 is used"), ("50000", 1, "held back"), ("250000", 2, "2 are used")]
)
def test_part_of_a_core_is_a_flag(
    quota: str, cores: int, says: str, groups, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    groups({"cpu.max": f"{quota} 100000"}, "0::/")
    monkeypatch.setattr(machine, "SYSTEM", tmp_path / "no topology")
    monkeypatch.setattr(machine, "allowed_cpus", lambda: list(range(8)))
    monkeypatch.setattr(CpuDevice, "_misplaced", lambda self: None)
    device = CpuDevice(None, [])
    assert len(device.cores) == cores
    (flag,) = device.core_flags()
    assert flag.name == FRACTIONAL_QUOTA
    assert says in flag.message


@pytest.mark.parametrize("version", [1, 2])
def test_time_that_a_quota_took_is_a_flag(version: int, groups) -> None:
    unit, name = (1e9, "throttled_time") if version == 1 else (1e6, "throttled_usec")
    folder = "cpu/job" if version == 1 else "job"
    own = "4:cpu:/job/step" if version == 1 else "0::/job/step"
    groups({f"{folder}/cpu.stat": f"nr_throttled 3\n{name} {int(7 * unit)}"}, own)
    load = HostLoad()
    load.start()
    groups({f"{folder}/cpu.stat": f"nr_throttled 9\n{name} {int(9 * unit)}"}, own)
    (flag,) = quiet_flags(load.stop(), SETTINGS, "cpu")
    assert flag.name == HELD_BACK
    assert HELD_BACK in DISTURBING
    assert quiet_flags(HostReading(0.0, 0.0, 0.001), SETTINGS, "cpu") == []


@pytest.mark.parametrize(
    ("files", "own", "limit", "free"),
    [
        ({"job/memory.max": "1000000000", "job/memory.current": "400000000"}, "0::/job/step", 10**9, 6 * 10**8),
        (
            {"memory.max": "max", "a/memory.max": "3000000", "a/memory.current": "3000000",
             "a/memory.stat": "inactive_file 1000000"},
            "0::/a", 3 * 10**6, 10**6,
        ),
        ({"a/memory.max": "max", "a/memory.high": "2000000", "a/memory.current": "0"}, "0::/a", 2 * 10**6, 2 * 10**6),
        ({"memory/memory.limit_in_bytes": "5000000", "memory/memory.usage_in_bytes": "9"}, "", 5 * 10**6, 4999991),
        ({"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "1"}, "", None, None),
    ],
)  # fmt: skip
def test_memory_ends_at_the_tightest_group(
    files: dict[str, str], own: str, limit: int | None, free: int | None, groups
) -> None:
    groups(files, own)
    assert control_group.memory_limit() == limit
    if limit is not None:
        assert machine.memory_bytes() == limit
        assert CpuDevice(1, []).bytes_free() == free
    else:
        assert control_group.memory_free() is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core there is nothing to share out")
def test_threads_of_numpys_library_have_a_core_each() -> None:
    code = (
        "import os; from pathlib import Path; from roofexp.devices.cpu.device import CpuDevice\n"
        "CpuDevice(2, [])\n"
        "others = [int(task.name) for task in Path('/proc/self/task').iterdir() if int(task.name) != os.getpid()]\n"
        "print([sorted(os.sched_getaffinity(thread)) for thread in others])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=worker_environment("cpu:2"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"[[{cores_in_use(2)[1]}]]"
