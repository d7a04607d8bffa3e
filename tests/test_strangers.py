"""Folders and files of a stranger, opened by every command in a sandbox: no code of theirs runs, nothing is written
outside, no secret of the reader comes in, and bad input is one line."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofexp.config.guard import own_values
from roofexp.config.input_files import refuse_links_out
from roofexp.records.archive import pack
from roofexp.run.replay import replayed
from roofexp.text.addresses import without_secrets
from tests.conftest import CACHE, QUICK, python_path
from tests.counted_sweep import make_sweep

SECRET = "hush-9f27"
SERVER = f"http://ada:{SECRET}@localhost:9/?token={SECRET}"
NOBODY = 65534
NO_NETWORK = """\
import socket

def refused(self, address, *rest):
    raise OSError(f"network: {address}")

if hasattr(socket, "AF_INET"):
    socket.socket.connect = refused
    socket.socket.connect_ex = refused
"""
WORDS = [*(word for word in QUICK if word != "figures=none"), "figures=none"]
Result = subprocess.CompletedProcess[str]


def can_step_down() -> bool:
    """Whether another user than root can start this interpreter."""
    if os.geteuid() != 0:
        return False
    try:
        words = [sys.executable, "-c", "import roofexp"]
        done = subprocess.run(
            words, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={"PYTHONPATH": python_path()},
            capture_output=True, timeout=60,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0


class Sandbox:
    """A reader's working folder, and beside it what must stay as it is: a canary, a home, a stranger's code."""

    def __init__(self, place: Path) -> None:
        self.place, self.work, self.outside = place, place / "work", place / "outside"
        for folder in (self.work, self.outside, place / "site", place / "home"):
            folder.mkdir(parents=True)
        self.canary = self.outside / "canary"
        self.canary.write_text("alive")
        (self.outside / "code.py").write_text(f"open({str(self.outside / 'ran')!r}, 'w').close()\ndef ok(*a): pass\n")
        program = self.outside / "program"
        program.write_text(f"#!/bin/sh\ntouch {self.outside}/ran\n")
        program.chmod(0o755)
        (place / "site/sitecustomize.py").write_text(NO_NETWORK)
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if can_step_down() else {}

    def run(self, *words: str) -> Result:
        """One command of the program, as a user without rights where that can be."""
        command = words[0] if not words[0].startswith(("-", "resume")) and "=" not in words[0] else ""
        module = f"roofexp.{command}" if command else "roofexp"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.place / "site"), python_path()]),
            "HOME": str(self.place / "home"),
            "XDG_CACHE_HOME": str(self.place / "home" if self.user else CACHE),
            "SECRET_TOKEN": SECRET,
            "MLFLOW_TRACKING_URI": SERVER,
        }
        if self.user:
            for folder in [self.place, *self.place.rglob("*")]:
                if self.outside not in (folder, *folder.parents) and not folder.is_symlink():
                    os.chown(folder, NOBODY, NOBODY)
        return subprocess.run(
            [sys.executable, "-m", module, *(words[1:] if command else words)], cwd=self.work, env=environment,
            capture_output=True, text=True, timeout=200, **self.user,
        )  # fmt: skip

    def check(self, done: Result, what: str) -> None:
        """That nothing happened which must not."""
        said = done.stdout + done.stderr
        assert "Traceback" not in said, f"{what}: {said[-3000:]}"
        assert SECRET not in said, f"{what}: {said[-2000:]}"
        assert sorted(file.name for file in self.outside.iterdir()) == ["canary", "code.py", "program"], what
        assert self.canary.read_text() == "alive", what
        assert not [file for file in self.place.iterdir() if file.name not in ("work", "outside", "site", "home")], what
        for file in self.work.rglob("*"):
            assert SECRET not in str(file), what
            if file.is_file() and not file.is_symlink():
                data = file.read_bytes()
                assert SECRET.encode() not in (lzma.decompress(data) if file.suffix == ".xz" else data), (
                    f"{what}: {file}"
                )


@pytest.fixture
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    place = tmp_path_factory.mktemp("sandbox")
    for folder in (place, *list(place.parents)[:2]):
        if os.geteuid() == 0:
            folder.chmod(0o755)
    return Sandbox(place)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two points as somebody measured it."""
    jobs = [[*WORDS, "kernel=vadd", f"size={size}"] for size in (1000, 2000)]
    return make_sweep(tmp_path_factory.mktemp("measured") / "sweep", *jobs)


Config = dict[str, Any]
Change = Callable[[Path, str], None]


def configured(**changes: Any) -> Change:
    """Every stored configuration with ``changes`` in it; OUT stands for the folder outside."""

    def change(folder: Path, outside: str) -> None:
        for file in folder.glob("*/.hydra/config.yaml"):
            config = yaml.safe_load(file.read_text())
            for path, value in json.loads(json.dumps(changes).replace("OUT", outside)).items():
                node = config
                *above, last = path.split("__")
                for key in above:
                    node = node[key]
                node[last] = value
            file.write_text(yaml.safe_dump(config))

    return change


def described(**changes: Any) -> Change:
    """sweep.yaml with ``changes`` in it; ``words`` are added to its arguments."""

    def change(folder: Path, outside: str) -> None:
        told = json.loads(json.dumps(changes).replace("OUT", outside))
        sweep = yaml.safe_load((folder / "sweep.yaml").read_text())
        sweep["arguments"] = [*WORDS, "kernel=vadd", "size=1000,2000,3000", *told.pop("words", [])]
        (folder / "sweep.yaml").write_text(yaml.safe_dump(sweep | {"plain_run": False} | told))

    return change


def linked(name: str, target: str) -> Change:
    def change(folder: Path, outside: str) -> None:
        place = folder / name
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(target.replace("OUT", outside))

    return change


def drawn(folder: Path, outside: str) -> None:
    (folder / "figures").mkdir(exist_ok=True)
    (folder / "figures/roofline.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert("{outside}")</script>'
        '<a href="javascript:alert(2)"><rect width="5" height="5" onclick="alert(3)"/></a></svg>'
    )


OTHER_CODE = {"about": "x", "precisions": ["fp32", "fp64"]}
FOLDERS: dict[str, Change] = {
    "numpy writes": configured(kernel__cpu=None, kernel__numpy={"call": "savetxt('OUT/ran', x)"}),
    "numpy runs": configured(kernel__cpu=None, kernel__numpy={"call": "f2py.os.system('touch OUT/ran')"}),
    "numpy unpickles": configured(kernel__cpu=None, kernel__numpy={"call": "load('OUT/ran', allow_pickle=True)"}),
    "numpy by class": configured(kernel__cpu=None, kernel__numpy={"call": "add.__class__.mro(x)"}),
    "formula writes": configured(kernel__reference="x + y if x.tofile('OUT/ran') is None else x"),
    "formula of work": configured(kernel__work__flops="n.__class__.__mro__"),
    "absolute code": configured(kernel__cpu={"function": "OUT/code.py:ok"}),
    "code above": configured(kernel__cpu={"factory": "../../../../../../../OUT/code.py:ok"}),
    "kernel file of Python": configured(kernel__cpu={"function": "stream/vadd.py:__loader__"}),
    "environment": configured(kernel__about="${oc.env:SECRET_TOKEN}"),
    "environment by parts": configured(kernel__about="${oc.${fill}:SECRET_TOKEN}", fill="env"),
    "environment in name": configured(name="x_${oc.env:SECRET_TOKEN}"),
    "environment in places": configured(
        outputs="${oc.env:SECRET_TOKEN}", tracking__uri="${oc.env:MLFLOW_TRACKING_URI}"
    ),
    "program": configured(counters__ncu="OUT/program", counters__level="basic"),
    "server": configured(tracking__store="server", tracking__uri="http://x.example:5000"),
    "rules": configured(placing__rules="OUT/canary"),
    "gate": configured(gate="OUT/canary"),
    "name above": described(name="../../outside/sweep"),
    "name of controls": described(name="a\x1b[2Jb"),
    "callback": described(words=["+hydra.callbacks.evil={_target_:os.system,command:'touch OUT/ran'}"]),
    "launcher": described(words=["hydra.launcher._target_=subprocess.call", "hydra/launcher=../../x"]),
    "config folder": described(words=["--config-dir", "OUT"]),
    "search path": described(words=["hydra.searchpath=[file://OUT]"]),
    "folder": described(words=["hydra.sweep.dir=OUT/sweep", "hydra.sweep.subdir=../../../outside/sweep"]),
    "outputs": described(words=["outputs=OUT", "roofs=measure"]),
    "environment of the worker": described(
        words=["+hydra.job.env_set.PYTHONPATH=OUT", "hydra.job.env_copy=[SECRET_TOKEN]"]
    ),
    "counters": described(words=["counters.ncu=OUT/program", "counters=basic"]),
    "counters in braces": described(words=["counters={ncu:OUT/program}"]),
    "store": described(words=["tracking=sqlite", "tracking.uri=sqlite:///OUT/mlflow.db"]),
    "secret in a word": described(words=["++kernel.about='${oc.env:SECRET_TOKEN}'"]),
    "logging": described(words=["hydra.job_logging.handlers={x:{'()':os.system,command:'touch OUT/ran'}}"]),
    "words": described(arguments={"a": 1}),
    "point linked": linked("1/point.json", "OUT/canary"),
    "job linked": linked("1", "OUT"),
    "figures linked": linked("figures", "OUT"),
    "table linked": linked("points.csv", "OUT/canary"),
    "report linked": linked("report.html", "OUT/canary"),
    "figure": drawn,
}
OPENED: dict[str, list[str]] = {  # in the order in which a reader would; F is the folder
    "report": ["report", "F"],
    "redraw": ["report", "F", "--redraw", "--output", "page.html"],
    "diagnose": ["diagnose", "F"],
    "compare": ["compare", "F", "other"],
    "gate": ["gate", "F", "--gate", "rules.yaml"],
    "count": ["count", "F"],
    "track": ["track", "F", "--uri", "sqlite:///mlflow.db"],
    "publish": ["publish", "F", "published", "--dirty"],
    "place": ["place", "F/points.csv"],
    "resume": ["resume=F"],
    "reproduce": ["reproduce", "F"],
}


def opened(sandbox: Sandbox, measured: Path, change: Change, commands: tuple[str, ...]) -> dict[str, Result]:
    folder = Path(shutil.copytree(measured, sandbox.work / "F"))
    described()(folder, "")
    change(folder, str(sandbox.outside))
    shutil.copytree(measured, sandbox.work / "other")
    (sandbox.work / "rules.yaml").write_text("rules: [{name: all, when: 'true', require: 'time_s > 0'}]\n")
    results = {}
    for name in commands:
        results[name] = sandbox.run(*OPENED[name])
        sandbox.check(results[name], name)
    return results


MEASURED = ("numpy", "formula", "code", "kernel file", "program", "server", "gate", "rules")  # each a job of one folder


def all_jobs(folder: Path, outside: str) -> None:
    """A job for every change of what is measured, in one folder: opening it takes as long as opening one."""
    changes = [FOLDERS[name] for name in FOLDERS if any(part in name for part in MEASURED)]
    for number, change in enumerate(changes):
        whole = folder.parent / f"of{number}"
        shutil.copytree(folder / "0", whole / "0")
        (whole / "sweep.yaml").write_text((folder / "sweep.yaml").read_text())
        change(whole, outside)
        record = json.loads((whole / "0/point.json").read_text())
        (whole / "0/point.json").write_text(json.dumps(record | {"job": number}))
        shutil.rmtree(folder / str(number), ignore_errors=True)
        shutil.move(whole / "0", folder / str(number))
        shutil.rmtree(whole)


def all_words(folder: Path, outside: str) -> None:
    """Every word that a stranger would have replayed, in one command line."""
    words: list[str] = []
    for name in WORDED:
        FOLDERS[name](folder, outside)
        words += yaml.safe_load((folder / "sweep.yaml").read_text())["arguments"][len(WORDS) + 2 :]
    described(words=words)(folder, outside)


WORDED = (
    *("callback", "launcher", "search path", "folder", "outputs", "environment of the worker", "counters", "store"),
    *("secret in a word", "logging"),
)
GROUPS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "jobs": (all_jobs, ("report", "diagnose", "compare", "reproduce", "count")),
    "words": (all_words, ("resume", "report")),
    **{name: (FOLDERS[name], ("report", "reproduce")) for name in FOLDERS if name.startswith("environment ")},
    "environment": (FOLDERS["environment"], ("report", "diagnose", "compare", "reproduce", "publish", "track")),
    **{name: (FOLDERS[name], ("report", "resume")) for name in FOLDERS if name.endswith("linked")},
    **{name: (FOLDERS[name], ("resume",)) for name in ("config folder", "counters in braces", "words")},
    **{name: (FOLDERS[name], ("reproduce",)) for name in ("name above", "name of controls")},
    "figure": (drawn, ("report",)),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_strangers_folder_runs_nothing(name: str, sandbox: Sandbox, measured: Path) -> None:
    opened(sandbox, measured, *GROUPS[name])


def test_every_command_opens_it_without_harm(sandbox: Sandbox, measured: Path) -> None:
    """All at once in one folder, by all commands."""

    def everything(folder: Path, outside: str) -> None:
        for name in ("formula writes", "program", "server", "environment in places", "figure", "callback", "outputs"):
            FOLDERS[name](folder, outside)

    results = opened(sandbox, measured, everything, tuple(OPENED))
    assert {name: done.returncode for name, done in results.items() if done.returncode not in (0, 1, 2)} == {}
    page = (sandbox.work / "F/report.html").read_text()
    assert "alert" not in page
    assert "onclick" not in page


@pytest.mark.parametrize("name", ["numpy runs", "environment", "absolute code"])
def test_a_published_folder_runs_nothing(name: str, sandbox: Sandbox, measured: Path) -> None:
    made = Path(shutil.copytree(measured, sandbox.work / "made"))
    described()(made, "")
    published = sandbox.work / "F"
    published.mkdir()
    pack(made, published)
    FOLDERS[name](made, str(sandbox.outside))  # a stranger writes the packed lines as they like
    shutil.copy(made / "sweep.yaml", published / "sweep.yaml")
    configs = [
        {"job": int(file.parts[-3]), "config": yaml.safe_load(file.read_text())}
        for file in sorted(made.glob("*/.hydra/config.yaml"))
    ]
    lines = "".join(json.dumps(entry) + "\n" for entry in configs)
    (published / "configs.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    for words in (["report", "F"], ["reproduce", "F"], ["resume=F"]):
        sandbox.check(sandbox.run(*words), words[0])


EXPERIMENTS: dict[str, Config] = {
    "callback": {"hydra": {"callbacks": {"evil": {"_target_": "os.system", "command": "touch OUT/ran"}}}},
    "own callback": {"hydra": {"callbacks": {"sweep": {"_target_": "pathlib.Path", "_args_": ["x"]}}}},
    "nested": {"hydra": {"callbacks": {"sweep": {"x": {"_target_": "os.system", "command": "touch OUT/ran"}}}}},
    "launcher": {"hydra": {"launcher": {"_target_": "subprocess.call"}}},
    "sweeper": {"hydra": {"sweeper": {"_target_": "timeit.timeit"}}},
    "logging": {"hydra": {"job_logging": {"handlers": {"x": {"()": "os.system", "command": "touch OUT/ran"}}}}},
    "log file": {
        "hydra": {"hydra_logging": {"handlers": {"x": {"class": "logging.FileHandler", "filename": "OUT/ran"}}}}
    },
    "variables": {"hydra": {"job": {"env_set": {"PYTHONPATH": "OUT"}}}},
    "copied variables": {"hydra": {"job": {"env_copy": ["SECRET_TOKEN"]}}},
    "folder": {"hydra": {"run": {"dir": "OUT/sweep"}, "sweep": {"dir": "OUT/sweep"}}},
    "outputs": {"outputs": "OUT"},
    "name": {"name": "../../outside/x"},
    "secret name": {"name": "x_${oc.env:SECRET_TOKEN}"},
    "secret about": {"kernel": {"about": "${oc.decode:${oc.env:SECRET_TOKEN}}"}},
    "secret by parts": {"kernel": {"about": "${oc.${fill}:SECRET_TOKEN}"}, "fill": "normal"},
    "server": {"tracking": {"store": "server", "uri": "http://${oc.env:SECRET_TOKEN}.example"}},
    "store": {"tracking": {"store": "sqlite", "uri": "sqlite:///OUT/mlflow.db"}},
    "program": {"counters": {"ncu": "OUT/program"}},
    "swept program": {"hydra": {"mode": "MULTIRUN", "sweeper": {"params": {"counters.ncu": "OUT/program,OUT/x"}}}},
    "swept folder": {"hydra": {"mode": "MULTIRUN", "sweeper": {"params": {"hydra.sweep.dir": "OUT/a,OUT/b"}}}},
    "search path": {"hydra": {"searchpath": ["file://OUT"]}},
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_of_a_stranger_is_refused_in_one_line(name: str, sandbox: Sandbox) -> None:
    file = sandbox.work / "conf/experiment/evil.yaml"
    file.parent.mkdir(parents=True)
    text = yaml.safe_dump(EXPERIMENTS[name]).replace("OUT", str(sandbox.outside))
    file.write_text(f"# @package _global_\ndefaults:\n  - override /kernel: vadd\n{text}")
    words = [word for word in WORDS if not word.startswith("tracking")]
    done = sandbox.run("--config-dir", "conf", "experiment=evil", "size=1000", *words)
    sandbox.check(done, name)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    if done.returncode == 2:
        assert done.stderr.startswith("roofexp: ")
        assert done.stderr.count("\n") == 1


def test_passwords_of_the_users_own_server_are_kept_nowhere(sandbox: Sandbox) -> None:
    words = ["kernel=vadd", "size=1000,2000", *(word for word in WORDS if not word.startswith("tracking")), "-m"]
    for how in (["tracking=server"], [f"tracking.uri={SERVER}"], []):
        done = sandbox.run(*words, *how)
        sandbox.check(done, str(how))
        assert done.returncode == 0, done.stderr
        assert "http://***@localhost:9" in done.stdout
    folders = sorted(file.parent for file in sandbox.work.glob("outputs/*/*/sweep.yaml"))
    sandbox.check(sandbox.run("report", str(folders[0])), "report")


def test_what_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out/vadd/now"
    outputs = tmp_path / "out"
    safe = ["kernel=vadd", "size=1,2", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", f"outputs={outputs}",
            "hydra.sweep.subdir=${kernel.name}_${size}", "--gate", "rules.yaml"]  # fmt: skip
    unsafe = ["hydra.launcher.setup=[x]", "hydra/launcher=evil", "hydra={run:{dir:x}}", "+hydra.callbacks.x=y",
              "--info", f"outputs={tmp_path}", "tracking.uri=http://x", "counters.ncu=./x",
              "hydra.sweep.subdir=../x"]  # fmt: skip
    assert replayed([*safe, *unsafe], folder, []) == safe
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert all(word in told for word in unsafe)


def test_a_link_within_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "sweep/0").mkdir(parents=True)
    (tmp_path / "sweep/latest").symlink_to("0")
    (tmp_path / "short").symlink_to("sweep")
    refuse_links_out(tmp_path / "short")


def test_the_programs_own_server_setting_is_the_users() -> None:
    assert "${oc.env:MLFLOW_TRACKING_URI,null}" in own_values("tracking.uri")


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("http://u:p@host:5000/a", "http://***@host:5000/a"),
        ("postgresql+psycopg2://u:p@ss@h/db?password=q", "postgresql+psycopg2://***@h/db?password=***"),
        ("https://host?token=abc&x=1", "https://host?token=***&x=***"),
        ("word='http://u:p/w@h' next", "word='http://***@h' next"),
        ("sqlite:////home/me@work/m.db", "sqlite:////home/me@work/m.db"),
        ("http://host:5000", "http://host:5000"),
    ],
)
def test_an_address_is_kept_without_its_secrets(address: str, kept: str) -> None:
    assert without_secrets(address) == kept
