"""A declarative, YAML-driven roofline experiment runner."""

from pathlib import Path

__version__ = "0.1.0"

# ``python -m roofexp.doctor`` is commands/doctor.py: a command needs no second file of the same name up here.
__path__.append(str(Path(__file__).with_name("commands")))
