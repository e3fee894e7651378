"""Set all adjoints or all tangents of the runtime to zero at once."""

from __future__ import annotations

import enum

from ..data.fields import Array
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import OptionError


class SNodeGradType(enum.Enum):
    """List the kinds of derivative arrays that `clear_all_gradients` can clear.

    Check bits are a notion of the dialect and do not exist here, so there is nothing to clear for them.
    """

    ADJOINT = "grad"
    DUAL = "dual"
    ADJOINT_CHECKBIT = "checkbit"


def clear_all_gradients(gradient_type: SNodeGradType | str = SNodeGradType.ADJOINT) -> None:
    """Set the gradient of every live field and ndarray to 0, or, with type DUAL, its tangent.

    Gradients that belong to another thread, whose tape or forward mode used them last, stay as they are.

    Args:
        gradient_type: A member of `SNodeGradType`, or its name.

    Raises:
        OptionError: There is no such type.
    """
    kind = _kind(gradient_type)
    for array in RUNTIME.fields:
        # Forward mode over a gradient claims the array of the gradient itself.
        with RUNTIME.threads.clearing((array, *companions(array))) as is_free:
            if is_free:
                _clear(array, kind)


def companions(array: Array) -> list[Array]:
    """Return the existing ones among three arrays: an array's adjoint, its tangent, and its adjoint's tangent."""
    beside = (array._grad, array._dual, None if array._grad is None else array._grad._dual)
    return [one for one in beside if one is not None]


def _clear(array: Array, kind: SNodeGradType) -> None:
    """Set the adjoints or the tangents of an array to 0."""
    if kind is SNodeGradType.ADJOINT and array.needs_grad:
        array.grad.fill(0)
    if kind is SNodeGradType.DUAL:
        for beside in companions(array):
            if beside is not array._grad and beside.is_placed:
                beside.fill(0)


def _kind(given: SNodeGradType | str) -> SNodeGradType:
    """Return the member of `SNodeGradType` for a member or a name. Raise OptionError if there is none."""
    name = getattr(given, "name", given)
    try:
        return SNodeGradType[str(name).upper()]
    except KeyError:
        known = ", ".join(f"sg.ad.SNodeGradType.{k.name}" for k in SNodeGradType)
        raise OptionError(f"there are no gradients of type {given!r}", f"one of {known}") from None
