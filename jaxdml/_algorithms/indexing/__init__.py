"""Read and write elements at indexed positions."""
