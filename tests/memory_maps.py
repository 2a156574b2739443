"""Count the memory maps of this process: Linux limits them, and every compiled program takes about ten."""

from pathlib import Path

PROCESS, SYSTEM = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")


def used() -> int | None:
    """Return how many maps this process has, or None on a system that does not list them."""
    try:
        return PROCESS.read_bytes().count(b"\n")
    except OSError:
        return None


def allowed() -> int:
    """Return how many maps a process may have."""
    return int(SYSTEM.read_text())


def complaint(used: int, allowed: int) -> str | None:
    """Say what to do where more than half of the allowed maps are used, or return None."""
    if 2 * used <= allowed:
        return None
    return (
        f"{used} memory maps are in use, more than half of the {allowed} that Linux allows a process; beyond them it "
        "crashes. Compile fewer programs in this module, or split it: after each module its programs are released."
    )
