"""The help text. Written here and not by Hydra, which loads every file of every group to list their names."""

from __future__ import annotations

import itertools
from pathlib import Path

from roofexp.config.yaml_file import read_mapping

USAGE = """roofexp measures kernels against the roofs of this machine.

  python -m roofexp                                      one point: gemm at its default size
  python -m roofexp kernel=gemm size=256,1024,4096 -m    a sweep: lists are swept with -m
  python -m roofexp experiment=quick                     a sweep that is written down; no -m needed
  python -m roofexp resume=outputs/gemm/DATE             only what is missing of a sweep
  python -m roofexp kernel=gemm --gate rules.yaml        exit code 1 where a point breaks a rule
  python -m roofexp --cfg job                            the whole configuration, without running
  python -m roofexp --config-dir my_conf kernel=mine     kernels and settings of your own

Choose by group=option:
"""

NOT_CHOSEN = (".",)

CLOSING = """
Change any value by key=value: size=4096 device=cpu:2 fill=zeros kernel.params.tile=16 timing.budget_s=5

Further commands, each with --help: python -m roofexp.doctor, .roofs, .place, .count, .report, .compare,
.gate, .track
Hydra's own options: python -m roofexp --hydra-help"""


def help_text(folders: list[Path]) -> str:
    """``folders`` are configuration folders; the options of all are listed together."""
    groups: dict[str, set[str]] = {}
    for folder in folders:
        for file in folder.rglob("*.yaml"):
            group = file.parent.relative_to(folder).as_posix()
            if group not in NOT_CHOSEN:
                groups.setdefault(group, set()).add(file.stem)
        if (folder / "cases.yaml").is_file():
            groups.setdefault("case", set()).update(read_mapping(folder / "cases.yaml"))
    lines = [f"  {group}: {', '.join(sorted(options))}" for group, options in sorted(groups.items())]
    return "\n".join([USAGE, *lines, CLOSING])


def config_folders(arguments: list[str], own: Path) -> list[Path]:
    """The program's folder and the one that ``--config-dir`` names."""
    named = [value for option, value in itertools.pairwise(arguments) if option in ("--config-dir", "-cd")]
    return [own, *(Path(value) for value in named)]
