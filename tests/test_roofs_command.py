"""``python -m roofexp.roofs`` and what stands behind it: table, sustained load, checks, and when nothing is opened."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hydra import compose, initialize_config_dir

from roofexp.commands import run_command
from roofexp.commands.roofs import devices, present
from roofexp.config.paths import conf_folder
from roofexp.config.plain import plain
from roofexp.config.schema import register
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel
from roofexp.measure.bench import Reply, Request
from roofexp.placing.limits import card_of
from roofexp.records.clock_readings import ClockReadings
from roofexp.records.machine import Machine, Roof, RoofCheck, RoofSet, Sustained
from roofexp.records.point import Clock, Timing
from roofexp.records.samples import Samples
from roofexp.roofs.assembly import assemble, with_checks
from roofexp.roofs.benchmark import (
    LOOKS,
    Benchmark,
    Outcome,
    kernel_of,
    levels_of,
    measure_sustained,
    plan,
    planned_precisions,
)
from roofexp.roofs.machine_lookup import RoofSession, known_machine_id, roofs_config
from roofexp.roofs.precompile import (
    BenchmarkKernel,
    compile_item,
    instruction_check,
    look_at,
    parse_disassembly,
)
from roofexp.roofs.store import RoofStore, code_version, kernel_files, whole_levels
from roofexp.roofs.table import print_roofs, row
from tests.test_roofs import Runs, outcome
from tests.test_timing import SETTINGS

main = partial(run_command, "roofs")

HZ = 1.98e9
H200 = Machine(
    machine_id="gpu-1", device="cuda", name="NVIDIA H200", units=132, nominal_hz=HZ, memory_bytes=None,
    cache_bytes={"l1": 30_000_000, "l2": 62_914_560}, kept_levels=["l2"], details={"architecture": "9.0"},
    limits={
        "flop_per_cycle_fp32": 256.0, "flop_per_cycle_fp16": 512.0, "flop_per_cycle_fp16_tensor": 4096.0,
        "flop_per_cycle_fp16_tensor_fp16_accumulate": 4096.0, "dram_bytes_per_s": 4.8143e12,
    },
)  # fmt: skip
CUDA = roofs_config([conf_folder()])["cuda"]


def benchmarks(*precisions: str, extra: bool = True) -> dict[str, Benchmark]:
    return {b.name: b for precision in precisions for b in plan(CUDA, precision, levels_of(H200), extra)}


def gpu_outcome(name: str, rate: float, precision: str = "fp16") -> Outcome:
    return Outcome(benchmark=benchmarks(precision)[name], rate=rate, compute_hz=HZ)


# the plan


def test_every_benchmark_of_the_gpu_is_a_kernel_that_can_be_built() -> None:
    for benchmark in benchmarks(*planned_precisions(CUDA, extra=True)).values():
        kernel = kernel_of(benchmark, H200, [conf_folder()])
        assert kernel.work.flops or kernel.work.dram_bytes or benchmark.kind == "launch"


def test_sweeps_wait_for_fewer_benchmarks_than_the_command_measures() -> None:
    short, all_of_them = benchmarks("fp16", extra=False), benchmarks("fp16")
    assert "dram strided" not in short
    assert "fp16 library gemm" not in short
    assert {"dram strided", "dram misaligned", "dram one SM", "l2 far", "fp16 library gemm"} <= set(all_of_them)
    assert planned_precisions(CUDA, extra=False) == ["fp64", "fp32", "fp16", "bf16", "tf32", "fp8", "int8"]
    assert "int32" in planned_precisions(CUDA, extra=True)


def test_kernels_instructions_and_pipes_may_differ_by_precision() -> None:
    assert benchmarks("fp8")["fp8 library gemm"].kernel == "gemm_fp8"
    assert benchmarks("fp64")["fp64 library gemm"].kernel == "gemm"
    assert benchmarks("int8")["int8 tensor"].instruction == "IGMMA"


def test_every_percentage_that_ncu_is_asked_for_is_a_rate_of_its_peak() -> None:
    for precision in planned_precisions(CUDA, extra=True):
        for benchmark in benchmarks(precision).values():
            assert benchmark.pipe is None or benchmark.pipe.endswith(".sum.pct_of_peak_sustained_elapsed")


# what is made of results


def test_a_bandwidth_ceiling_stands_beside_the_envelope() -> None:
    entries = [gpu_outcome("dram read", 4.5e12), gpu_outcome("dram write", 4.6e12), gpu_outcome("dram strided", 0.6e12)]
    roofs = RoofSet(
        machine=H200, clock_mode="observe", code_version="1", measured="", seconds=0.0, roofs=assemble(entries, H200)
    )
    dram = roofs.bandwidth("dram")
    assert dram
    assert dram.mixes == {"read": 4.5e12, "write": 4.6e12}
    assert dram.sheet == 4.8e12
    assert [(c.name, c.cause) for c in roofs.ceilings("dram")] == [("dram strided", "4 bytes used of every 32")]


def test_a_ceiling_of_a_mix_is_compared_with_that_mix_and_claims_no_cause_when_it_is_not_below() -> None:
    mixes = [gpu_outcome("l2 read", 8.5e12), gpu_outcome("l2 triad", 10.4e12)]
    far, _ = sorted(assemble([*mixes, gpu_outcome("l2 far", 8.0e12)], H200), key=lambda roof: roof.rate)
    assert far.cause == "every SM reads 0.8 of L2, from both partitions where there are two"
    roofs = assemble(mixes, H200)
    (above,) = assemble([gpu_outcome("l2 far", 8.84e12)], H200, roofs)
    assert str(above.cause).startswith("not below the read roof: no loss seen where every SM reads")
    assert row(above, roofs[0])["of roof"] == "104.0 %"


def test_a_ceiling_above_the_limit_says_that_the_clock_moved() -> None:
    roofs = assemble([gpu_outcome("fp16 tensor", 1000e12)], H200)
    gemm = gpu_outcome("fp16 library gemm", 950e12)
    slow = msgspec.structs.replace(gemm, compute_hz=950e12 / 132 / 4096 / 1.005)
    (ceiling,) = assemble([slow], H200, roofs)
    assert ceiling.incomplete is None
    assert [check.message for check in ceiling.checks] == [
        "0.5 % above what the units can do at the clock read: it moved meanwhile"
    ]
    (wrong,) = assemble([msgspec.structs.replace(gemm, compute_hz=1.6e9)], H200, roofs)
    assert "clock or table of rates is wrong" in str(wrong.incomplete)


def test_the_librarys_product_is_a_ceiling_of_the_highest_roof_also_when_it_comes_later() -> None:
    first = assemble([gpu_outcome("fp16 fma", 130e12), gpu_outcome("fp16 tensor", 900e12)], H200)
    (gemm,) = assemble([gpu_outcome("fp16 library gemm", 700e12)], H200, first)
    assert gemm.ceiling_of == "fp16 tensor"


def test_sums_in_fp16_are_another_roof_and_not_that_of_fp16() -> None:
    roofs = assemble([gpu_outcome("fp16 tensor", 900e12), gpu_outcome("fp16 tensor fp16 sums", 1000e12)], H200)
    made = RoofSet(machine=H200, clock_mode="observe", code_version="1", measured="", seconds=0.0, roofs=roofs)
    assert made.compute("fp16") is roofs[0]
    assert roofs[1].precision == "fp16 with fp16 sums"
    assert roofs[1].limit == 132 * 4096 * HZ


def test_a_data_sheet_belongs_to_the_card_that_the_driver_names_exactly() -> None:
    (roof,) = assemble([gpu_outcome("fp16 tensor", 900e12)], H200)
    assert roof.sheet == 132 * 4096 * 1.83e9
    other = msgspec.structs.replace(H200, name="NVIDIA H200 NVL")
    assert assemble([gpu_outcome("fp16 tensor", 900e12)], other)[0].sheet is None
    assert card_of("Tesla V100-SXM2-32GB") is not None


def test_checks_replace_those_of_the_same_name_and_a_failed_one_says_why() -> None:
    (roof,) = assemble([gpu_outcome("fp16 fma", 130e12)], H200)
    assert [(check.name, check.passed) for check in roof.checks] == [("limit", True)]
    failed = with_checks(roof, [RoofCheck(name="instructions", passed=False, message="no HFMA2 of 9")])
    assert failed.incomplete == "instructions: no HFMA2 of 9"
    assert with_checks(failed, [RoofCheck(name="instructions", passed=True)]).incomplete is None


def test_a_level_that_was_interrupted_is_not_kept() -> None:
    read, write = gpu_outcome("dram read", 4.5e12), benchmarks("fp16")["dram write"]
    fma = gpu_outcome("fp16 fma", 130e12)
    assert whole_levels([fma, read], [fma.benchmark, read.benchmark, write]) == [fma]
    assert whole_levels([fma, read], [fma.benchmark, read.benchmark]) == [fma, read]


# the store


def cuda_store(folder: Path, **config: object) -> RoofStore:
    entries = {name: CUDA[name] for name in ("fma", "tensor", "library_gemm", "launch")}
    values = {"policy": "measure", "budget_s": 0.1, "fill": "normal", "cuda": entries}
    machine = msgspec.structs.replace(H200, details={})  # no architecture: nothing is compiled ahead
    return RoofStore(folder, machine, "observe", {**values, **config}, [conf_folder()])


def ensured(store: RoofStore, extra: bool = False) -> list[str]:
    runs = Runs()
    store.measure(store.missing(store.benchmarks(["fp16"], extra)), SETTINGS, runs, lambda line: None)
    return runs.asked


def test_cached_finds_what_measure_left_and_other_fills_lie_beside(tmp_path: Path) -> None:
    assert ensured(cuda_store(tmp_path)) == ["cuda_fma fp16", "cuda_wgmma fp16", "empty fp32"]
    assert cuda_store(tmp_path, policy="cached").missing(cuda_store(tmp_path).benchmarks(["fp16"])) == []
    assert len(ensured(cuda_store(tmp_path, fill="zeros"))) == 3
    assert {file.name for file in tmp_path.glob("*.json")} == {"gpu-1_observe.json", "gpu-1_observe_zeros.json"}


def test_a_sweep_and_the_command_keep_their_roofs_under_one_version() -> None:
    register()
    with initialize_config_dir(str(conf_folder()), version_base=None):
        composed = plain(compose("config", overrides=["timing=quick"]))["roofs"]
        cached = plain(compose("config", overrides=["roofs=cached"]))["roofs"]
    folders = [conf_folder()]
    assert code_version(composed, folders) == code_version(roofs_config(folders), folders)
    assert code_version(cached, folders) == code_version(roofs_config(folders), folders)


def test_the_version_covers_headers_the_kernels_of_the_list_and_how_they_are_loaded(tmp_path: Path) -> None:
    user = tmp_path / "conf"
    (user / "kernel").mkdir(parents=True)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mine.cu").write_text('#include "mine.cuh"\n')
    (tmp_path / "kernels" / "mine.cuh").write_text("// first")
    (user / "kernel" / "mine.yaml").write_text("name: mine\ncuda: {source: mine.cu}\n")
    config = {"cuda": {"mine": {"kind": "compute", "kernel": {"fp32": "mine"}}}}
    versions = [code_version(config, [user])]
    for file in ("kernels/mine.cuh", "kernels/mine.cu", "conf/kernel/mine.yaml"):
        with (tmp_path / file).open("a") as text:
            text.write("\n# changed\n")
        versions.append(code_version(config, [user]))
    assert len(set(versions)) == 4


def test_the_version_covers_the_common_headers_and_the_library_product() -> None:
    files = {file.name for file in kernel_files(roofs_config([conf_folder()]), [conf_folder()])}
    assert {"vector.cuh", "common.cuh", "grid.cuh", "reduce.cuh", "gemm.yaml", "stream.cu", "stream.py"} <= files


def test_what_no_sweep_waits_for_is_kept_but_not_shown_to_sweeps(tmp_path: Path) -> None:
    store = cuda_store(tmp_path)
    ensured(store, extra=True)
    assert "fp16 library gemm" in {roof.name for roof in store.set.roofs}
    assert {roof.name for roof in store.for_sweeps().roofs} == {"fp16 fma", "fp16 tensor", "launch"}


def test_forgotten_roofs_are_measured_again_and_only_those(tmp_path: Path) -> None:
    store = cuda_store(tmp_path)
    ensured(store)
    store.forget([benchmarks("fp16")["fp16 tensor"]])
    assert ensured(store) == ["cuda_wgmma fp16"]
    assert len(cuda_store(tmp_path).set.roofs) == 3


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    class Stopped(Runs):
        def __call__(self, request: Request) -> Reply:
            if self.asked:
                raise KeyboardInterrupt
            return super().__call__(request)

    store = cuda_store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        store.measure(store.benchmarks(["fp16"]), SETTINGS, Stopped(), lambda line: None)
    assert ensured(cuda_store(tmp_path)) == ["cuda_wgmma fp16", "empty fp32"]


# sustained load


class Load:
    """A worker whose kernel slows down by ``drifts`` over each look."""

    def __init__(self, *drifts: float) -> None:
        self.drifts, self.asked = list(drifts), []

    def __call__(self, request: Request) -> Reply:
        self.asked.append(request.timing)
        drift = self.drifts.pop(0)
        times = [0.01 * (1 + drift * i / 29) for i in range(30)]
        timing = Timing(
            median_s=times[15], p5_s=times[1], p95_s=times[-2], low_s=times[14], high_s=times[16], samples=30,
            launches_per_sample=5, warmup_s=1.0, floor_s=None, method="events",
        )  # fmt: skip
        readings = ClockReadings(power_w=699.0, event_reasons="sw_power_cap")
        samples = Samples(times, [0.05 * i for i in range(30)], 5)
        return Reply(status="ok", timing=timing, samples=samples, clock=Clock(compute_hz=1.42e9, readings=readings))


def wgmma() -> Kernel:
    return kernel_of(benchmarks("bf16")["bf16 tensor"], H200, [conf_folder()])


def test_load_goes_on_until_the_rate_stands_still() -> None:
    run = Load(0.08, 0.001)
    found = measure_sustained(wgmma(), SETTINGS, run, {"mode": "observe"})
    assert found
    assert found.settled
    assert len(run.asked) == 2
    assert found.power_w == 699.0
    assert found.compute_hz == 1.42e9
    assert found.event_reasons == "sw_power_cap"
    assert found.rate == pytest.approx(wgmma().work.flops / 0.01, rel=0.01)
    assert found.seconds < 5


def test_a_rate_that_does_not_stand_still_is_told() -> None:
    found = measure_sustained(wgmma(), SETTINGS, Load(*[0.08] * LOOKS), {"mode": "observe"})
    assert found
    assert not found.settled


def test_a_kernel_that_cannot_run_has_no_sustained_rate() -> None:
    assert measure_sustained(wgmma(), SETTINGS, lambda request: Reply(status="failed"), {}) is None


def test_only_measured_roofs_that_ask_for_it_are_put_under_load(tmp_path: Path) -> None:
    store = cuda_store(tmp_path)
    ensured(store)
    wanted = store.without_sustained(store.benchmarks(["fp16"], extra=True))
    assert [benchmark.name for benchmark in wanted] == ["fp16 fma", "fp16 tensor"]
    store.sustain(wanted, SETTINGS, Load(0.0, 0.0), lambda line: None)
    again = cuda_store(tmp_path)
    assert [roof.sustained is not None for roof in again.set.roofs] == [True, True, False]
    assert again.without_sustained(again.benchmarks(["fp16"], extra=True)) == []


# checks


SASS = """
.text.fma_chains:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   HFMA2.MMA R4, R2, R4, R6 ;
        /*0020*/                   HFMA2 R5, R2, R5, R6 ;
        /*0030*/                   HFMA2 R7, R2, R7, R6 ;
        /*0040*/              @!P0 BRA `(.L_x_1) ;
"""


def test_the_instruction_mix_of_the_loop() -> None:
    blocks = parse_disassembly(SASS)["fma_chains"]
    check = instruction_check(blocks, "HFMA2", 0.7)
    assert check.passed
    assert check.found == 0.75
    assert check.message == "2 HFMA2, 1 HFMA2.MMA of 4 instructions in the loop"
    assert not instruction_check(blocks, "HFMA2", 0.97).passed
    assert not instruction_check(blocks, "DFMA", 0.0).passed


@pytest.mark.parametrize(
    "name", ["fp64 fma", "bf16 fma", "bf16 tensor", "int8 tensor", "int32 imad", "fp64 tensor fp64"]
)
def test_the_roofs_own_machine_code_passes_the_check(name: str, cache_folder: Path) -> None:
    from roofexp.config.paths import kernel_roots

    benchmark = benchmarks(name.split()[0])[name]
    item = BenchmarkKernel(benchmark, kernel_of(benchmark, H200, [conf_folder()]))
    cubin = compile_item(item, "sm_90", kernel_roots([conf_folder()]), cache_folder / "cubin")
    assert cubin
    check = look_at(item, cubin)
    assert check
    assert check.passed, check.message
    if item.kernel.implementations["cuda"].get("arch"):
        assert compile_item(item, "sm_80", kernel_roots([conf_folder()]), None) is None


# the command


def made_set() -> RoofSet:
    names = (
        "fp32 fma",
        "fp32 without unrolling",
        "fp32 one chain",
        "dram read",
        "dram write",
        "dram strided",
        "launch",
    )
    rates = (66e12, 52e12, 13e12, 4.5e12, 4.6e12, 0.6e12, 7e-7)
    roofs = assemble([gpu_outcome(name, rate, "fp32") for name, rate in zip(names, rates, strict=True)], H200)
    load = Sustained(
        rate=60e12, compute_hz=1.8e9, power_w=640.0, settled=False, seconds=4.5, event_reasons="sw_power_cap"
    )
    roofs[0] = msgspec.structs.replace(roofs[0], sustained=load)
    return RoofSet(
        machine=H200, clock_mode="observe", code_version="1", measured="2026-01-01", seconds=9.0, roofs=roofs,
        unavailable={"fp8 tensor": "needs compute capability 9.0"},
    )  # fmt: skip


def test_the_table_names_every_denominator(capsys: pytest.CaptureFixture[str]) -> None:
    print_roofs([made_set()])
    said = capsys.readouterr().out
    rows, loaded = said.split("Under load without a pause")
    lines = {line.split("  ")[0].strip(): line for line in rows.splitlines()}
    lines |= {line.strip().split("  ")[0]: line for line in rows.splitlines() if "└" in line}
    assert lines["fp32 fma"].count("98.6 %") == 2  # of the limit and, at the same clock, of the data sheet
    assert "95.8 %" in lines["dram (write)"]
    assert "13 %" in lines["└ 4 bytes used of every 32"]
    assert rows.index("fp32 fma") < rows.index("└ loop counter") < rows.index("└ one dependent") < rows.index("dram (")
    for word in ("60 TFLOP/s", "90.9 %", "1800 MHz", "640 W", "sw power cap, not settled after 4.5 s"):
        assert word in loaded
    assert "fp8 tensor could not be measured: needs compute capability 9.0" in said
    for word in ("of limit", "of sheet", "of roof", "clock held", "per SM, cycle"):
        assert word in rows


def test_more_than_in_bursts_has_its_reason_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    made = made_set()
    load = Sustained(
        rate=66.8e12, compute_hz=1.99e9, power_w=640.0, settled=True, seconds=3.0, event_reasons="none sw_power_cap"
    )
    faster = msgspec.structs.replace(made.roofs[0], sustained=load)
    print_roofs([msgspec.structs.replace(made, roofs=[faster, *made.roofs[1:]])])
    said = capsys.readouterr().out
    assert "101.2 %" in said
    assert "sw power cap, above the bursts: they held 1980 MHz" in said
    assert "none" not in said


def test_several_sets_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    halves = [msgspec.structs.replace(roof, rate=roof.rate / 2) for roof in made_set().roofs]
    print_roofs([made_set(), msgspec.structs.replace(made_set(), roofs=halves)], file=None)
    said = capsys.readouterr().out
    assert "Side by side" in said
    assert "33 TFLOP/s (x0.5)" in said


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """The command with a CPU that nobody has to wait for."""
    from roofexp.devices.cpu.machine import describe_cpu

    runs = Runs()
    monkeypatch.setattr(RoofSession, "_open", lambda self, alone=False: describe_cpu(int(self._device.split(":")[1])))
    monkeypatch.setattr(RoofSession, "_run", lambda self, request: runs(request))
    return runs


def test_the_second_call_opens_no_device_and_measures_nothing(
    quiet: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--device", "cpu:1", "--precision", "fp32", "--outputs", str(tmp_path)]
    assert main(words) == 0
    first = len(quiet.asked)
    assert first > 10
    monkeypatch.setattr(RoofSession, "_open", lambda self: pytest.fail("a device was opened"))
    assert main([*words, "--json"]) == 0
    assert len(quiet.asked) == first
    out = capsys.readouterr().out
    (found,) = json.loads(out[out.index("[\n") :])
    assert {"fp32 fma", "launch"} <= {roof["name"] for roof in found["roofs"]}


def test_thread_counts_have_roofs_of_their_own(quiet: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--threads", "1", "--precision", "fp32", "--outputs", str(tmp_path)]) == 0
    assert "1 core " in capsys.readouterr().out
    (file,) = (tmp_path / "roofs").glob("*.json")
    assert file.name.startswith(str(known_machine_id("cpu:1")))


def test_what_cannot_be_is_one_line(quiet: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "cpu:1", "--outputs", str(tmp_path)]
    assert main([*words, "--precision", "fp8"]) == 2
    assert "roofs of this device are fp64, fp32" in capsys.readouterr().err
    assert main([*words, "--cached"]) == 2
    assert "no roofs of" in capsys.readouterr().err
    assert main(["--threads", "1,x"]) == 2
    assert "like 1,2,4" in capsys.readouterr().err
    assert main(["--device", "tpu"]) == 2
    with pytest.raises(BadInputError, match=r"no roofs/measure\.yaml in"):
        roofs_config([tmp_path])


def test_devices_of_the_options() -> None:
    import argparse

    assert devices(argparse.Namespace(threads="1,2", device="auto")) == ["cpu:1", "cpu:2"]
    assert devices(argparse.Namespace(threads=None, device="cuda:0,cuda:1")) == ["cuda:0", "cuda:1"]


def test_more_cores_than_there_are_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofexp.devices.cpu.machine.cores_in_use", lambda asked: [0, 1])
    said: list[str] = []
    assert present(["cpu:1", "cpu:64", "cuda:1"], said.append) == ["cpu:1", "cuda:1"]
    assert said == ["left out: cpu:64 asks for 64 cores, 2 are here"]
    with pytest.raises(BadInputError, match="cpu:64 asks for 64 cores, 2 are here"):
        present(["cpu:64"], said.append)


def test_a_cpu_has_no_counters_and_says_so(quiet: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "cpu:1", "--precision", "fp32", "--outputs", str(tmp_path), "--count"]
    assert main(words) == 0
    assert "counters: --count reads those of a GPU" in capsys.readouterr().err


def test_a_roof_without_a_limit_has_no_check() -> None:
    (roof,) = assemble([outcome("compute", 1e9, name="x", counts_as="new")], msgspec.structs.replace(H200, limits={}))
    assert isinstance(roof, Roof)
    assert roof.checks == []
