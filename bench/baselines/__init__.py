"""Models that ours are compared with."""
