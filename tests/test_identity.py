"""Two machines that differ have two ids, whatever fields their kernels leave empty; cores of two kinds are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofexp.devices.cpu import machine, processor
from roofexp.records.machine import Machine

Cache = tuple[int, str, str]  # level, size, CPUs that share it


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The machine that /proc/cpuinfo and /sys describe; ``cores``: of each logical CPU its siblings and caches."""
    count = 0

    def describe(cpuinfo: str, cores: list[tuple[str, list[Cache]]], architecture: str = "aarch64") -> Machine:
        nonlocal count
        count += 1
        system = tmp_path / str(count) / "devices/system/cpu"
        for number, (siblings, caches) in enumerate(cores):
            topology = system / f"cpu{number}/topology"
            topology.mkdir(parents=True)
            (topology / "thread_siblings_list").write_text(siblings + "\n")
            for index, (level, size, shared) in enumerate(caches):
                folder = system / f"cpu{number}/cache/index{index}"
                folder.mkdir(parents=True)
                texts = {"level": str(level), "size": size, "type": "Unified", "shared_cpu_list": shared}
                for name, text in texts.items():
                    (folder / name).write_text(text + "\n")
        (tmp_path / "cpuinfo").write_text(cpuinfo)
        monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
        monkeypatch.setattr(machine, "SYSTEM", system)
        monkeypatch.setattr(machine, "allowed_cpus", lambda: list(range(len(cores))))
        monkeypatch.setattr(machine, "cpu_quota", lambda: None)
        monkeypatch.setattr("platform.machine", lambda: architecture)
        monkeypatch.setattr("platform.processor", lambda: architecture)
        machine.describe_cpu.cache_clear()
        return machine.describe_cpu()

    yield describe
    machine.describe_cpu.cache_clear()


def arm(*parts: str, implementer: str = "0x41", variant: str = "0x1", revision: str = "1") -> str:
    return "".join(
        f"processor\t: {number}\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd crc32\nCPU implementer\t: {implementer}\n"
        f"CPU architecture: 8\nCPU variant\t: {variant}\nCPU part\t: {part}\nCPU revision\t: {revision}\n\n"
        for number, part in enumerate(parts)
    )


def alike(count: int) -> list[tuple[str, list[Cache]]]:
    return [(str(i), [(1, "64K", str(i)), (2, "1024K", str(i)), (3, "32768K", f"0-{count - 1}")]) for i in range(count)]


def test_arm_processors_are_told_apart_by_their_numbers(described) -> None:
    first = described(arm(*["0xd0c"] * 4), alike(4))
    others = [
        described(arm(*["0xd40"] * 4), alike(4)),
        described(arm(*["0xd0c"] * 4, variant="0x3"), alike(4)),
        described(arm(*["0xd0c"] * 4, revision="2"), alike(4)),
        described(arm(*["0xd0c"] * 4, implementer="0x99"), alike(4)),
    ]
    assert first.name == "Neoverse-N1"
    assert [other.name for other in others] == [
        "Neoverse-V1", "Neoverse-N1", "Neoverse-N1", "ARM core, implementer 0x99, part 0xd0c"
    ]  # fmt: skip
    assert len({first.machine_id, *(other.machine_id for other in others)}) == 5
    assert described(arm(*["0xd0c"] * 4), alike(4)).machine_id == first.machine_id


def test_processors_without_any_usual_field_are_told_apart_too(described) -> None:
    ids = {described(text, alike(2), "s390x").machine_id for text in (
        "vendor_id : IBM/S390\nprocessor 0: version = FF, identification = 01, machine = 3906\n",
        "vendor_id : IBM/S390\nprocessor 0: version = FF, identification = 01, machine = 8561\n",
        "",
    )}  # fmt: skip
    riscv = [f"processor : 0\nhart : 0\nisa : rv64imafdc\nuarch : sifive,{name}\n" for name in ("u74-mc", "p550")]
    power = ["processor : 0\ncpu : POWER9, altivec supported\nclock : 2300.0MHz\nrevision : 2.2 (pvr 004e 1202)\n"]
    power.append(power[0].replace("2.2 (pvr 004e 1202)", "2.3 (pvr 004e 1203)"))
    machines = [described(text, alike(1), "riscv64") for text in riscv]
    machines += [described(text, alike(1), "ppc64le") for text in power]
    assert [each.name for each in machines] == ["sifive,u74-mc", "sifive,p550", *["POWER9, altivec supported"] * 2]
    assert len(ids | {each.machine_id for each in machines}) == 7
    assert described(power[0].replace("2300.0", "2100.0"), alike(1), "ppc64le").machine_id == machines[2].machine_id


HYBRID_NAME = "12th Gen Intel(R) Core(TM) i5-12600X"


def hybrid_intel() -> list[tuple[str, list[Cache]]]:
    """Four cores of two threads with an L2 each, and eight of one thread with an L2 for four."""
    cores: list[tuple[str, list[Cache]]] = []
    for number in range(8):
        own = f"{number // 2 * 2}-{number // 2 * 2 + 1}"
        cores.append((own, [(1, "48K", own), (2, "1280K", own), (3, "24576K", "0-15")]))
    for number in range(8, 16):
        four = f"{8 + (number - 8) // 4 * 4}-{11 + (number - 8) // 4 * 4}"
        cores.append((str(number), [(1, "32K", str(number)), (2, "2048K", four), (3, "24576K", "0-15")]))
    return cores


def test_cores_of_two_kinds_are_named_with_the_caches_of_each(described) -> None:
    info = f"vendor_id : GenuineIntel\ncpu family : 6\nmodel : 154\nmodel name : {HYBRID_NAME}\nflags : avx2 fma\n\n"
    text = "".join(f"processor : {number}\n{info}" for number in range(16))
    found = described(text, hybrid_intel(), "x86_64")
    assert found.units == 12
    assert found.details["core_kinds"] == [
        "4 cores, 2 threads each: L1 48 KiB for 2 threads, L2 1.25 MiB for 2 threads, L3 24 MiB for 16 threads",
        "8 cores: L1 32 KiB for one thread, L2 2 MiB for 4 threads, L3 24 MiB for 16 threads",
    ]
    assert found.cache_bytes == {
        "l1": 4 * 48 * 1024 + 8 * 32 * 1024,
        "l2": (4 * 1280 + 2 * 2048) * 1024,
        "l3": 24 * 2**20,
    }
    assert found.details["cache_shared_by"] == {"l3": 16}  # the same for all; of the others each kind has its own
    assert any("2 kinds" in reason for reason in found.unknown)
    assert found.limits == {}


def test_cores_of_one_kind_in_a_cut_machine_stay_one_kind(described) -> None:
    """Three logical CPUs of a virtual machine: the last core has no sibling."""
    caches = [("0-1", [(1, "48K", "0-1")]), ("0-1", [(1, "48K", "0-1")]), ("2", [(1, "48K", "2")])]
    text = "".join(f"processor : {i}\nvendor_id : X\nmodel name : Some CPU\nmodel : 1\n\n" for i in range(3))
    assert len(described(text, caches, "x86_64").details["core_kinds"]) == 1


def test_arm_cores_of_two_kinds_are_both_in_the_name(described) -> None:
    found = described(arm("0xd46", "0xd46", "0xd48", "0xd48"), alike(4))
    assert found.name == "Cortex-A510 + Cortex-X2"
    assert [kind.split(":")[0] for kind in found.details["core_kinds"]] == ["2 Cortex-A510 cores", "2 Cortex-X2 cores"]
    assert found.machine_id != described(arm("0xd46", "0xd46", "0xd46", "0xd48"), alike(4)).machine_id
