"""The page of a sweep of a thousand points: time and size, beside drawing its figures in the same process.

Seconds of the processor: both are one thread's work, so that is their time on a quiet machine.

make bench        (or: python -m pytest tests/bench/bench_report.py -s)
"""

from __future__ import annotations

import time
from pathlib import Path

from roofexp.report import write_report
from roofexp.report.contents import read_contents
from roofexp.report.figures import redraw
from tests.made_sweep import make_sweep

POINTS = 1000
MOST_S, MOST_BYTES = 20.0, 15_000_000


def test_a_page_of_a_thousand_points(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "sweep", POINTS)
    start = time.process_time()
    drawn = redraw(read_contents(folder))
    figures_s = time.process_time() - start
    start = time.process_time()
    page = write_report(folder)
    page_s = time.process_time() - start
    svg_bytes = sum(file.stat().st_size for file in drawn if file.suffix == ".svg")
    print(
        f"\n{POINTS} points: figures {figures_s:.1f} s, page {page_s:.1f} s (ratio {page_s / figures_s:.2f}), "
        f"together {figures_s + page_s:.1f} s (at most {MOST_S:.0f}); page {page.stat().st_size / 1e6:.1f} MB "
        f"(at most {MOST_BYTES / 1e6:.0f}), of which figures {svg_bytes / 1e6:.1f} MB before they are shortened"
    )
    assert page.read_text().count("<tbody id=") == POINTS
    assert page.stat().st_size < MOST_BYTES
    assert figures_s + page_s < MOST_S
