"""How numbers, lines and tables reach a reader."""
