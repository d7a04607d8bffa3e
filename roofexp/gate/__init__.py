"""The gate: rules that the points of a sweep must keep, for CI. Importing this imports nothing heavy."""
