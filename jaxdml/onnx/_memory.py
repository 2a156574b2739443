"""How much memory there is."""

import os
from functools import cache


@cache
def of_host() -> int:
    """Return the bytes of memory that this machine has; 1 TiB where the system does not say."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return 2**40
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
