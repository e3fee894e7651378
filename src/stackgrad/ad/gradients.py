"""Clearing gradients: all adjoints or all tangents of the runtime at once."""

from __future__ import annotations

import enum

from ..session import RUNTIME
from ..usage import OptionError


class SNodeGradType(enum.Enum):
    """Which companions of fields `clear_all_gradients` means. Check bits do not exist here: nothing to clear."""

    ADJOINT = "grad"
    DUAL = "dual"
    ADJOINT_CHECKBIT = "checkbit"


def clear_all_gradients(gradient_type: SNodeGradType | str = SNodeGradType.ADJOINT) -> None:
    """Set the gradient of every live field and ndarray to 0; with gradient_type DUAL its tangent. Those that belong to
    another thread, whose tape or forward mode used them last, stay.

    gradient_type: a member of `SNodeGradType`, or its name. Raises OptionError for anything else.
    """
    kind = _kind(gradient_type)
    for array in RUNTIME.fields:
        if RUNTIME.threads.is_foreign(array):
            continue
        if kind is SNodeGradType.ADJOINT and array.needs_grad:
            array.grad.fill(0)
        for beside in (array._dual, None if array._grad is None else array._grad._dual):
            if kind is SNodeGradType.DUAL and beside is not None and beside.is_placed:
                beside.fill(0)


def _kind(given: SNodeGradType | str) -> SNodeGradType:
    name = getattr(given, "name", given)
    try:
        return SNodeGradType[str(name).upper()]
    except KeyError:
        known = ", ".join(f"sg.ad.SNodeGradType.{k.name}" for k in SNodeGradType)
        raise OptionError(f"there are no gradients of type {given!r}", f"one of {known}") from None
