"""Named points from one table, ``conf/cases.yaml``, as options of Hydra's group ``case``; and lists of options by
pattern for the experiments: ``kernel: ${options:kernel,faults/*}``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from roofexp.config.paths import conf_folder, is_inner
from roofexp.config.yaml_file import read_mapping
from roofexp.errors import BadInputError

GROUPS = ("kernel", "precision", "cache")  # a row names a file of each
KERNEL_KEYS = ("shape", "params")  # a row's own values of the kernel
ROW_KEYS = (*GROUPS, "size", *KERNEL_KEYS)


def register_cases(table: Path) -> None:
    """Every row of the table becomes an option of the group ``case``. Raises BadInputError for an unusable row."""
    from hydra.core.config_store import ConfigStore

    for name, row in read_mapping(table).items():
        ConfigStore.instance().store(
            group="case", name=name, node=_case(f"{table.name}: {name}", row), package="_global_"
        )


def register_options() -> None:
    """The resolver ``options``, in alphabetical order; a user's own folder is not searched."""
    OmegaConf.register_new_resolver("options", lambda group, pattern: ",".join(_options(group, pattern)), replace=True)


def _case(where: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict) or not set(row) <= set(ROW_KEYS):
        raise BadInputError(f"{where}: write {{kernel: ..., precision: ...}}; keys: {', '.join(ROW_KEYS)}")
    case: dict[str, Any] = {"defaults": [{f"override /{group}": row[group]} for group in GROUPS if group in row]}
    if "size" in row:
        case["size"] = row["size"]
    kernel = {key: row[key] for key in KERNEL_KEYS if key in row}
    return case | ({"kernel": kernel} if kernel else {})


def _options(group: str, pattern: str) -> list[str]:
    if not is_inner(group) or not is_inner(pattern):
        raise BadInputError(f"options:{group},{pattern}: leads out of conf")
    folder = conf_folder() / group
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.glob(f"{pattern}.yaml"))
