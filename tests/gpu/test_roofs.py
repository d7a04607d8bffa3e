"""All roofs of the GPU in bursts, some under load, against arithmetic, their own machine code and the counters.

Takes about 70 s; prints the table and where the time went (pytest -s).
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from roofexp.records.machine import RoofSet
from roofexp.roofs.benchmark import STREAMS
from roofexp.roofs.counter_check import count_roofs
from roofexp.roofs.machine_lookup import RoofSession, Wanted
from roofexp.roofs.table import print_roofs

LEAST_OF_LIMIT = {
    "fp64 fma": 0.98, "fp32 fma": 0.98, "fp16 fma": 0.95, "bf16 fma": 0.95, "int32 imad": 0.95,
    "tf32 tensor": 0.95, "fp16 tensor": 0.95, "bf16 tensor": 0.95, "fp8 tensor": 0.95, "int8 tensor": 0.95,
    "fp64 tensor fp64": 0.95, "fp16 tensor fp16 sums": 0.95, "l1": 0.97, "shared": 0.97,
}  # fmt: skip


UNDER_LOAD = Wanted(precisions=["fp32", "bf16"], sustained=True)  # 3 s for each of their roofs and products


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outputs")


def roofs_of(outputs: Path, wanted: Wanted) -> tuple[RoofSet, float]:
    start = time.monotonic()
    session = RoofSession("cuda", wanted, outputs)
    try:
        return session.roofs(print), time.monotonic() - start
    finally:
        session.stop()


@pytest.fixture(scope="module")
def short(outputs: Path) -> tuple[RoofSet, float]:
    """What a sweep in two precisions waits for."""
    return roofs_of(outputs, Wanted(precisions=["bf16", "fp32"]))


@pytest.fixture(scope="module")
def found(outputs: Path, short: tuple[RoofSet, float]) -> RoofSet:
    _, seconds = roofs_of(outputs, Wanted(extra=True))
    roofs, loaded_s = roofs_of(outputs, UNDER_LOAD)
    seconds += loaded_s
    slow = sorted(roofs.took_s.items(), key=lambda pair: -pair[1])[:15]
    print(f"\nall: {seconds:.1f} s after {short[1]:.1f} s for bf16 and fp32; slowest: {slow}")
    print_roofs([roofs])
    assert seconds + short[1] <= 80
    return roofs


def test_a_sweep_waits_at_most_15_s(short: tuple[RoofSet, float]) -> None:
    roofs, seconds = short
    print(f"\n{seconds:.1f} s; {sorted(roofs.took_s.items(), key=lambda pair: -pair[1])}")
    assert seconds <= 15


def test_every_roof_reaches_its_limit(found: RoofSet) -> None:
    low = []
    for roof in found.roofs:
        least = LEAST_OF_LIMIT.get(roof.name)
        if least and roof.limit and roof.rate < least * roof.limit:
            low.append(f"{roof.name}: {roof.rate / roof.limit:.1%} of the limit, {least:.0%} wanted")
    assert not low, "\n".join(low)


def test_no_roof_lies_above_its_limit(found: RoofSet) -> None:
    assert [roof.name for roof in found.roofs if roof.limit and roof.rate > 1.02 * roof.limit] == []


def test_the_memory_levels_of_an_h200(found: RoofSet) -> None:
    if found.machine.name != "NVIDIA H200":
        pytest.skip("figures of an H200")
    dram, l2 = found.bandwidth("dram"), found.bandwidth("l2")
    assert dram
    assert l2
    assert dram.rate >= 4.52e12
    assert dram.mixes["read"] >= 4.5e12
    assert min(dram.mixes.values()) >= 4.2e12
    assert 7.0e12 <= l2.rate <= 132 * 64 * 1.98e9  # what the SMs can take
    read, write = l2.mixes["read"], l2.mixes["write"]
    for mix, (arrays_read, arrays_written) in STREAMS.items():  # no more of either than each reaches alone
        of_array = l2.mixes[mix] / (arrays_read + arrays_written)
        assert arrays_read * of_array <= 1.05 * read
        assert arrays_written * of_array <= 1.05 * write
    (far,) = found.ceilings("l2")
    print(f"l2 far: {far.rate / read:.1%} of read: {far.cause}")
    assert (far.rate < read) != str(far.cause).startswith("not below")


def test_machine_code_holds_what_the_roofs_are_about(found: RoofSet) -> None:
    checks = {roof.name: c for roof in found.roofs for c in roof.checks if c.name == "instructions"}
    if not checks:
        pytest.skip("nvdisasm is missing")
    assert [f"{name}: {check.message}" for name, check in checks.items() if not check.passed] == []


def test_lasting_load_settles(found: RoofSet) -> None:
    loaded = {roof.name: roof.sustained for roof in found.roofs if roof.sustained}
    assert {"bf16 tensor", "bf16 fma", "fp32 fma"} <= set(loaded)
    assert all(load.rate and load.compute_hz for load in loaded.values())


def test_a_second_call_takes_nothing(outputs: Path, found: RoofSet) -> None:
    again, seconds = roofs_of(outputs, UNDER_LOAD)
    print(f"\nsecond call: {seconds:.2f} s")
    assert again == found
    assert seconds < 5


def test_counters_agree_with_the_formulas(outputs: Path, found: RoofSet) -> None:
    if shutil.which("ncu") is None:
        pytest.skip("ncu is not on the PATH")
    session = RoofSession("cuda", Wanted(extra=True), outputs)
    start = time.monotonic()
    try:
        counted = count_roofs(session.store(), "cuda", print)
    finally:
        session.stop()
    print(f"\ncounting: {time.monotonic() - start:.1f} s")
    names = ("flops", "operations", "bytes", "reads", "writes", "pipe")
    checks = [(roof.name, c) for roof in counted.roofs for c in roof.checks if c.name.startswith(names)]
    if not checks:
        pytest.skip("nothing could be counted")
    print("\n".join(f"{name} {check.name}: {check.message}" for name, check in checks))
    assert [f"{name} {check.name}: {check.message}" for name, check in checks if not check.passed] == []
