"""A declarative, YAML-driven roofline experiment runner."""

__version__ = "0.1.0"
