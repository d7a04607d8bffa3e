"""The layout of the program: sizes of modules, the direction of imports, and documents that name what is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "roofexp"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES, MOST_README_LINES = 400, 200
ROOMS = sorted(f"{folder.name}/" for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file())
DOCUMENTS = [ROOT / room / "README.md" for room in (".", "conf", "kernels", "outputs", "roofexp", "tests")]
NAMED = re.compile(r"`([\w./*<>-]+\.(?:py|yaml|cuh|cu|md|toml|csv)|[\w-]+(?:/[\w-]+)*/)`")
IMPORTS = re.compile(r"^(?:from|import) (roofexp[\w.]*)", re.MULTILINE)
LINKED = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def test_a_module_can_be_read_in_one_sitting() -> None:
    lengths = {module.relative_to(ROOT).as_posix(): len(module.read_text().splitlines()) for module in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_every_module_says_what_it_holds() -> None:
    concepts = [module for module in MODULES if module.name != "__main__.py"]
    silent = [module for module in concepts if not module.read_text().startswith('"""')]
    assert [module.relative_to(ROOT).as_posix() for module in silent] == []


def test_imports_go_one_way() -> None:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", code, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_measured_code_imports_only_what_is_made_for_it() -> None:
    imported = {name for file in (ROOT / "kernels").rglob("*.py") for name in IMPORTS.findall(file.read_text())}
    assert {
        name for name in imported if not name.startswith("roofexp.kernel.llvm.") and name != "roofexp.errors"
    } == set()


def test_the_state_of_a_process_is_held_in_one_place() -> None:
    """``roofexp/run/process.py`` holds it; no other module keeps the sweep or the open devices in a global."""
    holders = [
        module.name for module in MODULES if re.search(r"^_(CURRENT|SESSIONS)\b", module.read_text(), re.MULTILINE)
    ]
    assert holders == []


def test_the_page_of_the_program_names_files_that_exist() -> None:
    files = [name for name in NAMED.findall((PACKAGE / "README.md").read_text()) if "/" in name]
    assert len(files) >= 30
    assert [
        name for name in files if not (PACKAGE / name).exists() and name not in ("llvm/", "kinds/", "canvas/")
    ] == []


def test_the_page_of_the_program_lists_every_room_in_the_order_of_imports() -> None:
    listed = re.findall(r"^\| `(\w+/)` \|", (PACKAGE / "README.md").read_text(), re.MULTILINE)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.findall(r"roofexp\.(\w+)", layer) for layer in contracts[0]["layers"]]
    order = {f"{room}/": place for place, rooms in enumerate(layers) for room in rooms}
    assert sorted(listed) == ROOMS
    assert listed == sorted(listed, key=order.__getitem__)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_links_of_a_document_lead_somewhere(document: Path) -> None:
    assert [link for link in LINKED.findall(document.read_text()) if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_code_that_a_document_names_is_there(document: Path) -> None:
    named = re.findall(r"(?<![\w/])(?:roofexp|tests|conf)/[\w/]+\.(?:py|yaml)", document.read_text())
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []


def test_every_folder_of_conf_is_explained() -> None:
    text = (ROOT / "conf/README.md").read_text()
    folders = [folder.name for folder in (ROOT / "conf").iterdir() if folder.is_dir() and folder.name != "local"]
    assert [name for name in folders if f"| `{name}/` |" not in text] == []
    experiments = [file.stem for file in (ROOT / "conf/experiment").glob("*.yaml")]
    assert [name for name in experiments if f"`{name}`" not in text] == []


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MOST_README_LINES
