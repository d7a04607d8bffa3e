"""A launch that does nothing: what starting and joining the threads costs."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba import get_num_threads

from roofexp.devices.native import Arguments, Team


def empty() -> None:
    """On all threads."""
    _team(get_num_threads()).run()


@functools.cache
def _team(threads: int) -> Team:
    return Team(_return, threads)


def _return(builder: ir.IRBuilder, thread: ir.Value, words: Arguments) -> Any:
    """The worker returns at once."""
