"""Floor 2: one file a kernel says which algorithm serves on which platform, and from which size."""
