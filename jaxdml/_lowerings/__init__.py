"""Floor 2: one file per kernel, which chooses the algorithm by platform, size and dtype."""
