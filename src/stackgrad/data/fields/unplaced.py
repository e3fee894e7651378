"""Define the placeholder for the shape and the memory of a field that has no memory yet.

Invariant: every use of the placeholder raises a FieldError that says how to place the array; accesses to placed arrays
are not checked and cost no time.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ...runtime.usage_errors import FieldError

if TYPE_CHECKING:
    from .array import Array


class NoMemory:
    """Represent the missing shape and memory of a field; every use raises a FieldError with advice."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Array) -> None:
        self._owner = weakref.ref(owner)

    def _refuse(self, *args: Any) -> Any:
        owner = self._owner()
        raise FieldError("the field has no memory yet", "") if owner is None else owner._unusable()

    __len__ = __iter__ = __getitem__ = __eq__ = __getattr__ = _refuse
    __hash__ = None  # type: ignore[assignment]
