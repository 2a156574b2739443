"""A file of blocks of bytes with a description: what ``Artifact`` is kept in. Nothing in it is code of Python.

Its parts: ``MAGIC``, ``FORMAT``, the SHA-256 of all that follows, the size of the description, the description in JSON,
and the blocks.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from jaxdml.onnx._errors import unsupported

MAGIC = b"jaxdml.onnx\n"
"""The first bytes; no ONNX model starts with them."""

FORMAT = 1
"""Changes with what follows. A file of another format is refused."""

_HEAD, _SIZE = struct.Struct("<12sI32s"), struct.Struct("<Q")

AGAIN = "Write it again: python -m jaxdml.onnx MODEL --compile NAME=LENGTHS --out FILE."


def is_one(model: Any) -> bool:
    """Whether a path, or bytes, lead to such a file."""
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model[: len(MAGIC)]) == MAGIC
    if not isinstance(model, str | os.PathLike):
        return False
    with Path(model).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def write(path: Path, description: Mapping[str, Any], blocks: Sequence[bytes]) -> int:
    """Write a file and return its size."""
    described = json.dumps([description, [len(block) for block in blocks]]).encode()
    parts = [_SIZE.pack(len(described)), described, *blocks]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    with path.open("wb") as file:
        return sum(map(file.write, [_HEAD.pack(MAGIC, FORMAT, digest.digest()), *parts]))


def read(model: Any) -> tuple[Any, Iterator[memoryview]]:
    """Return the description and the blocks of a path, or of bytes, once their digest is right."""
    data = memoryview(Path(model).read_bytes() if isinstance(model, str | os.PathLike) else bytes(model))
    head = bytes(data[: _HEAD.size]).ljust(_HEAD.size, b"\0")
    _, version, digest = _HEAD.unpack(head)
    if len(data) >= _HEAD.size and version != FORMAT:
        rule = f"the artifact has format {version}; this version of jaxdml reads format {FORMAT}."
        raise unsupported(rule, AGAIN)
    rest = data[_HEAD.size :]
    if hashlib.sha256(rest).digest() != digest:
        raise unsupported("the artifact is truncated, or has been changed.", AGAIN)
    (size,) = _SIZE.unpack_from(rest)
    blocks = rest[_SIZE.size + size :]
    description, sizes = json.loads(bytes(rest[_SIZE.size : _SIZE.size + size]))
    return description, (blocks[a:b] for a, b in pairwise(accumulate(sizes, initial=0)))
