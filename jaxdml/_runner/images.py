"""Images as tensors: {1, C, H, W} of numbers from 0 to 1. Pillow reads and writes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxdml._runner.text import refuse

SUFFIXES = (".png", ".jpg", ".jpeg")


def _pillow(path: str, file: Path) -> Any:
    try:
        from PIL import Image
    except ImportError:
        refuse(path, "needs Pillow (pip install pillow) for images", file.name)
    return Image


def read(path: str, file: Path, sizes: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Return the elements of an image, resampled to ``sizes``; DirectML's scaler computes other pixels."""
    image = _pillow(path, file)
    channels = sizes[1] if len(sizes) == 4 else 3
    with image.open(file) as opened:
        pixels = opened.convert("RGB" if channels == 3 else "RGBA")
    if len(sizes) == 4:
        pixels = pixels.resize((sizes[3], sizes[2]), image.Resampling.BICUBIC)
    return (np.moveaxis(np.asarray(pixels, np.float32), -1, 0) / 255).astype(dtype)


def write(path: str, tensor: np.ndarray, file: Path) -> None:
    """Write a tensor of one, three or four channels as an image: clamped, times 255, without the fraction."""
    if tensor.ndim != 4 or tensor.shape[0] != 1 or tensor.shape[1] not in (1, 3, 4):
        refuse(path, "must have dimensions [1, C, H, W] with 1, 3 or 4 channels for an image", list(tensor.shape))
    pixels = (np.clip(np.moveaxis(tensor[0].astype(np.float32), 0, -1), 0, 1) * 255).astype(np.uint8)
    _pillow(path, file).fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file)
