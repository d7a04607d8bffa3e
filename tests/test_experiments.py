"""Experiments that are written down: every point composes and builds, and what a CPU can do runs in small."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from roofexp.config.plain import plain
from roofexp.config.schema import KernelConfig, register
from roofexp.config.settings import TimingSettings
from roofexp.kernel import Kernel
from roofexp.kernel.load import kernel_of
from roofexp.measure.bench import Request
from roofexp.run.session import Session
from tests.kernel_cases import CONF, kernel_yaml, precision_config

FILES = {file.stem: file for file in sorted((CONF / "experiment").glob("*.yaml"))}
GROUPS = {"case", *(folder.name for folder in CONF.iterdir() if folder.is_dir())}
GPU_ONLY = {"faults", "soak_gemm", "soak_gemv"}
PICKED = (
    "case",
    "kernel",
)  # groups of many options: put together here, much faster than by Hydra
STATES = ("cache", "clock", "clock.duty", "device", "fill")  # of the machine and the data, not of the kernel
SMALL, LARGE_BYTES = 64, 10_000_000
Settings = dict[str, Any]


@functools.cache
def swept(name: str) -> dict[str, list[str]]:
    registered()  # the resolver of patterns
    params = OmegaConf.load(FILES[name]).hydra.sweeper.params
    return {key: [text.strip() for text in str(values).split(",")] for key, values in params.items()}


def combinations(values: dict[str, list[str]]) -> Iterator[dict[str, str]]:
    for chosen in itertools.product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


registered = functools.cache(register)


@functools.cache
def composed(words: tuple[str, ...]) -> DictConfig:
    registered()
    with initialize_config_dir(str(CONF), version_base=None):
        return compose("config", overrides=[*words, "roofs=none", "tracking=none"])


def points(params: dict[str, list[str]], name: str) -> Iterator[Settings]:
    """The configuration of every point of an experiment that sweeps ``params``; groups are composed, values set."""
    groups = {key: values for key, values in params.items() if key in GROUPS and key not in PICKED}
    others = {key: values for key, values in params.items() if key not in groups}
    for group in combinations(groups):
        config = composed((f"experiment={name}", *(f"{key}={value}" for key, value in group.items())))
        packed = pickle.dumps(config)  # unpickling copies a configuration in a fifth of the time of a deep copy
        for values in combinations(others):
            yield plain(with_values(pickle.loads(packed), values))


@functools.cache
def all_points(name: str) -> list[Settings]:
    return list(points(swept(name), name))


def with_values(config: DictConfig, values: dict[str, str]) -> DictConfig:
    """The configuration itself, changed."""
    for key, value in sorted(values.items(), key=lambda pair: pair[0] not in PICKED):
        if key == "case":
            take_case(config, value)
        elif key == "kernel":
            take_kernel(config, value)
        else:
            OmegaConf.update(config, key, yaml.safe_load(value))
    return config


@functools.cache
def cases() -> dict[str, Settings]:
    return yaml.safe_load((CONF / "cases.yaml").read_text())


def take_case(config: DictConfig, name: str) -> None:
    """A row of conf/cases.yaml: the files that it names, then its own values."""
    row = cases()[name]
    take_kernel(config, row["kernel"])
    for folder in ("precision", "cache"):
        if folder in row:
            config[folder] = OmegaConf.merge(config[folder], OmegaConf.load(CONF / folder / f"{row[folder]}.yaml"))
    if "size" in row:
        config.size = row["size"]
    for key in ("shape", "params"):
        config.kernel[key].update(row.get(key, {}))


def take_kernel(config: DictConfig, name: str) -> None:
    config.kernel = typed_kernel(name)  # OmegaConf copies it


@functools.cache
def typed_kernel(name: str) -> DictConfig:
    return OmegaConf.merge(OmegaConf.structured(KernelConfig), kernel_yaml(name))  # type: ignore[return-value]


@pytest.mark.parametrize("name", FILES)
def test_every_point_composes_and_builds(name: str) -> None:
    built = [kernel_of(settings) for settings in all_points(name)]
    assert all(kernel.work.flops or kernel.work.dram_bytes for kernel in built)
    identities = {(k.name, k.size, k.precision, str(k.params), str(k.shape)) for k in built}
    states = {*STATES, "case"} & set(swept(name))
    assert len(identities) == len(built) or states, "two points are the same"


@pytest.mark.parametrize("name", [name for name in FILES if set(PICKED) & set(swept(name))])
def test_hydra_composes_the_same(name: str) -> None:
    """The last choice of each group, in full by Hydra, beside what the test above made of it."""
    choices = {key: values[-1] for key, values in swept(name).items()}
    words = tuple(f"{key}={value}" for key, value in choices.items())
    assert plain(composed((f"experiment={name}", *words))) == all_points(name)[-1]


@pytest.mark.parametrize("name", FILES)
def test_says_what_it_shows_and_lies_in_its_own_folder(name: str) -> None:
    text = FILES[name].read_text()
    comment = " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))
    assert "See:" in comment, "the comment says what one should see"
    assert any(unit in comment for unit in (" s ", " s,", "minute")), "the comment says how long it takes"
    assert "H200" in comment or "any machine" in comment or "CPU" in comment
    settings = yaml.safe_load(text)
    assert settings["name"] == name
    assert settings["hydra"]["mode"] == "MULTIRUN"


@pytest.fixture(scope="module")
def session(cache_folder: Any) -> Iterator[Session]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_folder))
        session = Session("cpu:1", [CONF])
        yield session
        session.stop()


def small_kernels(name: str) -> dict[str, Kernel]:
    """What ``experiment=NAME device=cpu precision=fp32 size=64`` measures, the same work once."""
    kernels = {}
    params = {key: values for key, values in swept(name).items() if key not in (*STATES, "precision")}
    for settings in points(params | {"size": [str(SMALL)]}, name):
        if "fp32" in settings["kernel"]["precisions"] and settings["kernel"]["params"].get("k", 0) <= 8:
            kernel = kernel_of(settings | {"precision": precision_config("fp32")})
            if kernel.work.working_set_bytes < LARGE_BYTES:  # some shapes hold other dimensions than the size
                kernels[f"{kernel.name} {kernel.params}"] = kernel
    return kernels


@pytest.fixture(scope="module")
def ran() -> dict[str, str | None]:
    """Why a kernel did not run, by label: experiments share kernels, and each runs once."""
    return {}


@pytest.mark.parametrize("name", FILES)
def test_runs_in_small_on_a_cpu(name: str, session: Session, ran: dict[str, str | None]) -> None:
    timing = TimingSettings(**composed(("timing=quick", "timing.budget_s=0.01", "timing.warmup_s=0"))["timing"])
    clock = {"mode": "observe", "sample_s": 0.02}
    kernels = {
        label: kernel for label, kernel in small_kernels(name).items() if {"cpu", "numpy"} & set(kernel.implementations)
    }
    for label, kernel in kernels.items():
        if label not in ran:
            reply = session.run(Request(kernel=kernel, timing=timing, cold=False, seed=1, clock=clock))
            ran[label] = None if reply.status == "ok" else reply.reason
    assert {label: ran[label] for label in kernels if ran[label]} == {}
    assert kernels or name in GPU_ONLY
