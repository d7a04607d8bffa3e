"""Points and their diagnosis: the published cases, facts from counts, real captures, planted faults, stored sweeps."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest

from roofexp.commands import run_command
from roofexp.counters.join import counted_point, join
from roofexp.diagnosis.facts import facts_of, vocabulary
from roofexp.diagnosis.rules import read_rules
from roofexp.diagnosis.verdict_table import count_right, expectation_table, write_expectations
from roofexp.placing.roofline import attainable, mix_share, ridge
from roofexp.records.archive import read_sweep_points
from roofexp.records.point import Clock, Counted, CountedKernel, Point, write_point
from roofexp.records.points_table import verdict_columns
from tests.counted_sweep import MACHINE, make_sweep, points_of
from tests.counting_facts import CASES, read_gathered
from tests.diagnosis_cases import H200, OWN_RULE, SETTINGS, rules_file, timed_at
from tests.kernel_cases import CONF, build
from tests.ncu_text import DATA
from tests.recorded_faults import judged_anew


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Point:
    return points_of(make_sweep(tmp_path_factory.mktemp("made") / "sweep", ["kernel=saxpy", "size=67108864"]))[0]


def test_shares_are_of_the_time_that_belongs_with_the_clock(timed: Point) -> None:
    """Half of the launches at half the clock: the mean clock goes with the mean time, at which L1 did the same."""
    assert timed.timing
    counted = Counted(l1_bytes=10**9)
    steady = msgspec.structs.replace(
        timed_at(timed, 0.25, 0.5), counted=counted, clock=Clock(compute_hz=1.5e9, spans_timing=True)
    )
    assert steady.timing
    moved = msgspec.structs.replace(steady, timing=msgspec.structs.replace(steady.timing, median_s=1e-3, mean_s=1.5e-3))
    facts = facts_of(moved, H200, SETTINGS)
    roof = H200.bandwidth("l1")
    assert roof
    assert facts["time_s"] == 1.5e-3
    assert facts["l1_fraction"] == pytest.approx(1e9 / 1.5e-3 / roof.at(1.5e9))


# ------------------------------------------------------------------------------------ the published texts' own numbers


def test_published_intensities() -> None:
    saxpy, dot = build("saxpy", "fp32", 1 << 20).work, build("dot", "fp32", 1 << 20).work
    assert saxpy.flops / saxpy.dram_bytes == pytest.approx(0.17, abs=0.005)
    assert dot.flops / dot.dram_bytes == pytest.approx(0.25, abs=1e-4)
    n = 1024
    for tile in (16, 32, 64):
        elements = (n // tile) ** 3 * 3 * tile * tile  # three tiles for each product of two
        assert 2 * n**3 / (4 * elements) == pytest.approx(tile / 6)


def test_published_ridges_of_two_precisions_and_two_clock_states() -> None:
    bandwidth = 248.7e9
    assert round(ridge(25.3e12, bandwidth)) == 102  # BF16 on tensor cores
    assert round(ridge(12.7e12, bandwidth)) == 51  # FP32
    assert ridge(23.2e12, 188e9) == pytest.approx(124, rel=0.01)  # SM 1890 MHz, memory 5870 MHz
    assert round(ridge(18.6e12, 256e9)) == 73  # SM 1515 MHz, memory 8000 MHz
    # a product of 4096 in BF16 is right of both ridges; saxpy left of both, and no faster in a lower precision
    assert attainable(4096 / 3, 25.3e12, bandwidth) == 25.3e12
    assert attainable(1 / 6, 25.3e12, bandwidth) == attainable(1 / 6, 12.7e12, bandwidth) == bandwidth / 6


@pytest.mark.parametrize(
    ("intensity", "share", "verdict", "healthy", "move"),
    [
        (0.25, 0.5, "below the bandwidth roof", False, "aligned"),  # under the diagonal
        (0.25, 0.95, "on the DRAM roof", True, "raise the intensity"),  # on the diagonal
        (1000.0, 0.5, "below the compute roof", False, "tensor cores"),  # under the horizontal roof
        (1000.0, 0.97, "on the compute roof", True, "stop here"),  # on the roof
    ],
)
def test_the_four_landings(
    timed: Point, intensity: float, share: float, verdict: str, healthy: bool, move: str
) -> None:
    found = timed_at(timed, intensity, share).diagnosis
    assert found is not None
    assert (found.verdict.name, found.verdict.healthy, found.basis) == (verdict, healthy, "time")
    assert move in found.verdict.next_move


def test_far_below_both_roofs_without_counters_asks_to_be_counted(timed: Point) -> None:
    found = timed_at(timed, 1.0, 0.05).diagnosis
    assert found is not None
    assert found.verdict.name == "far below both roofs"
    assert "counters=diagnosis" in found.verdict.next_move


# ------------------------------------------------------------------------------------------------ from counts to facts


def test_facts_of_a_counted_point(timed: Point) -> None:
    counted = Counted(
        level="diagnosis",
        flops=2 * 67108864,
        flops_by_type={"fp32": 2 * 67108864},
        flops_ratio=1.0,
        dram_bytes=3 * 2**28,
        l2_bytes=3 * 2**28,
        l1_bytes=3 * 2**28,
        shared_bytes=0,
        sectors_per_load=32.0,
        sectors_per_store=4.0,
        waves=1.5,
        stalls={"selected": 1.0, "long_scoreboard": 6.0, "wait": 2.0},
        kernels=[CountedKernel(name="saxpy", launches=1)],
        facts={
            "load_sectors": 800.0, "store_sectors": 200.0, "load_bytes_per_sector": 8.0, "store_bytes_per_sector": 32.0,
            "shared_wavefronts": 100.0, "shared_bank_conflicts": 80.0, "shared_asked_bytes": 128 * 50.0,
            "kernel_cycles": 1000.0, "sm_active_cycles": 750.0, "instructions": 10.0,
            "threads_on_per_instruction": 32.0,
            "integer_thread_instructions": 100.0, "bit_thread_instructions": 60.0, "issue_pct": 40.0,
            "fma_pipe_pct": 20.0, "l2_pct": 55.0, "reduction_requests": 10.0, "atomic_requests": 0.0,
            "atomic_unit_pct": 10.0, "kernel_l1_bytes": 1000.0, "local_load_bytes": 100.0, "local_store_bytes": 150.0,
        },
    )  # fmt: skip
    found = facts_of(join(timed, counted, H200, SETTINGS), H200, SETTINGS)
    assert found["load_waste"] == pytest.approx(0.8 * 0.75)
    assert found["store_waste"] == 0
    assert "load_waste_cost" in found
    assert found["coalesced"] == 0
    assert found["conflict_share"] == pytest.approx(0.5)  # by bytes, which is less than by ncu's count of conflicts
    assert found["conflict_ways"] == pytest.approx(2)
    assert found["sm_idle"] == pytest.approx(0.25)
    assert found["tail_share"] == pytest.approx(0.25)
    assert found["integer_share"] == pytest.approx(0.5)
    assert found["atomic_busy"] == pytest.approx(0.1)
    assert found["local_share"] == pytest.approx(0.25)
    assert (found["stall_long_scoreboard"], found["main_stall"]) == (pytest.approx(0.75), "long scoreboard")
    assert "stall_selected" not in found
    assert found["busy"] == found["memory_busy"] == 1.0  # the made time is above the DRAM roof
    assert "conversion_share" not in found
    assert set(found) <= set(vocabulary())


def test_facts_that_were_not_counted_are_absent(timed: Point) -> None:
    basic = join(timed, Counted(level="basic", dram_bytes=3 * 2**28, flops=2**27), H200, SETTINGS)
    found = facts_of(basic, H200, SETTINGS)
    assert found["basis"] == "counters"
    for name in ("idle", "busy", "load_waste", "occupancy_pct", "sm_idle", "main_stall", "conflict_share"):
        assert name not in found, name
    assert basic.diagnosis is not None


CAPTURED = {
    "saxpy": "on the DRAM roof",
    "stream triad": "on the DRAM roof",
    "gemm fp64": "on the compute roof",
    "eager": "extra DRAM traffic",
    "vector": "on the DRAM roof",
    "odd": "too little work",
    "hot": "launch floor",
    "transpose naive": "uncoalesced stores",
    "transpose padded": "no single cause",  # an older capture, without pipes and schedulers
}


def test_captures_of_an_h200_get_sensible_verdicts(tmp_path: Path) -> None:
    launches = read_gathered(DATA / "h200_counted_points.csv.gz")
    made = points_of(make_sweep(tmp_path / "sweep", *(CASES[case] for case in CAPTURED), machine=MACHINE))
    for point, case in zip(made, CAPTURED, strict=True):
        counted = counted_point(point, launches[case], [])
        assert point.timing and point.clock and counted.time_s  # noqa: PT018
        real = msgspec.structs.replace(
            point,
            timing=msgspec.structs.replace(point.timing, median_s=counted.time_s),
            clock=msgspec.structs.replace(point.clock, compute_hz=counted.sm_hz),
        )
        found = join(real, counted, H200, SETTINGS).diagnosis
        assert found is not None
        assert found.verdict.name == CAPTURED[case], (case, found.verdict)


def test_the_dram_roof_of_a_mix_of_reads_and_writes(timed: Point) -> None:
    roof = H200.bandwidth("dram")
    assert roof is not None
    shares = [mix_share(roof, written) * roof.rate for written in (0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0)]
    assert shares == pytest.approx([4.43e12, 4.31e12, 4.27e12, 4.05e12, 4.275e12, 4.5e12])
    assert mix_share(msgspec.structs.replace(roof, mixes={}), 0.5) == 1
    assert mix_share(msgspec.structs.replace(roof, mixes={"copy": 4.05e12}), 0.0) == pytest.approx(0.9)
    copied = facts_of(timed_at(timed, 0.25, 0.8, written=0.5), H200, SETTINGS)  # no counters: by the operands
    assert copied["dram_mix_fraction"] == pytest.approx(0.8 / 0.9)
    assert timed_at(timed, 0.25, 0.8, written=0.5).diagnosis.verdict.name == "on the DRAM roof"  # type: ignore[union-attr]
    assert timed_at(timed, 0.25, 0.8).diagnosis.verdict.name == "below the bandwidth roof"  # type: ignore[union-attr]


def test_the_floor_of_a_launch_is_that_of_its_own_kind_of_timing(timed: Point) -> None:
    assert timed.timing is not None
    alone = msgspec.structs.replace(timed, timing=msgspec.structs.replace(timed.timing, floor_s=3e-6, median_s=4e-6))
    found = facts_of(alone, H200, SETTINGS)
    assert found["floors"] == pytest.approx(4 / 3)


def test_the_least_time_of_a_row_without_compulsory_bytes_is_not_known(timed: Point) -> None:
    assert timed.work and timed.traffic  # noqa: PT018
    work = msgspec.structs.replace(timed.work, dram_bytes=0)
    traffic = msgspec.structs.replace(timed.traffic, source="counted")
    row = msgspec.structs.replace(timed, work=work, traffic=traffic)
    assert "saving" in facts_of(timed, H200, SETTINGS)
    assert "saving" not in facts_of(row, H200, SETTINGS)


# ------------------------------------------------------------------------------------------------------ planted faults


def test_every_planted_fault_is_found_in_the_counters_of_an_h200() -> None:
    points = judged_anew("faults")
    assert len(points) == 38
    assert len({point.expect for point in points}) >= 16
    assert [(point.kernel, point.diagnosis) for point in points if not point.as_expected] == []


LIBRARY = {
    ("copy", "fp32"): "on the DRAM roof",
    ("vadd", "fp32"): "on the DRAM roof",
    ("transpose_padded", "fp32"): "memory latency",
    ("gemv", "bf16"): "registers limit occupancy",
    ("softmax_block", "bf16"): "other instructions",
    ("softmax_online", "bf16"): "other instructions",
    ("rmsnorm_torch", "bf16"): "memory latency",
    ("layernorm_torch", "bf16"): "other instructions",
    ("silu_mul_eager", "bf16"): "extra DRAM traffic",
    ("silu_mul", "bf16"): "on the DRAM roof",
    ("sdpa_prefill", "bf16"): "between matrix products",
    ("sdpa_decode", "bf16"): "on the DRAM roof",
    ("gemm", "fp32"): "other instructions",
    ("gemm", "fp64"): "on the compute roof",
}
PRODUCTS = {256: "launch floor", 512: "launch floor", 1024: "launch floor", 2048: "short launch",
            4096: "on the compute roof", 8192: "on the compute roof"}  # fmt: skip


def test_library_kernels_get_the_verdicts_of_an_expert() -> None:
    points = judged_anew("llm_kernels")
    found = {(point.kernel, point.size, point.precision): point.diagnosis for point in points}
    assert len(found) == len(LIBRARY) + len(PRODUCTS)
    for (kernel, size, precision), diagnosis in found.items():
        assert diagnosis is not None
        wanted = PRODUCTS[size] if kernel == "gemm_torch" else LIBRARY[kernel, precision]
        assert diagnosis.verdict.name == wanted, (kernel, size)
        causes = [cause.name for cause in (diagnosis.verdict, *diagnosis.others)]
        if kernel in ("gemm_torch", "sdpa_prefill", "sdpa_decode"):  # tensor cores need few warps
            assert not [name for name in causes if "occupancy" in name]
        if kernel in ("sdpa_decode", "gemm", "rmsnorm_torch"):  # no byte of DRAM or L2 is moved in vain
            assert diagnosis.verdict.name != "misaligned access"
            assert "uncoalesced loads" not in causes or kernel == "rmsnorm_torch"
    large = found["gemm_torch", 8192, "bf16"]
    assert large is not None
    assert "on the shared memory roof" in [cause.name for cause in large.others]


def faults() -> list[str]:
    return sorted(file.stem for file in (CONF / "kernel/faults").glob("*.yaml"))


def test_planted_faults_expect_verdicts_that_exist() -> None:
    import yaml

    files = {name: CONF / f"kernel/faults/{name}.yaml" for name in faults()}
    expected = {name: yaml.safe_load(file.read_text()).get("expect") for name, file in files.items()}
    planted = {name: verdict for name, verdict in expected.items() if verdict != "healthy"}
    assert set(planted.values()) - {None} <= set(read_rules().names)
    assert len(planted) >= 16
    swept = yaml.safe_load((CONF / "experiment/faults.yaml").read_text())["hydra"]["sweeper"]["params"]["kernel"]
    assert swept == "${options:kernel,faults/*}"  # test_experiments composes what it stands for


def test_expected_against_found(tmp_path: Path, timed: Point) -> None:
    good = timed_at(timed, 0.25, 0.95)
    points = [
        msgspec.structs.replace(good, job=0, expect="healthy"),
        msgspec.structs.replace(good, job=1, expect="on the DRAM roof"),
        msgspec.structs.replace(good, job=2, expect="bank conflicts"),
        msgspec.structs.replace(good, job=3, expect="healthy", diagnosis=None, status="failed", reason="broken"),
        msgspec.structs.replace(good, job=4),
    ]
    assert [point.as_expected for point in points] == [True, True, False, None, None]
    assert count_right(points) == "2 of 4 verdicts as expected, 1 point without a verdict"
    assert expectation_table(points).row_count == 4
    file = write_expectations(tmp_path, points)
    assert file is not None
    rows = list(csv.DictReader(file.open()))
    assert [row["right"] for row in rows] == ["yes", "yes", "no", ""]
    assert (rows[2]["expected"], rows[2]["found"]) == ("bank conflicts", "on the DRAM roof")
    assert rows[3]["message"] == "broken"
    assert write_expectations(tmp_path, points[4:]) is None


# ----------------------------------------------------------------------------------------- a stored sweep, judged anew


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Two points on files, placed and without a diagnosis."""
    return make_sweep(tmp_path / "sweep", ["kernel=saxpy", "size=67108864"], ["kernel=copy", "size=4096"])


def test_a_stored_sweep_is_judged_anew(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("diagnose", [str(stored)]) == 0
    told = capsys.readouterr().out
    assert "verdict" in told
    points = read_sweep_points(stored)
    assert all(point.diagnosis is not None for point in points)
    rows = list(csv.DictReader((stored / "points.csv").open()))
    assert [row["verdict"] for row in rows] == [point.diagnosis.verdict.name for point in points if point.diagnosis]
    assert rows[0]["next_move"] == verdict_columns(points[0])["next_move"]


def test_thresholds_and_rules_can_be_changed_afterwards(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = msgspec.structs.replace(timed_at(points_of(stored)[0], 0.25, 0.6), job=0)
    write_point(stored / "0", slow)
    assert run_command("diagnose", [str(stored)]) == 0
    assert read_sweep_points(stored)[0].diagnosis.verdict.name != "on the DRAM roof"  # type: ignore[union-attr]
    before = (stored / "0/point.json").read_bytes()
    assert run_command("diagnose", [str(stored), "--on-roof", "0.5", "--details", "--dry-run"]) == 0
    assert "on the DRAM roof" in capsys.readouterr().out
    assert (stored / "0/point.json").read_bytes() == before
    text = OWN_RULE.format(when="fraction < on_roof", score="1", fact="fraction")
    assert run_command("diagnose", [str(stored), "--rules", rules_file(tmp_path, text)]) == 0
    assert read_sweep_points(stored)[0].diagnosis.verdict.name == "slow"  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", "rules: []\n", "- a\n", "# nothing\n"])
def test_a_file_without_rules_is_one_line(
    stored: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("diagnose", [str(stored), "--rules", rules_file(tmp_path, text)]) == 2
    told = capsys.readouterr().err
    assert "no rules in it; allowed: a list called rules" in told
    assert told.count("\n") == 1


def test_pauses_are_judged_under_the_roofs_of_a_device_that_nobody_held(stored: Path) -> None:
    point = points_of(stored)[0]
    write_point(stored / "0", msgspec.structs.replace(point, clock_mode="duty", diagnosis=None))
    assert run_command("diagnose", [str(stored)]) == 0
    assert read_sweep_points(stored)[0].diagnosis is not None


def test_strict_fails_where_a_verdict_is_not_the_expected_one(stored: Path) -> None:
    point = points_of(stored)[0]
    write_point(stored / "0", msgspec.structs.replace(point, expect="bank conflicts"))
    assert run_command("diagnose", [str(stored)]) == 0
    assert run_command("diagnose", [str(stored), "--strict"]) == 1
    assert (stored / "faults.csv").is_file()


def test_a_folder_without_records_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "points.csv").write_text("job\n0\n")
    assert run_command("diagnose", [str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "no records of points" in told
    assert told.count("\n") == 1
