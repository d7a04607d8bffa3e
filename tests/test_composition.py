"""Jobs that share a composition are what Hydra would have composed, mistakes included."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import ValidationError

from roofexp.config.cases import register_cases
from roofexp.config.composition import SharingLoader, share_compositions
from roofexp.config.schema import register
from roofexp.errors import BadInputError
from tests.kernel_cases import CONF

Loaders = tuple[ConfigLoaderImpl, SharingLoader]


@pytest.fixture(scope="module")
def loaders() -> Iterator[Loaders]:
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        own = hydra.config_loader
        share_compositions([f"hydra.{key}=" for key in ("sweep.subdir", "sweep.dir", "job.env_copy", "searchpath")])
        yield own, hydra.config_loader


def compose(loader: ConfigLoaderImpl, overrides: list[str]) -> str:
    return OmegaConf.to_yaml(loader.load_configuration("config", overrides, RunMode.RUN))


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["size=3", "kernel=gemm_tiled", "kernel.params.tile=8", "timing.budget_s=1", "timing=quick"],
        ["+kernel.params.new={a: 1, b: [2, 3]}", "kernel.params.new.a=7", "~kernel.params.new.b", "++size=5"],
        ["kernel.work={flops: 1, bytes: 2}", "kernel.shape.n=${size}", "name='a=b, c'", "fill=zeros"],
        ["hydra.sweep.subdir=${hydra.job.override_dirname}", "hydra.job.config.override_dirname.exclude_keys=[size]"],
        ["hydra.job.name=other", "size=4", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"],
        ["case=dfma", "device=cpu:2", "~figures", "+figures=paper", "machine=b200"],
        ["hydra.job.env_copy=[PATH]", "size=8"],
    ],
)
def test_a_shared_composition_is_hydras(loaders: Loaders, overrides: list[str]) -> None:
    own, sharing = loaders
    expected = compose(own, overrides)
    assert compose(sharing, overrides) == expected
    assert compose(sharing, overrides) == expected  # from what was kept


@pytest.mark.parametrize(
    "overrides",
    [
        ["size=abc"], ["sise=3"], ["+size=3"], ["~nothing"], ["kernel=nope"], ["size=1,2"], ["kernel@here=gemm"],
        ["size@here=3"],
    ],
)  # fmt: skip
def test_what_hydra_refuses_is_refused_in_its_words(loaders: Loaders, overrides: list[str]) -> None:
    refusals = []
    for loader in loaders:
        with pytest.raises(Exception) as refusal:  # noqa: PT011 (whatever Hydra raises)
            compose(loader, overrides)
        cause = refusal.value.__cause__ or refusal.value.__context__
        refusals.append((type(refusal.value), str(refusal.value), str(cause)))
    assert refusals[0] == refusals[1]


def test_jobs_of_the_same_files_compose_once(loaders: Loaders, monkeypatch: pytest.MonkeyPatch) -> None:
    composed = []
    original = ConfigLoaderImpl.load_configuration

    def counted(self, config_name, overrides, *rest, **named):
        composed.append(overrides)
        return original(self, config_name, overrides, *rest, **named)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", counted)
    for size in range(5):
        for kernel in ("vadd", "gemm"):
            compose(loaders[1], ["timing=thorough", f"kernel={kernel}", f"size={size}"])
    assert composed == [["timing=thorough", "kernel=vadd"], ["timing=thorough", "kernel=gemm"]]


def test_copies_keep_types_and_are_independent(loaders: Loaders) -> None:
    first = loaders[1].load_configuration("config", ["size=3"], RunMode.RUN)
    with open_dict(first):
        first.kernel.params.mine = 1
    second = loaders[1].load_configuration("config", ["size=4"], RunMode.RUN)
    assert (first.size, second.size) == (3, 4)
    assert "mine" not in second.kernel.params
    with pytest.raises(ValidationError):
        second.size = "abc"


def test_jobs_of_a_sweep_take_its_time_of_start(loaders: Loaders, monkeypatch: pytest.MonkeyPatch) -> None:
    master = loaders[0].load_configuration("config", ["size=1,2"], RunMode.MULTIRUN)
    monkeypatch.setattr(HydraConfig.instance(), "cfg", master)
    started = master.hydra.sweep.dir
    jobs = [loader.load_sweep_config(master, ["size=1"]) for loader in loaders]
    assert [job.hydra.sweep.dir for job in jobs] == [started, started]


def test_the_users_folders_and_files_count(loaders: Loaders, tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/mine.yaml").write_text("name: mine\nsize: 8\n")
    overrides = [f"hydra.searchpath=[file://{tmp_path}]", "kernel=mine", "size=9"]
    assert compose(loaders[1], overrides) == compose(loaders[0], overrides)


def test_launchers_are_sent_no_compositions(loaders: Loaders) -> None:
    compose(loaders[1], ["kernel=saxpy", "size=3"])
    sent = pickle.dumps(loaders[1])
    assert b"saxpy" not in sent
    assert compose(pickle.loads(sent), ["size=3"]) == compose(loaders[0], ["size=3"])


def test_a_loader_that_is_not_hydras_stays(loaders: Loaders) -> None:
    share_compositions()
    hydra = GlobalHydra.instance().hydra
    assert hydra is not None
    assert hydra.config_loader is loaders[1]


CASES = yaml.safe_load((CONF / "cases.yaml").read_text())


def test_a_case_is_its_row_of_the_table(loaders: Loaders) -> None:
    config = loaders[1].load_configuration("config", ["case=gemm_tile_16"], RunMode.RUN)
    assert (config.kernel.name, config.precision.name.name, config.size) == ("gemm_tiled", "fp32", 2048)
    assert config.kernel.params.tile == 16
    hot = loaders[1].load_configuration("config", ["case=read_hot", "size=8"], RunMode.RUN)
    assert (hot.kernel.name, hot.cache.state.name, hot.size) == ("read", "hot", 8)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("gemm")])
def test_the_name_of_a_product_says_which_kernel_makes_it(name: str) -> None:
    kernel = {"gemm_tile": "gemm_tiled"}.get(name.rpartition("_")[0], CASES[name]["kernel"])
    assert CASES[name]["kernel"] == kernel
    assert name.startswith(kernel.removesuffix("d"))
    others = {case["kernel"] for case in CASES.values() if case["kernel"].startswith(f"{kernel}_")}
    assert not any(name.startswith(f"{other}_") for other in others)


def test_a_row_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text("mine: {kernel: gemm, sise: 8}\n")
    with pytest.raises(BadInputError, match=r"cases.yaml: mine: .*keys: kernel, precision, cache, size, shape, params"):
        register_cases(tmp_path / "cases.yaml")


def test_options_by_pattern_are_the_files_of_the_group() -> None:
    config = OmegaConf.create({"faults": "${options:kernel,faults/*}", "products": "${options:kernel,gemm_t*}"})
    assert config.faults.split(",") == sorted(f"faults/{file.stem}" for file in (CONF / "kernel/faults").glob("*.yaml"))
    assert config.products == "gemm_tiled,gemm_torch"


def test_a_case_of_the_users_own_is_a_file(loaders: Loaders, tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    lines = "# @package _global_\ndefaults: [{override /kernel: gemv}, {override /precision: fp32}]\nsize: 8192\n"
    (tmp_path / "case/mine.yaml").write_text(lines)
    overrides = [f"hydra.searchpath=[file://{tmp_path}]", "case=mine"]
    config = loaders[0].load_configuration("config", overrides, RunMode.RUN)
    assert (config.kernel.name, config.size) == ("gemv", 8192)
