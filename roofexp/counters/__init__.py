"""Hardware counters: reading what ncu prints, and what its metrics mean."""
