"""Two sweeps compared point by point: what changed, beyond what two runs of the same thing differ by."""
