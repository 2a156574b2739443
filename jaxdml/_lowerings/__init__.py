"""Floor 2: one file an operator says which method serves on which platform, and from which size."""
