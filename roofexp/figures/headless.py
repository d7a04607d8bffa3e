"""Imports Matplotlib without a display, whatever DISPLAY and MPLBACKEND say; to be imported before Matplotlib is.

Figures are made from Matplotlib's objects and the Agg canvas, never through pyplot, so a backend that the user chose
for other windows of the same process stays as it is.
"""

from __future__ import annotations

import os

__all__ = ["matplotlib"]

_asked = os.environ.get("MPLBACKEND")
os.environ["MPLBACKEND"] = "agg"  # a misspelt or foreign backend would already end the import
try:
    import matplotlib
finally:
    if _asked is None:
        del os.environ["MPLBACKEND"]
    else:
        os.environ["MPLBACKEND"] = _asked
