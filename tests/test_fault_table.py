"""The table of faults in tests/README.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (TESTS / "README.md").read_text().partition("\n## Faults")[2].splitlines()[8:]
    if line.startswith("|")
]


def test_it_is_a_table_of_faults() -> None:
    assert len(ROWS) >= 60
    assert all(len(row) == 4 and all(row) for row in ROWS)
    tests = [row[2] for row in ROWS]
    assert len(set(tests)) == len(tests)


@pytest.mark.parametrize("name", [row[2].strip("`") for row in ROWS])
def test_each_test_is_there(name: str) -> None:
    file, _, function = name.partition("::")
    assert re.search(rf"^def {function}\(", (TESTS / file).read_text(), re.MULTILINE), name
