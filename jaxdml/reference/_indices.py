"""What an index means, for every operator with indices."""


def resolve(index: int, size: int, mode: str) -> int | None:
    """Return the place that an index means in a dimension of this size, or None to leave the update out."""
    place = index + size if index < 0 else index
    if 0 <= place < size:
        return place
    if mode == "drop":
        return None
    if mode == "clip":
        return min(max(place, 0), size - 1) if size else None
    raise IndexError(f"index {index} is out of range for size {size}, against the caller's promise")
