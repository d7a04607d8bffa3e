"""What counters must say of kernels whose work is known: asked of a GPU, and of the capture that one left.

A capture is the counters.csv of every point, gathered in one table.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from roofexp.ncu.launch import Launch, Metric
from roofexp.records.point import Counted, Point

GEMM = ["fp64", "tf32", "fp16", "bf16"]
STREAMS = ["copy", "vadd", "triad", "saxpy"]
STREAM_SIZE = 1 << 28  # 2 to 3 GiB: tens of times what L2 holds
TILES = [8, 16, 32]
CASES: dict[str, list[str]] = {
    "saxpy": ["kernel=saxpy", "size=67108864"],
    **{f"gemm {p}": ["kernel=gemm", "size=4096", f"precision={p}"] for p in GEMM},
    "gemm fp8": ["kernel=gemm_fp8", "size=4096", "precision=fp8"],
    **{f"stream {name}": [f"kernel={name}", f"size={STREAM_SIZE}"] for name in STREAMS},
    **{f"tile {t}": ["kernel=gemm_tiled", "size=2048", f"kernel.params.tile={t}"] for t in TILES},
    "eager": ["kernel=silu_mul_eager", "size=134217728", "precision=bf16"],
    "vector": ["kernel=gemv_cublas", "size=8192", "precision=bf16"],
    "odd": ["kernel=gemm", "size=1000", "precision=bf16"],
    "hot": ["kernel=copy", "size=1048576", "cache=hot"],
    "transpose naive": ["kernel=transpose_naive", "size=8192"],
    "transpose padded": ["kernel=transpose_padded", "size=8192"],
}
DIAGNOSED = ("transpose naive", "transpose padded")  # of the rest traffic at every level is enough

Points = Mapping[str, Point]


def counted(points: Points, case: str) -> Counted:
    found = points[case].counted
    if found is not None and found.unavailable and "PyTorch" in found.unavailable:
        pytest.skip(found.unavailable)
    assert found is not None
    assert found.unavailable is None, found.unavailable
    return found


def saxpy_counts_two_flops_per_element(points: Points) -> None:
    assert counted(points, "saxpy").flops == 2 * 67108864


def matrix_products_count_two_n_cubed(points: Points) -> None:
    for precision in [*GEMM, "fp8"]:
        found = counted(points, f"gemm {precision}")
        assert found.flops == pytest.approx(2 * 4096**3, rel=1e-3), precision
        assert not [
            flag for flag in points[f"gemm {precision}"].flags if flag.name in ("issued FLOPs", "clock mismatch")
        ]
        assert 0.3 < (found.peak_fraction or 0) < 1.02, precision


def streams_move_their_compulsory_bytes(points: Points) -> None:
    for name in STREAMS:
        point = points[f"stream {name}"]
        assert counted(points, f"stream {name}").dram_bytes == pytest.approx(point.work.dram_bytes, rel=0.03), name
        assert point.traffic.source == "counted"


def tiles_divide_the_traffic_of_l1_and_not_of_dram(points: Points) -> None:
    dram = [counted(points, f"tile {tile}").dram_bytes for tile in TILES]
    for tile in TILES:
        assert counted(points, f"tile {tile}").l1_bytes == pytest.approx(8 * 2048**3 / tile, rel=0.01), tile
        assert counted(points, f"tile {tile}").flops == pytest.approx(2 * 2048**3, rel=0.01)
    assert max(dram) < 1.1 * min(dram)


def an_eager_op_shows_both_kernels_and_their_bytes(points: Points) -> None:
    found, elements = counted(points, "eager"), 134217728
    assert sum(kernel.launches for kernel in found.kernels) == 2
    first, second = found.kernels
    assert first.dram_bytes == pytest.approx(2 * 2 * elements, rel=0.06)  # writes that stay in L2 are not DRAM's
    assert second.dram_bytes == pytest.approx(3 * 2 * elements, rel=0.06)
    assert found.dram_bytes == first.dram_bytes + second.dram_bytes
    assert found.time_s == pytest.approx(first.time_s + second.time_s)


def a_naive_transpose_touches_a_sector_per_element(points: Points) -> None:
    naive, padded = counted(points, "transpose naive"), counted(points, "transpose padded")
    assert max(naive.sectors_per_load, naive.sectors_per_store) == pytest.approx(32, rel=0.01)
    assert max(padded.sectors_per_load, padded.sectors_per_store) <= 16  # four bytes, or sixteen at once, per thread
    assert naive.l2_bytes > 2 * padded.l2_bytes


def padding_is_counted_and_named(points: Points) -> None:
    for case in ("vector", "odd"):
        found = counted(points, case)
        if any("_tensor" in kind and value for kind, value in found.flops_by_type.items()) and found.flops_ratio > 1.01:
            assert any("padding" in flag.message for flag in points[case].flags), case
    assert counted(points, "odd").flops_ratio > 1.01


def what_fits_in_l2_and_is_hot_moves_little_through_dram(points: Points) -> None:
    point, found = points["hot"], counted(points, "hot")
    assert (point.traffic.level, point.traffic.source) == ("l2", "counted")
    assert found.l2_bytes == pytest.approx(point.work.dram_bytes, rel=0.03)
    assert found.cache_control == "none"


def times_clocks_and_cycles_agree(points: Points) -> None:
    for case, point in points.items():
        if point.counted and point.counted.unavailable is None:
            found = counted(points, case)
            assert found.time_s > 0, case
            assert 5e8 < found.sm_hz < 3e9, case
            if found.time_s > 50e-6:
                assert found.cycles == pytest.approx(found.time_s * found.sm_hz, rel=0.02), case


FACTS: list[Callable[[Points], None]] = [
    saxpy_counts_two_flops_per_element,
    matrix_products_count_two_n_cubed,
    streams_move_their_compulsory_bytes,
    tiles_divide_the_traffic_of_l1_and_not_of_dram,
    an_eager_op_shows_both_kernels_and_their_bytes,
    a_naive_transpose_touches_a_sector_per_element,
    padding_is_counted_and_named,
    what_fits_in_l2_and_is_hot_moves_little_through_dram,
    times_clocks_and_cycles_agree,
]


def gather(folders: Mapping[str, Path], file: Path) -> None:
    """One table of what every point's counters.csv says."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", "launch", "kernel", "metric", "value", "unit"])
    for case, folder in folders.items():
        if (folder / "counters.csv").is_file():
            rows = list(csv.reader((folder / "counters.csv").open()))[1:]
            writer.writerows([case, *row] for row in rows)
    file.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def read_gathered(file: Path) -> dict[str, list[Launch]]:
    """The launches of every case."""
    launches: dict[str, dict[str, Launch]] = {}
    for row in csv.DictReader(io.StringIO(gzip.decompress(file.read_bytes()).decode())):
        own = launches.setdefault(row["case"], {})
        fresh = Launch(process=None, launch=None, kernel=row["kernel"], architecture="9.0", metrics={})
        own.setdefault(row["launch"], fresh).metrics[row["metric"]] = _metric(row["value"], row["unit"])
    return {case: list(own.values()) for case, own in launches.items()}


def _metric(text: str, unit: str) -> Metric:
    try:
        return Metric(float(text) if text else None, unit)
    except ValueError:
        return Metric(None, unit, text)
