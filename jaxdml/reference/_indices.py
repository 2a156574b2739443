"""Define what an index addresses, for every operator with indices."""


def resolve(index: int, size: int, mode: str) -> int | None:
    """Return the position from 0 that ``index`` addresses in a dimension of ``size``, or None if it addresses none."""
    position = index + size if index < 0 else index
    if 0 <= position < size:
        return position
    if mode in ("drop", "fill"):
        return None
    if mode == "clip":
        return min(max(position, 0), size - 1) if size else None
    raise IndexError(f"index {index} is out of range for size {size}, against the caller's promise")
