"""Implement the image tools of the peers that need no screen: reading, writing and resizing by Pillow."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ..runtime.usage_errors import FieldError, MissingPackage


def _pillow() -> Any:
    """Return Pillow's module `Image`; raise MissingPackage if Pillow is not installed."""
    try:
        return import_module("PIL.Image")
    except ImportError as missing:
        raise MissingPackage("Pillow is not installed", "pip install pillow") from missing


def cook_image_to_bytes(img: Any) -> np.ndarray:
    """Return an image as an array of numbers from 0 to 255 (u8).

    Args:
        img: A field or array of the shape (width, height) or (width, height, channels), or a field of vectors.
            Reals are from 0 to 1; unsigned integers from 0 to the greatest one of their type.

    Raises:
        FieldError: The array has another number of axes.
    """
    values = img if isinstance(img, np.ndarray) else img.to_numpy()
    if values.ndim not in (2, 3):
        raise FieldError(f"an image of the shape {values.shape}", "give (width, height) or (width, height, channels)")
    if np.issubdtype(values.dtype, np.floating):
        return (np.clip(values, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    if values.dtype != np.uint8:
        return (values.astype(np.float64) * (255.0 / np.iinfo(values.dtype).max)).astype(np.uint8)
    return values


def imwrite(img: Any, filename: str) -> None:
    """Write an image to a file; the ending of the file's name selects the format.

    Args:
        img: See `cook_image_to_bytes`. The first axis goes to the right, and the second one up.
        filename: The file.
    """
    values = cook_image_to_bytes(img)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    _pillow().fromarray(np.ascontiguousarray(np.swapaxes(values, 0, 1)[::-1])).save(filename)


def imread(filename: str, channels: int = 0) -> np.ndarray:
    """Return the image of a file as an array of u8 of the shape (width, height, channels).

    Args:
        filename: The file.
        channels: 1, 3 or 4 to convert the image, or 0 to take what the file has.
    """
    image = _pillow().open(filename)
    if channels:
        image = image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
    values = np.asarray(image)
    return np.swapaxes(values.reshape(*values.shape[:2], -1)[::-1], 0, 1)


def imresize(img: Any, w: int, h: int | None = None) -> np.ndarray:
    """Return an image resized to another size, with the color of the nearest pixel for each new pixel.

    Args:
        img: A field or array whose first axes are width and height.
        w: The new width.
        h: The new height, if it is not `w`.
    """
    values: np.ndarray = img if isinstance(img, np.ndarray) else img.to_numpy()
    across = (np.arange(w) * values.shape[0]) // w
    up = (np.arange(h or w) * values.shape[1]) // (h or w)
    resized: np.ndarray = values[across][:, up]
    return resized


__all__ = ["cook_image_to_bytes", "imread", "imresize", "imwrite"]
