"""What the access mixes of a memory level are made of."""

STREAMS = {"read": (1, 0), "write": (0, 1), "copy": (1, 1), "triad": (2, 1)}  # arrays that a mix reads and writes
