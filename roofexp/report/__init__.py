"""One self-contained page for a sweep, made from its files. Importing this is cheap."""

from roofexp.report.page import REPORT, write_report

__all__ = ["REPORT", "write_report"]
