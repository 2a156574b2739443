"""One folder for each kernel: its methods, who serves on which platform, and what crosses shards.

What other floors and other kernels may use of a kernel is in its ``__init__``.
"""
