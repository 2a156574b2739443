"""Read tensors that lie in files beside the model, and no other file."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from jaxdml.onnx import _memory
from jaxdml.onnx._errors import must_be_text, unsupported
from jaxdml.onnx.reading.hub import blob_of

KEYS = ("location", "offset", "length", "checksum", "basepath")

MOST_READINGS = 64
"""How many times its own size may be read from a file: several tensors may name the same bytes."""

SPARE = 2**20
"""Bytes that may always be read, since small tensors may well name the same bytes many times."""


class Folder:
    """The folder of a model.

    Attributes:
      path: None where the model was not given as a path.
    """

    def __init__(self, path: Path | None):
        self.path = path
        self._taken: dict[str, int] = {}
        self._filled = 0

    def read(self, tensor: onnx.TensorProto, what: str, wanted: int) -> np.ndarray:
        """Return the bytes of a tensor whose data is external.

        Args:
          tensor: names a file, an offset and a length.
          what: the tensor's name for errors.
          wanted: how many bytes its dtype and shape take.
        """
        entries = _entries(tensor, what)
        location = entries["location"]
        offset = _number(entries.get("offset", "0"), "offset", what)
        length = _number(entries.get("length", str(wanted)), "length", what)
        if length != wanted:
            raise unsupported(f"{what} has {length} bytes in '{location}', and its dtype and shape need {wanted}.")
        descriptor = self._open(location, what)
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            if offset + wanted > size:
                rule = f"{what} is {wanted} bytes from {offset} on in '{location}', which has {size} bytes."
                raise unsupported(rule, "The file may be truncated, or belong to another model.")
            self.take(location, wanted, size, what)
            file.seek(offset)
            data = np.fromfile(file, np.uint8, wanted)
        if data.size != wanted:
            raise unsupported(f"'{location}' became shorter while {what} was read.")
        return data

    def take(self, location: str, wanted: int, size: int, what: str) -> None:
        """Count what is read of a file, so that a small file cannot become a lot of memory.

        Args:
          location: the file.
          wanted: how many bytes are about to be read.
          size: how many it has.
          what: which tensor they are for.
        """
        taken = self._taken[location] = self._taken.get(location, 0) + wanted
        if taken > MOST_READINGS * size + SPARE:
            rule = f"with {what}, tensors read {taken} bytes from '{location}', which has {size}."
            raise unsupported(rule, f"At most {MOST_READINGS} times its size is read, since more fills the memory.")

    def fill(self, size: int, what: str) -> None:
        """Count the memory that sparse tensors take, which may be any multiple of their bytes in the file.

        Args:
          size: how many bytes are about to be taken.
          what: which tensor they are for.
        """
        self._filled += size
        if self._filled > _memory.of_host():
            rule = f"with {what}, sparse tensors take {self._filled} bytes when they are made dense."
            raise unsupported(rule, f"The machine has {_memory.of_host()}.")

    def _open(self, location: str, what: str) -> int:
        """Open a file within the folder, or the one that a link of a hub's cache means.

        Whatever could lead elsewhere, or is no plain file, is refused.
        """
        if self.path is None:
            rule = f"{what} lies in the file '{location}', and the model was not given as a path."
            raise unsupported(rule, "Give the path of the model's file, or store the tensors in the model itself.")
        parts = [part for part in location.split("/") if part != "."]
        if not parts or not all(parts) or ".." in parts or "\\" in location or "\0" in location:
            rule = f"{what} lies in '{location}', which is not a plain path within the model's folder."
            raise unsupported(rule, "Absolute paths, '..', backslashes and empty parts are refused.")
        if os.open not in os.supports_dir_fd:
            raise unsupported(f"{what} lies in another file, which this system cannot open safely.")
        *folders, name = parts
        plain = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            at = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for folder in folders:
                    _must_not_be_link(os.stat(folder, dir_fd=at, follow_symlinks=False), folder, location, what)
                    inner = os.open(folder, plain | os.O_DIRECTORY, dir_fd=at)
                    os.close(at)
                    at = inner
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
                blob = blob_of(name, at) if stat.S_ISLNK(status.st_mode) else None
                if blob:
                    os.close(at)
                    at, name = blob
                    status = os.stat(name, dir_fd=at, follow_symlinks=False)
                # Asked before it is opened, since to open a device may already do something.
                _must_be_file(status, name, location, what)
                descriptor = os.open(name, plain, dir_fd=at)
            finally:
                os.close(at)
        except OSError as error:
            rule = f"{what} lies in '{location}', which cannot be opened: {error.strerror}."
            raise unsupported(rule, f"The model's folder is '{self.path}'.") from None
        try:
            _must_be_file(os.fstat(descriptor), name, location, what)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _must_not_be_link(status: os.stat_result, part: str, location: str, what: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        rule = f"{what} lies in '{location}', where '{part}' is a symbolic link."
        advice = "Resolve the links first, as with 'cp -rL FOLDER COPY'; only those of a hub's cache are followed."
        raise unsupported(rule, advice)


def _must_be_file(status: os.stat_result, part: str, location: str, what: str) -> None:
    _must_not_be_link(status, part, location, what)
    if not stat.S_ISREG(status.st_mode):
        raise unsupported(f"{what} lies in '{location}', which is no plain file.")
    if status.st_nlink > 1:
        rule = f"{what} lies in '{location}', which is a hard link: the file has {status.st_nlink} names."
        raise unsupported(rule, "Resolve the links first: copy the file.")


def _entries(tensor: onnx.TensorProto, what: str) -> Mapping[str, str]:
    must_be_text(*(text for entry in tensor.external_data for text in (entry.key, entry.value)))
    entries = {entry.key: entry.value for entry in tensor.external_data}
    unknown = sorted(set(entries) - set(KEYS))
    if unknown or len(entries) != len(tensor.external_data) or "location" not in entries:
        found = ", ".join(repr(entry.key[:40]) for entry in tensor.external_data[:10]) or "nothing"
        rule = f"{what} lies in another file, and what describes it holds {found}."
        raise unsupported(rule, f"It must hold 'location', and each of {', '.join(map(repr, KEYS[1:]))} at most once.")
    return entries


def _number(text: str, key: str, what: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        rule = f"{what} lies in another file, with the {key} {text[:40]!r}."
        raise unsupported(rule, "It must be an integer, 0 or more.")
    return int(text)
