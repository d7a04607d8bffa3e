"""A sweep from its first check to its summary."""
