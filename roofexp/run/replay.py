"""What of a stored command line is run again. A sweep's folder may be somebody else's: its words may say what is
measured, and not which programs, servers, folders or code of Python are used for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roofexp.config.paths import is_inner
from roofexp.errors import BadInputError

BRINGS_CODE = ("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn")
GATE = "--gate"  # a file of rules, which are only read
SAFE_HYDRA = {  # keys of Hydra's, with the values that may be stored; empty: any number or word
    "hydra/launcher": ("basic", "joblib", "submitit_local", "submitit_slurm", "ray"),
    "hydra/sweeper": ("basic", "optuna"),
    "hydra.launcher.n_jobs": (),
    "hydra.job.chdir": (),
    "hydra.job.config.override_dirname.exclude_keys": (),
    "hydra.job.config.override_dirname.item_sep": (),
    "hydra.job.config.override_dirname.kv_sep": (),
}
USERS = ("counters.ncu", "tracking.uri")  # programs and servers


def replayed(stored: Any, folder: Path, typed: Sequence[str]) -> list[str]:
    """The words of ``stored`` that are safe; a line on standard error names those that are not. ``typed``: what the
    user gives now.

    Raises BadInputError for words that are no texts, and for a folder of code that the user does not name again.
    """
    if not isinstance(stored, list) or not all(isinstance(word, str) and word.isprintable() for word in stored):
        raise BadInputError(f"{folder / 'sweep.yaml'}: arguments: not a list of words")
    kept, dropped = [], []
    words = iter(stored)
    for word in words:
        option, _, value = word.partition("=")
        if option in BRINGS_CODE:
            _refuse_code(option, value or next(words, ""), folder, typed)
        elif option == GATE:
            kept += [word] if value else [word, next(words, "")]
        elif word.startswith("-"):
            dropped.append(word)
        else:
            (kept if _is_safe(word, folder) else dropped).append(word)
    if dropped:
        print(
            f"resume: not taken over from sweep.yaml, which another may have written: {' '.join(dropped)}; give it "
            f"again if you trust it",
            file=sys.stderr,
        )
    return kept


def _refuse_code(option: str, value: str, folder: Path, typed: Sequence[str]) -> None:
    if not any(word.partition("=")[0] in BRINGS_CODE for word in typed):
        raise BadInputError(
            f"resume={folder}: it was measured with {option} {value}, which may bring code; if you trust that folder, "
            f"give it again: resume={folder} {option} {value}"
        )


def _is_safe(word: str, folder: Path) -> bool:
    key, _, value = word.partition("=")
    key = key.lstrip("+~")
    if "oc.env" in word or key in USERS:
        return False
    if key == "outputs":
        return Path(value.strip("'\"")).resolve() == folder.resolve().parent.parent
    if key == "hydra.sweep.subdir":
        return is_inner(value.strip("'\""))
    if key.startswith("hydra"):
        return key in SAFE_HYDRA and (not SAFE_HYDRA[key] or value in SAFE_HYDRA[key])
    return True
