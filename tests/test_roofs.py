"""Roofs from benchmarks: envelopes, ceilings, self-checks, and when they are measured again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roofexp.config.paths import conf_folder
from roofexp.config.settings import TimingSettings
from roofexp.errors import BadInputError
from roofexp.kernel.load import load_kernel
from roofexp.measure.bench import Reply, Request
from roofexp.measure.host_load import NOT_QUIET
from roofexp.records.machine import Machine, Roof, RoofSet
from roofexp.records.point import Clock, Flag, Timing
from roofexp.records.samples import Samples
from roofexp.roofs.assembly import assemble
from roofexp.roofs.benchmark import Benchmark, Outcome, plan
from roofexp.roofs.store import RoofStore, _measured_here, notice
from tests.test_timing import SETTINGS

MACHINE = Machine(
    machine_id="m1", device="cpu", name="test", units=2, nominal_hz=None, memory_bytes=None,
    cache_bytes={"l1": 2**16, "l2": 2**20}, kept_levels=["l1", "l2"], limits={"flop_per_cycle_fp32": 32.0},
)  # fmt: skip


def outcome(kind: str, rate: float | None, hz: float = 1e9, **fields: object) -> Outcome:
    benchmark = Benchmark(name=str(fields.pop("name", "x")), kind=kind, kernel="k", precision="fp32", **fields)
    return Outcome(benchmark=benchmark, rate=rate, compute_hz=hz, problem=None if rate else "out of memory")


def bandwidth(mixes: dict[str, float | None]) -> Roof:
    (roof,) = assemble([outcome("bandwidth", rate, level="dram", mix=mix) for mix, rate in mixes.items()], MACHINE)
    return roof


def test_a_bandwidth_roof_is_the_envelope_of_its_mixes() -> None:
    roof = bandwidth({"copy": 3.20e12, "triad": 3.30e12, "read": 3.70e12, "write": 3.50e12})
    assert roof.rate == 3.70e12
    assert roof.mixes["triad"] == 3.30e12
    assert roof.incomplete is None
    assert 3.55e12 / roof.rate == pytest.approx(0.959, abs=0.001)


def test_a_missing_mix_makes_the_roof_incomplete_not_lower_in_silence() -> None:
    roof = bandwidth({"triad": 3.30e12, "read": None})
    assert roof.rate == 3.30e12
    assert roof.incomplete == "not measured: read (out of memory)"


def test_a_compute_roof_is_kept_per_cycle_with_its_limit() -> None:
    (roof,) = assemble([outcome("compute", 60e9)], MACHINE)
    assert roof.per_cycle == 30.0
    assert roof.limit == 64e9
    assert roof.incomplete is None
    assert roof.at(2e9) == 120e9


@pytest.mark.parametrize(("rate", "telling"), [(50e9, "only 78 %"), (70e9, "109 %")])
def test_a_roof_that_fails_its_check_says_so(rate: float, telling: str) -> None:
    (roof,) = assemble([outcome("compute", rate)], MACHINE)
    assert telling in str(roof.incomplete)


def test_benchmarks_follow_the_precision_and_the_levels_of_the_machine() -> None:
    entries = {
        "fma": {"kind": "compute", "kernel": "roofs/fma", "precisions": ["fp64", "fp32"]},
        "one_thread": {"kind": "compute", "kernel": "roofs/fma", "precisions": ["fp64"], "ceiling_of": "fma"},
        "l3_read": {"kind": "bandwidth", "level": "l3", "mix": "read", "kernel": "roofs/read"},
        "launch": {"kind": "launch", "kernel": "roofs/empty", "precision": "fp64"},
    }
    assert [b.name for b in plan(entries, "fp32", {"dram", "l1"})] == ["fp32 fma", "launch"]
    assert [b.ceiling_of for b in plan(entries, "fp64", {"dram", "l3"})] == [None, "fp64 fma", None, None]
    with pytest.raises(BadInputError, match="conf/roofs: fma"):
        plan({"fma": {"kind": "compute", "kernel": "roofs/fma", "precisions": ["fp64"], "sise": 3}}, "fp64", set())


def store(folder: Path, machine: Machine = MACHINE, **config: object) -> RoofStore:
    values = {"policy": "measure", "budget_s": 0.1, "cpu": {
        "fma": {"kind": "compute", "kernel": "roofs/fma", "precisions": ["fp64", "fp32"]},
        "launch": {"kind": "launch", "kernel": "roofs/empty", "precision": "fp64"},
    }}  # fmt: skip
    return RoofStore(folder, machine, "observe", {**values, **config}, [conf_folder()])


class Runs:
    """Stands in for the worker; counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Reply:
        self.asked.append(f"{request.kernel.name} {request.kernel.precision}")
        timing = Timing(
            median_s=0.01, p5_s=0.01, p95_s=0.01, low_s=0.01, high_s=0.01, samples=10, launches_per_sample=1,
            warmup_s=0.0, floor_s=None, method="",
        )  # fmt: skip
        return Reply(status="ok", timing=timing, clock=Clock(compute_hz=1e9))


def ensure(found: RoofStore, precision: str, timing: TimingSettings = SETTINGS) -> list[str]:
    runs = Runs()
    found.ensure(precision, timing, runs, lambda line: None)
    return runs.asked


def test_roofs_are_measured_once_and_again_when_something_changed(tmp_path: Path) -> None:
    first = store(tmp_path)
    assert ensure(first, "fp32") == ["fma fp32", "empty fp64"]
    assert ensure(first, "fp32") == []
    assert ensure(store(tmp_path), "fp32") == []
    assert ensure(store(tmp_path), "fp64") == ["fma fp64"]
    assert len(ensure(store(tmp_path, budget_s=0.2), "fp32")) == 2
    other = Machine(machine_id="m2", device="cpu", name="o", units=1, nominal_hz=None, memory_bytes=None)
    assert len(ensure(store(tmp_path, machine=other), "fp32")) == 2


def test_a_clock_that_falls_during_the_samples_does_not_raise_the_rate_per_cycle(tmp_path: Path) -> None:
    """A burst begins at 2.0 GHz and ends at 1.6: the clock read is the mean, and so must be the time."""
    gpu = Machine(
        machine_id="g", device="cuda", name="g", units=10, nominal_hz=2e9, memory_bytes=None,
        limits={"flop_per_cycle_fp32": 256.0},
    )  # fmt: skip

    def run(request: Request) -> Reply:
        cycles = request.kernel.work.flops / (256 * 10)  # the units do all they can in every cycle
        times = [cycles / hz for hz in [2.0e9] * 5 + [1.6e9] * 5]
        mean_hz = 10 * cycles / sum(times)
        timing = Timing(
            median_s=times[5], p5_s=times[0], p95_s=times[-1], low_s=times[0], high_s=times[-1], samples=10,
            launches_per_sample=1, warmup_s=0.0, floor_s=None, method="",
        )  # fmt: skip
        samples = Samples(times, [float(index) for index in range(10)], 1)
        return Reply(status="ok", timing=timing, samples=samples, clock=Clock(compute_hz=mean_hz))

    entry = {"kind": "compute", "kernel": "roofs/cuda_fma", "precisions": ["fp32"], "size": "1024*units"}
    found = store(tmp_path, machine=gpu, cuda={"fma": entry})
    found.ensure("fp32", SETTINGS, run, lambda line: None)
    (roof,) = found.set.roofs
    assert roof.per_cycle == pytest.approx(256)
    assert roof.incomplete is None


def test_a_second_sweep_knows_what_it_saves(tmp_path: Path) -> None:
    ensure(store(tmp_path), "fp32")
    assert store(tmp_path).saved_s > 0


def test_cached_measures_nothing_and_off_gives_nothing(tmp_path: Path) -> None:
    assert ensure(store(tmp_path, policy="cached"), "fp32") == []
    assert store(tmp_path, policy="off").ensure("fp32", SETTINGS, Runs(), lambda line: None) is None


def test_a_damaged_store_is_measured_again(tmp_path: Path) -> None:
    ensure(store(tmp_path), "fp32")
    (file,) = tmp_path.glob("*.json")
    file.write_text(file.read_text()[:100])
    assert len(ensure(store(tmp_path), "fp32")) == 2


def test_every_benchmark_of_the_cpu_is_a_kernel_that_can_be_built() -> None:
    import yaml

    entries = yaml.safe_load((conf_folder() / "roofs/measure.yaml").read_text())["cpu"]
    benchmarks = [b for p in ("fp64", "fp32") for b in plan(entries, p, {"l1", "l2", "l3", "dram"})]
    assert {b.level for b in benchmarks if b.kind == "bandwidth"} == {"l1", "l2", "l3", "dram"}
    for benchmark in benchmarks:
        kernel = load_kernel(benchmark.kernel, [conf_folder()], benchmark.precision, None, benchmark.params, "normal")
        assert kernel.work.flops or kernel.work.dram_bytes or benchmark.kind == "launch"


def test_only_the_roofs_that_were_disturbed_are_measured_again(tmp_path: Path) -> None:
    class OnceBusy(Runs):
        def __call__(self, request: Request) -> Reply:
            reply = super().__call__(request)
            busy = "fma" in request.kernel.name
            return msgspec.structs.replace(reply, flags=[Flag(NOT_QUIET, "others took 50 %")]) if busy else reply

    store(tmp_path).ensure("fp32", SETTINGS, OnceBusy(), lambda line: None)
    _measured_here.clear()  # the next sweep
    again = store(tmp_path)
    assert {roof.name for roof in again.set.roofs} == {"launch"}
    assert again.saved_s == 0  # nobody is told that measuring was saved where it is done again
    assert ensure(again, "fp32") == ["fma fp32"]
    _measured_here.clear()
    assert ensure(store(tmp_path), "fp32") == []


def test_roofs_of_a_busy_machine_are_not_kept(tmp_path: Path) -> None:
    class Busy(Runs):
        def __call__(self, request: Request) -> Reply:
            return msgspec.structs.replace(super().__call__(request), flags=[Flag(NOT_QUIET, "others took 50%")])

    said: list[str] = []
    first, runs = store(tmp_path), Busy()
    assert first.ensure("fp32", SETTINGS, runs, said.append) is not None
    assert any("disturbed while they were measured" in line for line in said)
    assert ensure(first, "fp32") == []  # the sweep that measured them goes on with them
    # also when it comes back to this device from another: both precisions are there, none was measured twice
    assert ensure(store(tmp_path), "fp64") == ["fma fp64"]
    assert {roof.name for roof in store(tmp_path).set.roofs} == {"fp32 fma", "fp64 fma", "launch"}
    _measured_here.clear()  # the next sweep
    assert "fp32 fma" in {roof.name for roof in store(tmp_path, policy="cached").set.roofs}
    assert len(ensure(store(tmp_path), "fp32")) == 2
    _measured_here.clear()
    assert ensure(store(tmp_path), "fp32") == []


def test_before_roofs_are_measured_it_is_said_how_many_and_how_long() -> None:
    entries = {b.name: b for b in [bench("fma"), bench("copy", level="dram"), bench("read", level="l1")]}
    missing = list(entries.values())
    assert notice(missing, "cpu", None, "v") == "measuring 3 roofs of this machine, about 14 s; they are kept"
    assert notice(missing[:1], "cpu", None, "v") is None  # done before anybody wonders
    kept = RoofSet(
        machine=MACHINE, clock_mode="observe", code_version="v", measured="", seconds=9.0, disturbed=True,
        took_s={"fma": 1.0, "copy": 30.0}, roofs=[Roof(name="fma", kind="compute", precision="fp32", rate=1e9)],
    )  # fmt: skip
    again = notice(missing, "cpu", kept, "v")
    assert again
    assert again.startswith(
        "measuring 3 roofs of this machine again, about 32 s: other programs or a quota disturbed the last"
    )
    assert "roofs=cached takes them" in again
    changed = notice(missing, "cpu", kept, "w")
    assert changed
    assert "cached" not in changed
    assert notice(missing, "cuda", None, "v") == "measuring 3 roofs of this machine, about 3 s; they are kept"


def bench(name: str, level: str | None = None) -> Benchmark:
    return Benchmark(name=name, kind="bandwidth" if level else "compute", kernel="k", precision="fp32", level=level)


def test_a_ceiling_whose_roof_is_not_there_is_the_roof() -> None:
    """mma.sync on a GPU without wgmma; beside wgmma it stays a ceiling."""
    older = outcome("compute", 50e9, name="fp32 mma", ceiling_of="fp32 tensor", cause="mma.sync instead of wgmma")
    (alone,) = assemble([older], MACHINE)
    assert alone.ceiling_of is None
    assert alone.limit == 64e9
    beside = assemble([outcome("compute", 60e9, name="fp32 tensor"), older], MACHINE)
    assert [roof.ceiling_of for roof in beside] == [None, "fp32 tensor"]
