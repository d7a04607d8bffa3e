"""Figures of a sweep: frame in, figure out. Nothing here measures, and importing this is cheap."""

from roofexp.figures.gallery import draw_all

__all__ = ["draw_all"]
