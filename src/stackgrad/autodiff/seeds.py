"""Convert the seeds of forward mode, in all accepted formats, to float64 arrays with a first axis of directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.fields.conversions import as_numpy
from ..runtime.usage_errors import FieldError, TapeError


def tensor_shape(tensor: Any) -> tuple[int, ...]:
    """Return the shape of a field's contents as a NumPy array: the field's axes, then those of its elements."""
    return tuple(tensor.shape) + tuple(getattr(tensor, "element_shape", ()))


def seeds_of(params: list[Any], seed: Any, many: bool) -> tuple[int | None, list[np.ndarray]]:
    """Return the number of directions, and for each parameter an array (n, *shape) of its seeds.

    Args:
        params: The parameters.
        seed: The seed that the user gave.
        many: True if the user gave a list of parameters.

    Returns:
        The number of directions, None if there is a single one without a batch axis; and the arrays.

    Raises:
        TapeError: A seed does not fit, or batches have different sizes.
    """
    given = _per_parameter(params, seed, many)
    found = [_directions(tensor, one) for tensor, one in zip(params, given)]
    counts = {count for count, _ in found}
    if len(counts) > 1:
        sizes = ", ".join("one direction" if c is None else f"{c} directions" for c, _ in found)
        raise TapeError(f"the seeds have {sizes}", "give every parameter the same number")
    return found[0][0], [array for _, array in found]


def _per_parameter(params: list[Any], seed: Any, many: bool) -> list[Any]:
    """Return one seed for each parameter. Raise TapeError if their number differs."""
    if not many or (len(params) == 1 and not _is_list_of_one(seed)):
        return [seed]
    if seed is None:
        return [None] * len(params)
    if isinstance(seed, dict):
        unknown = [key for key in seed if not any(key is p for p in params)]
        if unknown:
            raise TapeError("a seed is given for what is no parameter", "give seeds for the parameters alone")
        return [next((v for k, v in seed.items() if k is p), np.zeros(tensor_shape(p))) for p in params]
    if not isinstance(seed, (list, tuple)) or len(seed) != len(params):
        raise TapeError(f"seed does not fit {len(params)} parameters", "give a list with one seed for each parameter")
    return list(seed)


def _is_list_of_one(seed: Any) -> bool:
    return isinstance(seed, (list, tuple)) and len(seed) == 1 and (seed[0] is None or np.ndim(seed[0]) > 0)


def _directions(tensor: Any, seed: Any) -> tuple[int | None, np.ndarray]:
    """Return the number of directions in a seed (None for a single one), and the directions as an (n, *shape) array."""
    shape = tensor_shape(tensor)
    size = int(np.prod(shape))
    if seed is None:
        if size != 1:
            raise TapeError(
                f"{tensor.label} has {size} elements, so the direction must be given",
                f"give seed=, an array of shape {shape}, or (n, *{shape}) for n directions",
            )
        return None, np.ones((1, *shape))
    given = _array(seed, tensor)
    if given.shape in (shape, (size,)):
        return None, given.reshape(1, *shape)
    if given.ndim and given.shape[0] and (given.shape[1:] == shape or given.shape[1:] == (size,)):
        return given.shape[0], given.reshape(-1, *shape)
    raise TapeError(
        f"the seed of {tensor.label} has shape {given.shape}", f"give {shape}, or (n, *{shape}) for n directions"
    )


def _array(seed: Any, tensor: Any) -> np.ndarray:
    """Return the seed of a parameter as a float64 array. Raise TapeError if it is not an array of numbers."""
    try:
        return np.asarray(as_numpy(seed), np.float64)
    except (TypeError, ValueError, FieldError):
        raise TapeError(f"the seed of {tensor.label} is no array of numbers", "give an array, or a flat list") from None
