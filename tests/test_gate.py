"""The gate: rules refused before anything is measured, judged on records, and told to people and to CI systems."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from roofexp.commands import run_command
from roofexp.commands.gate import EXAMPLE
from roofexp.commands.run import in_order
from roofexp.compare.matching import Side
from roofexp.errors import BadInputError
from roofexp.gate import Judgement, broken, judge, junit_xml, markdown, pass_sweep, read_gate
from roofexp.gate.rules import read_rules
from roofexp.run.prepare import _read_gate
from tests.compared_sweeps import failed, flagged, made, quiet, side, sweep_of, written


def judged(tmp_path: Path, rules: list[dict], found: Side) -> list[Judgement]:
    return judge(read_rules(rules_file(tmp_path, rules), tmp_path), found)


def rules_file(folder: Path, rules: object) -> Path:
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"rules": rules}))
    return file


@pytest.fixture
def sweep() -> Side:
    """GEMM at three sizes, a dot product and a copy: on the compute roof, on and below the bandwidth roof."""
    points = [made("gemm", quiet(0.0024), i, size=size) for i, size in enumerate((1024, 4096, 8192))]
    points += [made("dot", quiet(0.00025), 3, precision="fp32"), made("copy", quiet(0.0003), 4, cache_state="hot")]
    return side("sweep", points)


@pytest.mark.parametrize(
    ("rule", "outcomes"),
    [
        ({"rule": "status == ok"}, "kkkkk"),
        ({"rule": "status == 'ok'"}, "kkkkk"),
        ({"rule": "fraction >= 85 %", "kernel": "gemm"}, "kkk"),
        ({"rule": "fraction >= 99.9%", "kernel": "gemm", "size": ">= 4096"}, "bb"),
        ({"rule": "fraction >= 0.999 or size < 2000", "kernel": "gemm"}, "kbb"),
        ({"rule": "bound == compute", "kernel": ["g*m", "dot"]}, "kkkb"),
        ({"rule": "bound == 'on the bandwidth roof'", "kernel": "dot"}, "k"),
        ({"rule": "bound != latency and intensity > 100", "size": "1000..5000", "kernel": "gemm"}, "kk"),
        ({"rule": "time_s <= 1e-3", "size": [1024, 8192]}, "bb"),
        ({"rule": "bytes_per_s >= 3e12", "cache": "hot"}, "k"),
        ({"rule": "not flagged"}, "kkkkk"),
        ({"rule": "not 'noisy' in flags"}, "kkkkk"),
        ({"rule": "max(fraction, 1) == 1", "kernel": "gemm", "precision": "fp32", "clock": "observe"}, "kkk"),
        ({"rule": "fraction > 0", "kernel": "nothing*"}, "b"),
    ],
)
def test_rules(rule: dict, outcomes: str, sweep: Side, tmp_path: Path) -> None:
    assert "".join(judgement.outcome[0] for judgement in judged(tmp_path, [rule], sweep)) == outcomes


@pytest.mark.parametrize(
    ("rule", "telling"),
    [
        ({"rule": "fractoin >= 1"}, ["rule 2", "unknown name 'fractoin'", "fraction, bound"]),
        ({"rule": "fraction >="}, ["is not a condition"]),
        ({"rule": "fraction + 1"}, ["a condition is needed"]),
        ({"rule": "bound >= 3"}, ["cannot be computed"]),
        ({"rule": "1 < 2"}, ["asks nothing of a point"]),
        ({"rule": "fraction.real > 1"}, ["rule 2"]),
        ({"rule": "__import__('os').system('true') == fraction"}, ["rule 2"]),
        ({"rool": "x"}, ["has no key rule"]),
        ({"rule": "status == ok", "kernal": "gemm"}, ["unknown key 'kernal'", "kernel"]),
        ({"rule": "status == ok", "size": "big"}, ["size: 'big'", ">= 4096"]),
        ({"rule": "slowdown <= 3 %"}, ["slowdown needs against"]),
        ({"rule": "slowdown <= 3 %", "against": "nowhere"}, ["against: nowhere: no such folder"]),
        ({"rule": "slowdown <= 3 %", "against": "."}, ["no points in it"]),
        ({"rule": "status == ok", "against": "."}, ["asks for neither slowdown"]),
        ({"rule": "slowdown <= 3 %", "against": ".", "across": "all"}, ["against"]),
        ({"rule": "status == ok", "significant": "maybe"}, ["significant", "true, false"]),
    ],
)
def test_rules_that_could_never_be_judged_are_refused(rule: dict, telling: list[str], tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as refused:
        read_rules(rules_file(tmp_path, [{"rule": "status == ok"}, rule]), tmp_path)
    assert str(refused.value).startswith("gate=rules.yaml: rule 2")
    assert "\n" not in str(refused.value)
    for text in telling:
        assert text in str(refused.value)


@pytest.mark.parametrize("content", ["", "rules: []", "rules: 3", "- rule: x", "rules: [{]", "other: 1\nrules: [1]"])
def test_files_that_hold_no_rules_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(content)
    with pytest.raises(BadInputError, match=r"^gate=rules.yaml: [^\n]*$"):
        read_rules(tmp_path / "rules.yaml", tmp_path)
    with pytest.raises(BadInputError, match="cannot be read"):
        read_rules(tmp_path / "nothing.yaml", tmp_path)


def test_the_example_is_a_gate() -> None:
    assert len(read_rules(EXAMPLE, EXAMPLE.parent)) == 4


def test_what_is_not_known_breaks_a_rule(tmp_path: Path) -> None:
    found = side("sweep", [failed("gemm", 0), made("copy", quiet(0.1), 1), made("dot", quiet(0.1), 2, traffic=None)])
    judgements = judged(tmp_path, [{"rule": "flops_per_s > 0 or status == ok"}, {"rule": "fraction >= 0"}], found)
    assert [judgement.actual for judgement in judgements if judgement.outcome == "broken"] == [
        "flops_per_s is not known: failed: wrong result",
        "flops_per_s is not known: a kernel without FLOPs",
        "fraction is not known: failed: wrong result",
        "fraction is not known: not placed under roofs (roofs=none?)",
    ]


def test_a_point_that_the_device_cannot_run_is_left_out(tmp_path: Path) -> None:
    found = side("sweep", [failed("gemm", 0, "skipped", "no fp8 here"), made("gemm", quiet(0.0024), 1)])
    judgements = judged(tmp_path, [{"rule": "fraction > 0"}, {"rule": "status == ok"}], found)
    assert [judgement.outcome for judgement in judgements] == ["skipped", "kept", "broken", "kept"]


def test_flags_by_name(tmp_path: Path) -> None:
    found = side("sweep", [flagged(made("gemm", quiet(0.0024)), "throttled", "noisy")])
    judgements = judged(tmp_path, [{"rule": "not flagged"}, {"rule": "not 'throttled' in flags"}], found)
    assert [judgement.actual for judgement in judgements] == ["flagged = yes", "flags = throttled, noisy"]
    assert len(broken(judgements)) == 2


class TestAgainstAnotherSweep:
    RULE = {"rule": "slowdown <= 3 %", "against": "before"}  # noqa: RUF012

    @pytest.fixture
    def before(self, tmp_path: Path) -> Path:
        kernels = ("gemm", "dot", "copy")
        return written(tmp_path / "before", sweep_of("before", [(name, quiet(0.0024), {}) for name in kernels]))

    def after(self, *ratios: float, noise: float = 0.002, **changes) -> Side:
        kernels = ("gemm", "dot", "copy")
        times = [quiet(0.0024 * ratio, seed=7, noise=noise) for ratio in ratios]
        return sweep_of("after", [(kernels[i], each, changes) for i, each in enumerate(times)])

    def test_a_real_slowdown_breaks_it(self, before: Path, tmp_path: Path) -> None:
        judgements = judged(tmp_path, [self.RULE], self.after(1.0, 1.02, 1.05))
        assert [judgement.outcome for judgement in judgements] == ["kept", "kept", "broken"]
        assert judgements[2].actual.startswith("slowdown = +5.")

    def test_noise_does_not_break_it_unless_it_shall(self, before: Path, tmp_path: Path) -> None:
        noisy = self.after(1.08, noise=0.15)
        kept = judged(tmp_path, [self.RULE], noisy)[0]
        assert kept.outcome == "kept"
        assert kept.actual.endswith("no significant change")
        assert judged(tmp_path, [{**self.RULE, "significant": False}], noisy)[0].outcome == "broken"

    def test_a_point_without_its_like_breaks_it(self, before: Path, tmp_path: Path) -> None:
        found = self.after(1.0)
        found.points.append(made("dot", quiet(0.0024), 9, size=8))
        judgements = judged(tmp_path, [self.RULE], found)
        assert judgements[1].actual == "slowdown is not known: before has no such point"

    def test_another_machine_breaks_it_with_the_reason(self, before: Path, tmp_path: Path) -> None:
        found = self.after(1.0, machine_id="gpu-other")
        assert "machine: A gpu-0123456789, B gpu-other" in judged(tmp_path, [self.RULE], found)[0].actual
        assert judged(tmp_path, [{**self.RULE, "across": ["machine"]}], found)[0].outcome == "kept"

    def test_a_fallen_clock_does_not_break_it(self, before: Path, tmp_path: Path) -> None:
        found = self.after(1.9 / 1.7, hz=1.7e9)
        assert judged(tmp_path, [self.RULE], found)[0].outcome == "kept"
        assert judged(tmp_path, [{**self.RULE, "rule": "time_slowdown <= 3 %", "significant": False}], found)[
            0
        ].outcome == ("broken")


def test_reports(sweep: Side, tmp_path: Path) -> None:
    sweep.points[0] = failed("gemm", 0, "skipped", "no | room\n<here>")
    rules = [{"rule": "fraction >= 99.9 %", "about": "fast"}, {"rule": "status == ok", "kernel": "dot"}]
    judgements = judged(tmp_path, rules, sweep)
    root = ElementTree.fromstring(junit_xml(judgements, "rules.yaml"))
    assert root.tag == "testsuites"
    suite = root[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("6", "4", "1")
    assert len(suite.findall("testcase")) == 6
    assert len({(case.get("classname"), case.get("name")) for case in suite}) == 6
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "fraction = " in str(failure.get("message"))
    text = markdown(judgements, "sweep").decode()
    assert "4 of 6 checks broken" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") in (4, 6) for line in tables)


def test_the_command(sweep: Side, tmp_path: Path, capsys) -> None:
    folder = written(tmp_path / "sweep", sweep)
    file = rules_file(tmp_path, [{"rule": "fraction >= 85 %", "kernel": "gemm"}])
    assert run_command("gate", [str(folder), "--gate", str(file)]) == 0
    assert "kept (3 kept, 0 broken)" in capsys.readouterr().out
    assert (folder / "gate.xml").is_file()
    file = rules_file(tmp_path, [{"rule": "time_s <= 1e-6", "kernel": "gemm", "about": "at once"}])
    assert (
        run_command("gate", [str(folder), "--gate", str(file), "--junit", str(tmp_path / "j.xml"), "--markdown", "-"])
        == 1
    )
    said = capsys.readouterr()
    assert said.out.startswith("### ")
    assert "broken rule 1: time_s <= 1e-6 (at once): gemm 1024 fp32 (job 0): time_s = 2.4 ms" in said.err
    assert (tmp_path / "j.xml").is_file()
    assert run_command("gate", [str(folder)]) == 2
    assert run_command("gate", []) == 2
    assert run_command("gate", ["--example"]) == 0


def test_a_finished_sweep_keeps_its_gate_and_what_came_of_it(sweep: Side, tmp_path: Path) -> None:
    folder = written(tmp_path / "sweep", sweep)
    gate = read_gate(str(rules_file(tmp_path, [{"rule": "fraction >= 2"}])), tmp_path)
    code, lines = pass_sweep(gate, folder)
    assert code == 1
    assert lines[-1] == "gate     rules.yaml: broken (0 kept, 5 broken)"
    assert {"gate.xml", "gate.md", "gate.yaml"} <= {file.name for file in folder.iterdir()}
    assert run_command("gate", [str(folder)]) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["size=8", "--gate", "my rules.yaml", "-m"], ["-m", "size=8", 'gate="my rules.yaml"']),
        (["--gate=a.yaml"], ['gate="a.yaml"']),
        (["gate=a.yaml"], ["gate=a.yaml"]),
    ],
)
def test_the_option_is_the_configuration_key(arguments: list[str], expected: list[str]) -> None:
    assert in_order(arguments) == expected


@pytest.mark.parametrize("arguments", [["--gate"], ["--gate", "size=8"]])
def test_the_option_needs_a_file(arguments: list[str]) -> None:
    with pytest.raises(BadInputError, match="--gate: a file of rules is missing"):
        in_order(arguments)


def configured(tmp_path: Path, *overrides: str) -> DictConfig:
    hydra = {"runtime": {"cwd": str(tmp_path)}, "sweeper": {}, "overrides": {"task": list(overrides)}}
    return OmegaConf.create({"gate": "rules.yaml", "hydra": hydra})


def test_a_gate_that_cannot_be_judged_is_refused_before_the_first_job(tmp_path: Path) -> None:
    rules_file(tmp_path, [{"rule": "tme_s > 0"}])
    with pytest.raises(BadInputError, match=r"^gate=rules\.yaml: rule 1: unknown name 'tme_s'"):
        _read_gate(configured(tmp_path))
    with pytest.raises(BadInputError, match="one file for the whole sweep"):
        _read_gate(configured(tmp_path, "gate=a.yaml,b.yaml"))


def test_a_sweep_ends_with_its_gate(program, sweep_folder, tmp_path: Path) -> None:
    rules_file(tmp_path, [{"rule": "time_s > 0"}, {"rule": "time_s < 0", "kernel": "v*"}])
    done = program("kernel=vadd", "size=1000", "--gate", "rules.yaml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "broken rule 2: time_s < 0: vadd 1000 fp32 hot (job 0): time_s = " in done.stdout
    assert ElementTree.parse(sweep_folder() / "gate.xml").getroot().get("failures") == "1"
