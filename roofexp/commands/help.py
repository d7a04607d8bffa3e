"""The help of the program. Hydra would load every file of every group to list their names; this only looks for them."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofexp.commands import COMMANDS
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

CLOSING = f"""
Change any value by key=value: size=4096 device=cpu:2 fill=zeros kernel.params.tile=16 timing.budget_s=5

Commands, each with --help (python -m roofexp.NAME, or roofexp NAME):
{chr(10).join(f"  {name:9} {description}" for name, description in COMMANDS.items())}

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
    """``own`` and the folder that ``--config-dir FOLDER`` or ``--config-dir=FOLDER`` names."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config-dir", "-cd", type=Path, nargs="?")
    folder = parser.parse_known_args(arguments)[0].config_dir
    return [own, folder] if folder else [own]
