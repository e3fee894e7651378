"""Represent the losses of a tape: fields, ndarrays and torch tensors, each with the cotangent of its reverse sweep.

A loss is set to zero when the block begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..compiler.ir.types import Scalar, from_dtype
from ..data.fields import Array, MatrixArray
from ..data.fields.conversions import as_numpy
from ..data.half_accumulators import Accumulator
from ..data.leaves import ArgumentMismatch, foreign
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import FieldError, TapeError

CURE = "give a 0-d field with needs_grad=True"


class Loss(Protocol):
    """Declare the interface of objects that a tape accepts as a loss.

    Attributes:
        label: The name for messages.
        shape: The shape of the contents as a NumPy array.
        dtype: The scalar type.
        arrays: The arrays of the runtime that hold the loss.
    """

    @property
    def label(self) -> str:
        """Return the name of the loss for messages."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the loss as a NumPy array."""

    @property
    def dtype(self) -> Scalar:
        """Return the scalar type of the elements of the loss."""

    def begin(self) -> None:
        """Set all values of the loss to zero, as a tape does on entry."""

    def seed(self, cotangent: np.ndarray) -> None:
        """Overwrite the adjoint of the loss with a cotangent."""

    def content(self) -> np.ndarray:
        """Return the values of the loss as a float64 array."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays of the runtime that hold the loss."""


@dataclass
class FieldLoss:
    """Represent a loss that is a field or ndarray of scalars, vectors or matrices."""

    tensor: Any

    @property
    def label(self) -> str:
        """Return the name of the loss for messages."""
        return str(self.tensor.label)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the loss as a NumPy array, with the axes of vector or matrix entries last."""
        return tuple(self.tensor.shape) + tuple(getattr(self.tensor, "element_shape", ()))

    @property
    def dtype(self) -> Scalar:
        """Return the scalar type of the loss."""
        return self.tensor.dtype  # type: ignore[no-any-return]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays that hold the loss."""
        return tuple(self.tensor.arrays)

    def content(self) -> np.ndarray:
        """Return the values of the loss as a float64 array."""
        return np.asarray(self.tensor.to_numpy(), np.float64)

    def begin(self) -> None:
        """Set all values of the loss to zero, as on entry of a tape. Raise StaleFieldError if the loss is destroyed."""
        for array in self.tensor.arrays:
            array.check_alive()
            array.fill(0)

    def seed(self, cotangent: np.ndarray) -> None:
        """Overwrite the adjoint of the loss with a cotangent."""
        grad = self.tensor.grad
        grad.from_numpy(cotangent.astype(grad.dtype.dtype))


@dataclass
class TorchLoss:
    """Represent a loss that is a torch tensor with a gradient.

    Attributes:
        memory: The memory of the tensor.
        grad: The memory of its gradient, or the accumulator of a gradient in half precision.
        label: The name for messages.
        arrays: Empty, because no array of the runtime holds the loss.
    """

    memory: np.ndarray
    grad: np.ndarray
    label: str = "the torch tensor"
    arrays: tuple[Array, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the tensor."""
        return self.memory.shape

    @property
    def dtype(self) -> Scalar:
        """Return the scalar type of the tensor."""
        return from_dtype(self.memory.dtype)

    def content(self) -> np.ndarray:
        """Return the values of the loss as a float64 array."""
        return self.memory.astype(np.float64)

    def begin(self) -> None:
        """Set all elements of the tensor to zero, as a tape does on entry."""
        self.memory[...] = 0
        _end_tangents(self.memory)

    def seed(self, cotangent: np.ndarray) -> None:
        """Overwrite the gradient of the tensor with a cotangent."""
        if isinstance(self.grad, Accumulator):
            self.grad.store(cotangent)
        else:
            self.grad[...] = cotangent
        _end_tangents(self.grad)


def _end_tangents(memory: np.ndarray) -> None:
    """Set the forward-mode tangents of a host array to zero, because the host has overwritten the array."""
    for tangent in RUNTIME.forward.tangents_beside(memory) if RUNTIME.forward is not None else ():
        tangent.fill(0)


@dataclass(frozen=True)
class SeededLoss:
    """Represent a loss together with the cotangent from which its reverse sweep starts.

    Attributes:
        loss: The loss.
        cotangent: Weight times seed, of the shape of the loss; 1 where neither was given.
    """

    loss: Loss
    cotangent: np.ndarray


def terms_of(loss: Any, weights: Any, seed: Any) -> list[SeededLoss]:
    """Return each loss of a tape with its cotangent, which is the product of weight and seed.

    Args:
        loss: A loss, or a list of losses.
        weights: A weight, or a list of one for each loss; None for 1.
        seed: A cotangent, or a list of one for each loss; None for 1 if the loss has one element.

    Raises:
        TapeError: Something cannot be a loss, or a weight or seed does not fit.
    """
    many = isinstance(loss, (list, tuple))
    losses = list(loss) if many else [loss]
    if not losses:
        raise TapeError("a tape needs a loss, and the list is empty", CURE)
    if len({id(one) for one in losses}) < len(losses):
        raise TapeError("a loss is given twice", "add its weights")
    scale = _per_loss(weights, losses, many, "weights") if weights is not None else [None] * len(losses)
    seeds = _per_loss(seed, losses, many, "seed") if seed is not None else [None] * len(losses)
    return [_term(one, weight, vector) for one, weight, vector in zip(losses, scale, seeds)]


def _per_loss(given: Any, losses: Sequence[Any], many: bool, what: str) -> list[Any]:
    """Return a list with one weight or seed for each loss. Raise TapeError if there are more or fewer than losses."""
    if not many:
        return [given]
    if not isinstance(given, (list, tuple, np.ndarray)) or len(given) != len(losses):
        raise TapeError(f"{what} does not fit {len(losses)} losses", f"give a list with one of {what} for each loss")
    return list(given)


def _term(given: Any, weight: Any, seed: Any) -> SeededLoss:
    """Return a loss with its cotangent, weight times seed. Raise TapeError if weight or seed do not fit the loss."""
    loss = _loss(given)
    if seed is None:
        if int(np.prod(loss.shape)) != 1:
            cure = "sum it into a 0-d field, or give seed=, an array of this shape"
            raise TapeError(f"the loss {loss.label} has shape {loss.shape}, not one element", cure)
        vector = np.ones(loss.shape)
    else:
        vector = seed_array(seed, loss.shape, f"the seed of {loss.label}")
    return SeededLoss(loss, vector * (1.0 if weight is None else _weight(weight)))


def _weight(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise TapeError(f"the weight {given!r} of a loss is no number", "give a float for each loss") from None


def seed_array(seed: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return a seed as a float64 array of the given shape.

    Args:
        seed: An array of this shape, or flat.
        shape: The shape.
        what: The name of the seed in messages.

    Raises:
        TapeError: The seed is no array of numbers, or has another shape.
    """
    try:
        given = np.asarray(as_numpy(seed), np.float64)
    except (TypeError, ValueError, FieldError):
        raise TapeError(f"{what} is no array of numbers", f"give an array of shape {shape}") from None
    if given.shape != shape and given.shape != (int(np.prod(shape)),):
        raise TapeError(f"{what} has shape {given.shape}, not {shape}", f"give an array of shape {shape}")
    return given.reshape(shape)


def _loss(given: Any) -> Loss:
    """Return a user's field or tensor as a `Loss`. Raise TapeError if it cannot be one."""
    if given is None:
        raise TapeError("a tape needs a loss, not None", CURE)
    if isinstance(given, (Array, MatrixArray)):
        if not given.dtype.is_real:
            reason = f"the loss {given.label} is of {given.dtype}, which has no gradient"
            raise TapeError(reason, "use sg.f32 or sg.f64")
        if not given.needs_grad:
            raise TapeError(f"the loss {given.label} has no gradient", "make it with needs_grad=True")
        return FieldLoss(given)
    if type(given).__module__.partition(".")[0] == "torch" and hasattr(given, "requires_grad"):
        return _torch(given)
    if isinstance(given, np.ndarray):
        raise TapeError("the loss is a NumPy array, which has no gradient", "give sg.ndarray(..., needs_grad=True)")
    raise TapeError(f"the loss is a field, not {type(given).__name__}", CURE)


def _torch(given: Any) -> TorchLoss:
    """Return a torch tensor as a loss. Raise TapeError if it has no gradient."""
    if not given.dtype.is_floating_point:
        raise TapeError(f"the loss is a tensor of {given.dtype}, which has no gradient", "use torch.float32 or float64")
    if not given.requires_grad:
        raise TapeError("the loss is a torch tensor that does not require a gradient", "call loss.requires_grad_()")
    try:
        leaf = foreign(given, True)
    except ArgumentMismatch as misfit:
        raise TapeError(f"the loss: {misfit.reason}", misfit.cure) from None
    assert leaf is not None and leaf.grad is not None
    return TorchLoss(leaf.memory, leaf.grad)
