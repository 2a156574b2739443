"""Links of a hub's cache: ``MODEL/snapshots/REVISION/.../FILE -> ../../blobs/HASH``, and no other links.

A model's folder there holds links only; the files lie in ``MODEL/blobs``. Nothing here follows a link: its text is
read, must have this form, and its parts are opened one by one.
"""

import os
import re
import stat

_LINK = re.compile(r"((?:\.\./){2,})blobs/([0-9A-Za-z_][0-9A-Za-z_.-]*)")


def blob_of(name: str, at: int) -> tuple[int, str] | None:
    """Return the folder of blobs, open, and the name in it that a link of a hub's cache means.

    Args:
      name: of a link.
      at: the folder that it lies in, open.

    Returns:
      None for any other link.
    """
    found = _LINK.fullmatch(os.readlink(name, dir_fd=at))
    if not found:
        return None
    plain = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    model, below = os.dup(at), os.fstat(at)
    try:
        for _ in range(len(found[1]) // len("../")):
            below, outer = os.fstat(model), os.open("..", plain, dir_fd=model)
            os.close(model)
            model = outer
        names = os.listdir(model)
        if "snapshots" not in names or "blobs" not in names:
            return None
        snapshots, blobs = (os.stat(name, dir_fd=model, follow_symlinks=False) for name in ("snapshots", "blobs"))
        if not os.path.samestat(snapshots, below) or not stat.S_ISDIR(blobs.st_mode):
            return None
        return os.open("blobs", plain, dir_fd=model), found[2]
    finally:
        os.close(model)
