"""Where a sweep lies and what it keeps beside: long paths, long names."""

from __future__ import annotations

from pathlib import Path

LONG = [letter * 200 for letter in "def"]


def test_a_path_of_600_characters(program, tmp_path: Path) -> None:
    done = program("kernel=saxpy", "size=1000", f"outputs={'/'.join(LONG)}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("d*/e*/f*/saxpy/*/0/point.json"))


def test_a_name_of_300_bytes_is_one_line_before_the_sweep(program, tmp_path: Path) -> None:
    done = program("kernel=saxpy", "size=1000", f"name={'a' * 300}")
    assert done.returncode == 2
    assert "longer than 255 bytes; shorten outputs= or name=" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("outputs/*/*/sweep.yaml"))
