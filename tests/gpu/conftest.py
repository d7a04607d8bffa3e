"""Tests that need a GPU: skipped with the reason elsewhere. Nothing here changes a setting of the GPU."""

from __future__ import annotations

import pytest

from roofexp.devices.cuda.machine import why_no_cuda


@pytest.fixture(autouse=True, scope="session")
def gpu() -> None:
    reason = why_no_cuda(0)
    if reason:
        pytest.skip(f"needs a GPU: {reason}")
