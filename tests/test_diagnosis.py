"""The diagnosis' rules: every one on a made record with its fault and not on its twin; rules that a user writes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roofexp.diagnosis import diagnosed, judge, say
from roofexp.diagnosis.facts import sector_facts, vocabulary
from roofexp.diagnosis.rules import OWN, read_rules
from roofexp.errors import BadInputError
from roofexp.records.point import Counted, Point
from tests.counted_sweep import make_sweep, points_of
from tests.diagnosis_cases import FAULTS, H200, OWN_RULE, SETTINGS, STREAM, facts, rules_file, timed_at


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Point:
    return points_of(make_sweep(tmp_path_factory.mktemp("made") / "sweep", ["kernel=saxpy", "size=67108864"]))[0]


def test_every_rule_has_a_made_record() -> None:
    assert set(FAULTS) == set(read_rules().names)
    assert set(STREAM) <= set(vocabulary())


@pytest.mark.parametrize("name", FAULTS)
def test_a_rule_is_the_verdict_on_its_fault_and_says_nothing_of_the_healthy_twin(name: str) -> None:
    found = judge(facts(FAULTS[name]), read_rules())
    assert found is not None
    assert found.verdict.name == name, [found.verdict, *found.others]
    assert found.verdict.next_move
    assert "unknown" not in found.verdict.message
    assert found.verdict.healthy == name.startswith("on the ")
    healthy = judge(facts({}), read_rules())
    assert healthy is not None
    assert healthy.verdict.name == "on the DRAM roof"
    if not found.verdict.healthy:
        assert name not in [cause.name for cause in healthy.others]


@pytest.mark.parametrize(
    "name",
    ["launch floor", "too little work", "below the bandwidth roof", "below the compute roof", "far below both roofs"],
)
def test_a_cpu_is_told_what_a_cpu_has(name: str) -> None:
    told = {}
    for device in ("cpu", "cuda"):
        found = judge(facts({**FAULTS[name], "device": device}), read_rules())
        assert found is not None
        assert found.verdict.name == name
        told[device] = found.verdict.next_move
    assert told["cpu"] != told["cuda"]
    for word in ("warp", "block", "graph", "tensor", "SM", "counters", "GPU"):
        assert word not in told["cpu"]


@pytest.mark.parametrize("name", FAULTS)
def test_evidence_passes_its_threshold(name: str) -> None:
    found = judge(facts(FAULTS[name]), read_rules())
    assert found is not None
    for item in found.verdict.evidence:
        assert item.what
        assert item.unit != "share"
    numbers = [item for item in found.verdict.evidence if item.threshold is not None]
    assert numbers or name in ("memory barriers", "atomics") or found.verdict.evidence


def test_a_fact_that_is_not_known_loses_its_own_rules_alone() -> None:
    rules = read_rules()
    for name in STREAM:
        if name == "basis":
            continue
        found = judge(facts({name: None}), rules)
        healthy = found is not None and found.verdict.healthy
        assert healthy == (name not in ("dram_mix_fraction", "on_roof")), name


def test_causes_are_ordered_by_what_they_cost() -> None:
    found = judge(facts({**FAULTS["uncoalesced loads"], "threads_per_instruction": 20.0}), read_rules())
    assert found is not None
    scores = [found.verdict.score, *(cause.score for cause in found.others if not cause.healthy)]
    assert scores == sorted(scores, reverse=True)
    assert "divergence" in [cause.name for cause in found.others]


def test_a_small_cause_is_no_verdict_on_a_roof_and_is_listed() -> None:
    found = judge(facts({"saving": 0.12, "load_bytes_per_sector": 25.6, "load_waste": 0.1, "straddle_waste": 0.1,
                        "straddle_waste_cost": 0.09,
                        "sectors_per_load": 5.0}),
                  read_rules())  # fmt: skip
    assert found is not None
    assert found.verdict.name == "on the DRAM roof"
    assert [cause.name for cause in found.others] == ["misaligned access"]


def test_arithmetic_is_named_where_several_roofs_are_reached() -> None:
    found = judge(facts({"compute_fraction": 0.9, "shared_fraction": 0.96, "dram_mix_fraction": 0.2}), read_rules())
    assert found is not None
    assert (found.verdict.name, [cause.name for cause in found.others]) == (
        "on the compute roof",
        ["on the shared memory roof"],
    )


def test_a_clock_held_back_is_no_fault_of_a_kernel_on_its_roof() -> None:
    changes = {"compute_fraction": 0.93, "dram_mix_fraction": 0.2, "throttled": 1.0, "clock_share": 0.68}
    found = judge(facts({**changes, "clock_cost": ", 68 % of the highest"}), read_rules())
    assert found is not None
    assert found.verdict.name == "on the compute roof"
    assert found.verdict.message == "93 % of the fp32 roof at the clock held, 68 % of the highest"
    assert [cause.name for cause in found.others] == ["throttled clock"]


@pytest.mark.parametrize(
    "change", [{"tensor_share": 0.99}, {"idle": 0.1}, {"stall_latency": 0.2}, {"occupancy_possible_pct": 75.0}]
)
def test_few_warps_are_a_cause_only_where_more_would_help(change: dict[str, float]) -> None:
    found = judge(facts({**FAULTS["registers limit occupancy"], **change}), read_rules())
    assert found is not None
    assert "registers limit occupancy" not in [cause.name for cause in (found.verdict, *found.others)]


def sector_counts(l2_bytes: float, bytes_used: float) -> Counted:
    """1000 sectors loaded, 8 for each load of a warp."""
    known = {"load_sectors": 1000.0, "store_sectors": 0.0, "load_bytes_per_sector": bytes_used,
             "kernel_l1_bytes": 32000.0}  # fmt: skip
    return Counted(level="diagnosis", l2_bytes=l2_bytes, dram_bytes=l2_bytes, sectors_per_load=8.0, facts=known)


@pytest.mark.parametrize(
    ("l2_bytes", "bytes_used", "busy", "cost"),
    [
        (32000, 16.0, {"l1": 0.3, "l2": 0.9, "dram": 0.9}, 0.45),  # half of what L2 and DRAM move is not used
        (16000, 16.0, {"l1": 0.3, "l2": 0.9, "dram": 0.9}, 0.0),  # the other half is used by the next load, from L1
        (16000, 16.0, {"l1": 0.9, "l2": 0.9, "dram": 0.9}, 0.45),  # which costs where L1 is busy
        (32000, 0.0, {"l1": 0.9, "l2": 0.9, "dram": 0.9}, None),  # asynchronous copies: bytes used are not known
    ],
)
def test_sectors_in_vain_cost_time_where_they_are_moved(
    l2_bytes: float, bytes_used: float, busy: dict[str, float | None], cost: float | None
) -> None:
    found = sector_facts(sector_counts(l2_bytes, bytes_used), 4.0, 8000.0, busy)
    assert found["load_waste_cost"] == (None if cost is None else pytest.approx(cost))


# --------------------------------------------------------------------------------------------- rules that a user writes


def test_rules_of_a_user(tmp_path: Path, timed: Point) -> None:
    text = OWN_RULE.format(when="fraction < on_roof", score="1 - fraction", fact="fraction")
    settings = msgspec.structs.replace(SETTINGS, rules=rules_file(tmp_path, text))
    found = diagnosed(msgspec.structs.replace(timed_at(timed, 0.25, 0.6)), H200, settings).diagnosis
    assert found is not None
    assert (found.verdict.name, found.verdict.message) == ("slow", "at 60 %")
    assert (found.verdict.evidence[0].value, found.verdict.evidence[0].threshold) == (pytest.approx(60), 85)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"when": "fracton < 1"}, r"rule 'slow': when\[0\]: unknown fact 'fracton'; did you mean fraction"),
        ({"when": "fraction <"}, r"when\[0\]: 'fraction <' is not a formula"),
        ({"when": "exec('x')"}, "unknown function 'exec'"),
        ({"score": "1 - speed"}, "score: unknown fact 'speed'"),
        ({"fact": "nothing"}, "evidence: unknown fact 'nothing'"),
    ],
)
def test_mistakes_in_rules_are_one_line(tmp_path: Path, change: dict[str, str], said: str) -> None:
    text = OWN_RULE.format(**{"when": "fraction < 1", "score": "1", "fact": "fraction", **change})
    with pytest.raises(BadInputError, match=said) as caught:
        read_rules(rules_file(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["rules: [{name: a}]", "rules: {", "worth: 1", "rules: [{nam: a}]", ""])
def test_a_file_that_holds_no_rules(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInputError, match=r"my\.yaml"):
        read_rules(rules_file(tmp_path, text))
    with pytest.raises(BadInputError, match="cannot be read"):
        read_rules(str(tmp_path / "none.yaml"))


def test_rules_that_cannot_be_used_cost_the_diagnosis_alone(timed: Point) -> None:
    point = timed_at(timed, 0.25, 0.6)
    found = diagnosed(point, H200, msgspec.structs.replace(SETTINGS, rules="nowhere.yaml"))
    assert found.diagnosis is None
    assert found.placement == point.placement
    assert [flag.name for flag in found.flags] == ["not diagnosed"]
    assert diagnosed(found, H200, SETTINGS).flags == []


def test_messages_show_numbers_with_their_units() -> None:
    shown = say("{a} {a:%} {b:s} {c} {d}", {"a": 0.5, "b": 2e-6, "c": "text"})
    assert shown == "0.5 50 % 2 µs text unknown"


def test_own_rules_can_be_copied_and_used(tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text(OWN.read_text())
    assert read_rules(str(copy)).names == read_rules().names
