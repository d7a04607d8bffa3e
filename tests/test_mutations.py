"""Mutations of each kind of file: a right answer or one line, never another exception, a hang or a gigabyte.

hypothesis derives the seeds from each test's name; ``example`` keeps those that once failed. ``make test`` takes the
first hundred of each kind, ROOFEXP_MUTATIONS=500 five times as many.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from roofexp.commands import run_command
from roofexp.commands.reproduce import read_original, read_side
from roofexp.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_POINT_FAILED, BadInputError, SkippedError
from roofexp.kernel.load import load_kernel
from roofexp.records.sweep_folder import read_sweep, write_sweep
from roofexp.roofs.store import read_stored
from roofexp.tracking.sweep_run import read_sweep as read_for_tracking
from tests.counted_sweep import make_sweep
from tests.kernel_cases import CONF
from tests.mutations import mutated_bytes, mutated_table, structured

DATA = Path(__file__).parent / "data/ncu"
GATE = Path(__file__).parents[1] / "roofexp/gate/example.yaml"
Mutate = Callable[[bytes, Random], bytes]
MOST_MEMORY_KIB = 2**20
KEPT = (
    "kernel",
    "size",
    "precision",
    "fill",
    "placing",
    "device",
)  # of a configuration: a whole one takes long to resolve

several = settings(
    max_examples=int(os.environ.get("ROOFEXP_MUTATIONS", "100")),
    derandomize=True,
    database=None,
    deadline=timedelta(seconds=20),
    phases=[Phase.explicit, Phase.generate],  # a smaller seed is no simpler
    report_multiple_bugs=False,
    suppress_health_check=[*HealthCheck],
)
seeds = given(seed=st.integers(0, 2**32 - 1))


def dumped_yaml(value: Any) -> bytes:
    try:
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode(errors="surrogatepass")
    except RecursionError:  # of what writes the test's own file: JSON is YAML
        return dumped_json(value)


def dumped_json(value: Any) -> bytes:
    return json.dumps(value).encode()


as_json = structured(json.loads, dumped_json)
as_yaml = structured(yaml.safe_load, dumped_yaml)


def packed(change: Mutate) -> Mutate:
    """The archive's own bytes once in four, else what it holds."""

    def mutated(data: bytes, random: Random) -> bytes:
        if random.randrange(4) == 0:
            return mutated_bytes(data, random)
        return lzma.compress(change(lzma.decompress(data), random), preset=0)

    return mutated


def a_line(data: bytes, random: Random) -> bytes:
    lines = data.splitlines()
    place = random.randrange(len(lines))
    lines[place] = as_json(lines[place], random)
    return b"\n".join(lines)


@pytest.fixture(scope="module", autouse=True)
def _memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + MOST_MEMORY_KIB


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two points; not to be changed."""
    folder = make_sweep(
        tmp_path_factory.mktemp("whole") / "sweep", ["kernel=vadd"], ["kernel=gemm", "precision=bf16", "size=4096"]
    )
    for job in (0, 1):
        (folder / f"{job}/samples.csv").write_text("sample,at_s,time_s,launches\n0,0.1,2e-05,1\n1,0.2,1e-05,1\n")
    described = {"git_commit": "0123456789abcdef", "git_dirty": False, "started": "2026-11-30T06:00:00+00:00"}
    more = {"command": "python -m roofexp", "versions": {"numpy": "2.0"}, "machines": {}, "plain_run": False}
    write_sweep(folder, {**read_sweep(folder), **described, **more, "arguments": ["size=8"], "overrides": ["size=8"]})
    for job in (0, 1):
        config = yaml.safe_load((folder / f"{job}/.hydra/config.yaml").read_bytes())
        kept = {key: config[key] for key in KEPT if key in config} | {"figures": {"draw": False}}
        (folder / f"{job}/.hydra/config.yaml").write_bytes(dumped_yaml(kept))
    (folder / "roofs-gpu-0123456789_observe.json").rename(folder / "roofs.json")
    content = json.loads((folder / "roofs.json").read_bytes())
    (folder / "roofs.json").write_bytes(dumped_json([content]))
    return folder


@pytest.fixture(scope="module")
def sweep(whole: Path) -> Path:
    """A copy whose files are changed one at a time."""
    return Path(shutil.copytree(whole, whole.parent / "changed"))


@pytest.fixture(scope="module")
def published(whole: Path) -> Path:
    target = whole.parent / "published"
    assert run_command("publish", [str(whole), str(target)]) == EXIT_OK
    return target


def survives(name: str, *arguments: object) -> None:
    """The command ends with its result, or with one line on the error output."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = run_command(name, [str(argument) for argument in arguments])
    text = errors.getvalue()
    assert code in (EXIT_OK, EXIT_POINT_FAILED, EXIT_BAD_INPUT)
    if code == EXIT_BAD_INPUT:
        assert text.count("\n") == 1, text
        assert len(text) < 1200
    assert "Traceback" not in text
    for shown in (text, output.getvalue()):
        assert not {letter for letter in shown if letter < " " and letter not in "\n\t"}


def readers(folder: Path, other: Path, seed: int) -> None:
    """One of the commands that read a sweep, and the readers that no such command calls."""
    with contextlib.suppress(BadInputError):
        read_for_tracking(folder)
    if seed % 5 == 0:
        with contextlib.suppress(BadInputError):
            read_original(folder, None)
            read_side(folder)
    page = folder.parent / "page.html"
    target = folder.parent / "target"
    commands: list[tuple[object, ...]] = [
        ("report", folder, "--output", page),
        ("compare", other, folder, "--no-files"),
        ("diagnose", folder, "--dry-run"),
        ("gate", folder, "--gate", GATE, "--junit", page, "--markdown", page),
        ("diagnose", folder, "--dry-run", "--details"),
    ]
    name, *arguments = commands[seed % len(commands)]
    if seed % 40 == 0:
        name, *arguments = "publish", folder, target, "--replace", "--dirty"
    survives(str(name), *arguments)


@contextlib.contextmanager
def changed(file: Path, mutate: Mutate, seed: int) -> Iterator[None]:
    before = file.read_bytes()
    file.write_bytes(mutate(before, Random(seed)))
    try:
        yield
    finally:
        file.write_bytes(before)


@seeds
@several
def test_point(sweep: Path, whole: Path, seed: int) -> None:
    with changed(sweep / "1/point.json", as_json, seed):
        readers(sweep, whole, seed)


@seeds
@several
def test_sweep_yaml(sweep: Path, whole: Path, seed: int) -> None:
    with changed(sweep / "sweep.yaml", as_yaml, seed):
        readers(sweep, whole, seed)


@seeds
@several
def test_roofs(sweep: Path, whole: Path, seed: int) -> None:
    with changed(sweep / "roofs.json", as_json, seed):
        read_stored(sweep / "roofs.json")
        readers(sweep, whole, seed)


@seeds
@several
def test_machine(sweep: Path, whole: Path, seed: int) -> None:
    with changed(sweep / "machine-gpu-0123456789.json", as_json, seed):
        readers(sweep, whole, seed)


@seeds
@several
def test_samples(sweep: Path, whole: Path, seed: int) -> None:
    with changed(sweep / "1/samples.csv", mutated_table, seed):
        survives("compare", whole, sweep, "--no-files")


@seeds
@several
def test_configuration(sweep: Path, whole: Path, seed: int) -> None:
    with changed(sweep / "0/.hydra/config.yaml", as_yaml, seed):
        readers(sweep, whole, seed)


@seeds
@several
def test_table_of_points(whole: Path, published: Path, seed: int) -> None:
    folder = whole.parent / "table"
    folder.mkdir(exist_ok=True)
    if not (folder / "points.csv").exists():
        survives("diagnose", whole, "--output", whole.parent / "copy")
        shutil.copy(whole.parent / "copy/points.csv", folder)
    with changed(folder / "points.csv", mutated_table, seed):
        survives("report", folder, "--output", whole.parent / "page.html")


@seeds
@several
def test_packed_points(published: Path, whole: Path, seed: int) -> None:
    with changed(published / "points.jsonl.xz", packed(a_line), seed):
        readers(published, whole, seed)


@seeds
@several
def test_packed_configurations(published: Path, whole: Path, seed: int) -> None:
    with changed(published / "configs.jsonl.xz", packed(a_line), seed):
        readers(published, whole, seed)


@seeds
@several
def test_packed_samples(published: Path, whole: Path, seed: int) -> None:
    with changed(published / "samples.csv.xz", packed(mutated_table), seed):
        survives("compare", whole, published, "--no-files")


@seeds
@several
@example(seed=160)
def test_kernel(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    folder = tmp_path_factory.getbasetemp() / "kernels"
    (folder / "kernel").mkdir(parents=True, exist_ok=True)
    original = CONF / "kernel" / random.choice(("gemm.yaml", "saxpy.yaml", "softmax.yaml", "layernorm.yaml"))
    (folder / "kernel/mutant.yaml").write_bytes(as_yaml(original.read_bytes(), random))
    with contextlib.suppress(BadInputError, SkippedError):
        load_kernel("mutant", [folder, CONF], "fp32", None, {}, "normal")


@seeds
@several
@example(seed=111186978)
def test_report_of_ncu(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    names = ("ncu06b_plain.csv", "rl05_copy_raw.csv", "h200_raw_autounits.csv", "ncu15a_ncu_names.csv")
    original = (DATA / random.choice(names)).read_bytes()[:20_000]
    file = tmp_path_factory.getbasetemp() / "report.csv"
    file.write_bytes(random.choice((mutated_table, mutated_bytes))(original, random))
    survives("place", file, *random.choice(([], ["--by", "kernel"], ["--json"], ["--machine", "h200"])))


@seeds
@several
def test_card(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    file = tmp_path_factory.getbasetemp() / "card.yaml"
    file.write_bytes(as_yaml((CONF / "machine/h200.yaml").read_bytes(), Random(seed)))
    survives("place", DATA / "rl05_copy_raw.csv", "--machine", file)
