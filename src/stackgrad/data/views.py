"""Define `sg.BufferView`: a contiguous part of an array of one axis, which kernels use as an array.

Invariant: a view consists of an array, the number of its first element and a size, which are fixed when it is made. All
elements lie in the array. A launch passes offset and size to the kernel as numbers: another part of the array, or of
another array of its type, needs no other specialization.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from ..compiler.frontend.aggregates import VIEW, NdarrayType, ViewType
from ..compiler.frontend.protocols import is_host_view
from ..compiler.frontend.refused_names import caller_span
from ..runtime.usage_errors import ViewError
from .annotations import annotated_element

T = TypeVar("T")


class BufferView(Generic[T]):
    """Represent a view of the elements `offset` to `offset + size` of an array with one axis.

    `array[a:b]` of an ndarray makes a view too. As an annotation, `v: sg.BufferView` takes a view of any type, and
    `v: sg.BufferView[sg.f32]` one of that type.

        head = sg.BufferView(x, 0, 16)
        kernel(head)

    Args:
        arr: An ndarray, a field, or an array that a kernel takes as argument, with one axis. Elements may be vectors.
        offset: Number of the first element.
        size: Number of elements.

    Raises:
        ViewError: `arr` is no array with one axis, or it has no such elements. The error shows the caller's line.
    """

    __slots__ = ("_arr", "_offset", "_size", "__weakref__")
    is_stackgrad_view: ClassVar[bool] = True
    stackgrad_annotation: ClassVar[str] = VIEW
    stackgrad_constructor: ClassVar[str] = "BufferView"

    # The array is Any: a field, an ndarray, an array of another library, or what stands for one in a kernel.
    def __init__(self, arr: Any, offset: int, size: int) -> None:
        if is_host_view(arr):
            raise _error("a view is made of an array, not of a view", "write view.subview(offset, size)")
        shape = getattr(arr, "shape", None)
        if not hasattr(arr, "dtype") and not hasattr(arr, "members") or shape is None:
            raise _error(f"a view is made of an ndarray or field, not of {type(arr).__name__}", "give sg.ndarray(...)")
        if len(shape) != 1:
            raise _error(f"a view is of an array with one axis, not of shape {tuple(shape)}", "reshape the array")
        self._arr = arr
        self._offset, self._size = _inside(offset, size, shape[0], "the array")

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> ViewType:
            """Return an annotation for views with this element type; a second item sets the handling of bad indices."""
            dtype, boundary = given if isinstance(given, tuple) else (given, "unsafe")
            return ViewType(NdarrayType(annotated_element(dtype, boundary), 1))

    @property
    def arr(self) -> Any:
        """Return the array that the view is a part of."""
        return self._arr

    @property
    def offset(self) -> int:
        """Return the number of the first element, counted from the first element of the array."""
        return self._offset

    @property
    def size(self) -> int:
        """Return the number of elements of the view."""
        return self._size

    @property
    def shape(self) -> tuple[int]:
        """Return the shape of the view, a tuple of its size alone."""
        return (self._size,)

    @property
    def grad(self) -> BufferView[T]:
        """Return the same part of the adjoint of the array. Raise ViewError if the array has none."""
        found = self._arr.grad
        if found is None:
            raise _error("the array of the view has no gradient", "make it with needs_grad=True")
        return BufferView(found, self._offset, self._size)

    def get_ndarray(self) -> Any:
        """Return the array that the view is a part of."""
        return self._arr

    def subview(self, offset: int, size: int) -> BufferView[T]:
        """Return a view of the elements `offset` to `offset + size` of this view.

        Args:
            offset: Number of the first element, counted from the first element of this view.
            size: Number of elements.

        Raises:
            ViewError: The part does not lie in this view.
        """
        first, size = _inside(offset, size, self._size, "the view")
        return BufferView(self._arr, self._offset + first, size)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: slice, /) -> BufferView[T]: ...
        @overload
        def __getitem__(self, key: Any, /) -> Any: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Any, value: Any, /) -> None: ...

    else:

        def __getitem__(self, key: Any) -> BufferView[T]:
            """Return the view `view[a:b]` of a part of this view, with slice ends as in Python."""
            if not isinstance(key, slice):
                raise _error(
                    "a view is indexed by slices outside of kernels", "read the array: view.arr[view.offset + i]"
                )
            return slice_view(self, key)

    def __repr__(self) -> str:
        return f"<sg.BufferView(offset={self._offset}, size={self._size}) of {self._arr!r}>"


def slice_view(whole: Any, key: slice) -> BufferView[Any]:
    """Return a view of the part of an ndarray or view that a slice selects.

    Args:
        whole: An ndarray or view with one axis.
        key: A slice with step 1; its ends mean what they mean in Python.

    Raises:
        ViewError: There is more than one axis, or a step.
    """
    if len(whole.shape) != 1:
        raise _error(f"a slice is of an array with one axis, not of shape {whole.shape}", "use to_numpy() for slices")
    start, stop, step = key.indices(whole.shape[0])
    if step != 1:
        raise _error(f"a view has no step, and the slice has {step}", "use to_numpy()[a:b:step] for a copy")
    size = max(stop - start, 0)
    return whole.subview(start, size) if isinstance(whole, BufferView) else BufferView(whole, start, size)


def _inside(offset: Any, size: Any, extent: int, what: str) -> tuple[int, int]:
    """Return offset and size as integers. Raise ViewError if they are no integers or exceed the extent."""
    try:
        first, count = operator.index(offset), operator.index(size)
    except TypeError:
        raise _error(f"offset {offset!r} and size {size!r} of a view are integers", "convert them with int()") from None
    check_inside(first, count, extent, what)
    return first, count


def check_inside(first: int, count: int, extent: int, what: str) -> None:
    """Raise ViewError unless all elements from `first` to `first + count` exist.

    Args:
        first: Number of the first element.
        count: Number of elements.
        extent: Number of elements that exist.
        what: The name of what is viewed, for the message.
    """
    if first < 0 or count < 0:
        raise _error(f"a view of {count} elements from {first} on: neither is negative", "count from the first element")
    if first + count > extent:
        raise _error(
            f"a view of {count} elements from {first} on ends beyond {what}, which has {extent}",
            f"make it at most {max(extent - first, 0)} long",
        )


def _error(reason: str, cure: str) -> ViewError:
    """Return a ViewError located at the caller's line."""
    return ViewError(reason, cure, caller_span())
