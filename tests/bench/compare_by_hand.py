"""Puts a sweep of ``experiment=h200_by_hand`` beside the figures once measured by hand on an H200.

    python -m tests.bench.compare_by_hand SWEEP_FOLDER > TABLE.csv

The hand figures stand below in the unit they were noted in; ``better`` is above 1 where this program's figure is.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

# case: (column of points.csv, figure by hand in SI units); a time is better when it is lower, a rate when it is higher
BY_HAND: dict[str, tuple[str, float]] = {
    "dram_read": ("bytes_per_s", 4522e9),
    "dram_copy": ("bytes_per_s", 4278e9),
    "dram_vadd": ("bytes_per_s", 4385e9),
    "ffma": ("flops_per_s", 65.1e12),
    "dfma": ("flops_per_s", 33.0e12),
    "hfma2": ("flops_per_s", 66.8e12),
    "l2_read": ("bytes_per_s", 4.7e12),
    "softmax_bf16": ("time_s", 418e-6),
    "layernorm_bf16": ("time_s", 178e-6),
    "rmsnorm_bf16": ("time_s", 150e-6),
    "silu_mul_eager_bf16": ("time_s", 320e-6),
    "sdpa_prefill_bf16": ("time_s", 1051e-6),
    "sdpa_decode_bf16": ("time_s", 240e-6),
    "gemm_fp8_8192": ("flops_per_s", 1279e12),
    "gemm_int8_8192": ("flops_per_s", 916e12),
    "gemm_torch_bf16_256": ("time_s", 2.75e-6),
    "gemm_torch_bf16_512": ("time_s", 3.33e-6),
    "gemm_torch_bf16_1024": ("time_s", 5.34e-6),
    "gemm_torch_bf16_2048": ("time_s", 24.8e-6),
    "gemm_torch_bf16_4096": ("time_s", 204e-6),
    "gemm_torch_bf16_8192": ("time_s", 1623e-6),
    "gemm_fp16_8192": ("flops_per_s", 654e12),
    "gemm_tf32_8192": ("flops_per_s", 344e12),
    "gemm_fp64_8192": ("flops_per_s", 60.5e12),
    "gemm_fp32_8192": ("flops_per_s", 51.2e12),
}


def main() -> None:
    rows = list(csv.DictReader((Path(sys.argv[1]) / "points.csv").open()))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["case", "kernel", "precision", "size", "quantity", "by_hand", "measured", "better"])
    for (case, (column, by_hand)), row in zip(BY_HAND.items(), rows, strict=True):
        measured = float(row[column])
        better = by_hand / measured if column == "time_s" else measured / by_hand
        named = [case, row["kernel"], row["precision"], row["size"], column]
        writer.writerow([*named, f"{by_hand:.4g}", f"{measured:.4g}", f"{better:.3f}"])


if __name__ == "__main__":
    main()
