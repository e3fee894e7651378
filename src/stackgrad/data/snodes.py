"""Implement `sg.root`, a tree that sets the shapes of fields: `sg.root.dense(sg.ij, (n, m)).place(x, x.grad)`.

Invariant: the tree decides nothing but shapes. Extents of one axis multiply along a path, axes are ordered by their
letters, and each field has row-major memory of its own. How nodes nest is a hint that changes no result.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, cast

from ..compiler.frontend.refused_names import refuse
from ..compiler.ir.documented import documented
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import FieldError
from .fields.array import Array
from .fields.entries import FieldEntry, PlacedEntries
from .fields.kinds import Field
from .fields.offsets import checked_offset, set_offset

LETTERS = "ijklmnopqrst"
"""The letters of the axes 0 to 11."""


def _axes_text(axes: Axes) -> str:
    """Return the docstring of a constant such as `sg.ij`, which names axes."""
    which = f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes[:-1]))} and {axes[-1]}"
    extents = "n" if len(axes) == 1 else f"({', '.join('nmkl'[: len(axes)])})"
    return f"Name the {which} of a field in the tree, as in `sg.root.dense({axes!r}, {extents}).place(x)`."


@documented(_axes_text)
class Axes(tuple[int, ...]):
    """Represent axes of a field by their numbers: `sg.ij` is (0, 1)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "sg." + "".join(LETTERS[axis] for axis in self)


def axes(*numbers: int) -> Axes:
    """Return an `Axes` object for axes given by their numbers, as in `axes(0, 1)`.

    Args:
        *numbers: Different numbers from 0 to 11.

    Raises:
        FieldError: A number occurs twice, or is not from 0 to 11.
    """
    if len(set(numbers)) != len(numbers) or not all(0 <= n < len(LETTERS) for n in numbers):
        raise FieldError(f"{numbers} are no axes", f"give different numbers from 0 to {len(LETTERS) - 1}")
    return Axes(numbers)


i, j, k, l = axes(0), axes(1), axes(2), axes(3)
ij, ik, il, jk, jl, kl = axes(0, 1), axes(0, 2), axes(0, 3), axes(1, 2), axes(1, 3), axes(2, 3)
ijk, ijl, ikl, jkl, ijkl = axes(0, 1, 2), axes(0, 1, 3), axes(0, 2, 3), axes(1, 2, 3), axes(0, 1, 2, 3)


class SNode:
    """Represent a node of the tree of `sg.root`; fields that are placed at it get its shape.

    Attributes:
        extents: The extent of each axis by number.
    """

    __slots__ = ("extents", "_tree")

    def __init__(self, extents: dict[int, int], tree: FieldTree) -> None:
        self.extents = extents
        self._tree = tree

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of a field placed at this node, with axes in alphabetical order of their names."""
        return tuple(self.extents[axis] for axis in sorted(self.extents))

    def __repr__(self) -> str:
        return f"<sg.root node of shape {self.shape}>"

    def dense(self, axes: Sequence[int], dimensions: int | Sequence[int]) -> SNode:
        """Return a child node, whose shape is this node's with new axes added or with extents multiplied.

            sg.root.dense(sg.i, 4).dense(sg.ij, 8).place(x)  # x has shape (32, 8)

        Args:
            axes: `sg.i`, `sg.ij` or another `Axes` object.
            dimensions: An extent for each axis, or one extent for all of them.

        Raises:
            FieldError: Axes or extents do not fit, or the builder is finalized.
        """
        self._tree.check_open()
        if not isinstance(axes, Axes):
            raise FieldError(f"{axes!r} are no axes", "use sg.i, sg.ij or another of their kind")
        given = dimensions if isinstance(dimensions, (list, tuple)) else [dimensions] * len(axes)
        if len(given) != len(axes):
            raise FieldError(f"{len(given)} extents for the axes {axes!r}", "give one extent for each axis")
        extents = dict(self.extents)
        for axis, extent in zip(axes, given):
            extents[axis] = extents.get(axis, 1) * _extent(extent)
        return SNode(extents, self._tree)

    # Fields are Any: of all kinds, and lists of them.
    def place(self, *fields: Any, offset: int | Sequence[int] | None = None) -> SNode:
        """Allocate fields with the shape of this node of `sg.root`, and return the node.

        Gradients that fields have because of needs_grad are placed too.

        Args:
            *fields: Fields made without a shape, their gradients `x.grad`, or entries of fields of vectors and
                matrices, `x.get_scalar_field(0)`; also lists of them.
            offset: The first index of each axis, or one for all; None for 0.

        Raises:
            FieldError: An argument is no field, is placed already, or has a gradient placed elsewhere.
        """
        self._tree.check_open()
        first = checked_offset(offset, len(self.extents))
        flat = list(_flat(fields))
        for field in flat:
            self._place(field, first)
        for field in flat:
            for array in field.arrays:
                array.place_companions()
        return self

    def _place(self, field: Any, offset: tuple[int, ...]) -> None:
        """Allocate one field with the shape of this node; an entry of a field waits for the others of its field."""
        if isinstance(field, FieldEntry):
            if not self._tree.entries.add(field, (self.shape, offset)):
                return
            field = field.field
        if not isinstance(field, Field):
            raise FieldError(f"place takes fields, not {type(field).__name__}", "make it with sg.field(dtype)")
        arrays: tuple[Array, ...] = field.arrays  # type: ignore[attr-defined]
        # The gradient was placed together with its primal. It is named explicitly now, which is right once.
        if all(array.automatic and array.is_placed for array in arrays):
            if field.shape != self.shape:
                raise FieldError(f"{field.label} was placed with its primal", "place both at one node")
            for array in arrays:
                array.automatic = False
            return
        set_offset(arrays, offset)
        field.allocate(self.shape)  # type: ignore[attr-defined]
        for array in arrays:
            if not array.is_grad:
                RUNTIME.fields.add(array)
                self._tree.arrays.add(array)

    def lazy_grad(self) -> None:
        """Allocate the adjoints of all real fields of the tree that have none yet."""
        self._tree.place_companions("grad")

    def lazy_dual(self) -> None:
        """Allocate the tangents of all real fields of the tree that have none yet."""
        self._tree.place_companions("dual")

    # -- what is refused ------------------------------------------------------------------------------------

    def pointer(self, *args: object, **options: object) -> NoReturn:
        """Raise Unsupported at the caller's line, because stackgrad has no sparse pointer nodes."""
        self._refuse("root.pointer")

    def bitmasked(self, *args: object, **options: object) -> NoReturn:
        """Raise Unsupported at the caller's line, because stackgrad has no sparse bitmasked nodes."""
        self._refuse("root.bitmasked")

    def dynamic(self, *args: object, **options: object) -> NoReturn:
        """Raise Unsupported at the caller's line, because stackgrad has no dynamic nodes."""
        self._refuse("root.dynamic")

    def hash(self, *args: object, **options: object) -> NoReturn:
        """Raise Unsupported at the caller's line, because stackgrad has no hash nodes."""
        self._refuse("root.hash")

    def quant_array(self, *args: object, **options: object) -> NoReturn:
        """Raise Unsupported at the caller's line, because stackgrad has no quantized array nodes."""
        self._refuse("root.quant_array")

    def bit_struct(self, *args: object, **options: object) -> NoReturn:
        """Raise Unsupported at the caller's line, because stackgrad has no bit struct nodes."""
        self._refuse("root.bit_struct")

    def _refuse(self, name: str) -> NoReturn:
        raise refuse(name)


class FieldTree:
    """Track the fields that were allocated through the nodes of one tree, and whether the tree is closed to new fields.

    Attributes:
        arrays: The arrays of these fields, as long as they live.
        entries: The entries of fields that are placed one by one.
        closed: True after `FieldsBuilder.finalize`.
    """

    def __init__(self) -> None:
        self.entries = PlacedEntries()
        self.arrays: weakref.WeakSet[Array] = weakref.WeakSet()
        self.closed = False

    def check_open(self) -> None:
        """Raise FieldError if `FieldsBuilder.finalize` has closed the tree."""
        RUNTIME.ensure()
        if self.closed:
            raise FieldError("this FieldsBuilder is finalized", "make another sg.FieldsBuilder()")

    def place_companions(self, kind: str) -> None:
        """Allocate the adjoints, or the tangents, of all live real fields of the tree.

        Args:
            kind: "grad" for adjoints, "dual" for tangents.
        """
        self.check_open()
        for array in list(self.members()):
            if array.dtype.is_real and array._generation == RUNTIME.generation:
                found = array.companion(kind)
                if not found.is_placed:
                    found.allocate(array.shape)

    def members(self) -> Iterable[Array]:
        """Return the scalar arrays of the tree's fields."""
        return self.arrays


class RootTree(FieldTree):
    """Track the fields of `sg.root`: those placed in the tree, and those made with a shape."""

    def members(self) -> Iterable[Array]:
        """Return the scalar arrays of all live fields; ndarrays are not included."""
        return (cast(Array, array) for array in RUNTIME.fields if isinstance(array, Field))


_ROOT = """\
Represent the root of the tree that gives fields a shape: `sg.root.dense(sg.ij, (n, m)).place(x)`.

A field that is made without a shape gets it, and its memory, when it is placed at a node of the tree."""


@documented(_ROOT)
class Root(SNode):
    """Represent `sg.root`, the tree's root, which has no axes."""

    __slots__ = ()

    def __init__(self, tree: FieldTree | None = None) -> None:
        super().__init__({}, tree or RootTree())

    def __repr__(self) -> str:
        return "<sg.root>"


class FieldsBuilder(Root):
    """Represent a separate root node, whose tree `finalize()` closes; then no more fields can be placed."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(FieldTree())

    def __repr__(self) -> str:
        return "<sg.FieldsBuilder>"

    def finalize(self) -> SNodeTree:
        """Close the tree and return it; its fields keep their memory."""
        self._tree.check_open()
        self._tree.closed = True
        return SNodeTree(self._tree)


class SNodeTree:
    """Represent a tree of fields that `FieldsBuilder.finalize` has closed, so that it takes no more fields."""

    __slots__ = ("_tree",)

    def __init__(self, tree: FieldTree) -> None:
        self._tree = tree

    def destroy(self) -> None:
        """Make the fields of the tree unusable; their memory is freed when no reference remains."""
        for array in list(self._tree.arrays):
            array.discard()


root = Root()


def _extent(given: Any) -> int:
    """Return an extent as an int. Raise FieldError if it is no integer or negative."""
    try:
        extent = operator.index(given)
    except TypeError:
        raise FieldError(f"{given!r} is no extent", "give an int, or a sequence of ints") from None
    if extent < 0:
        raise FieldError(f"the extent {extent} is negative", "extents are 0 or more")
    return extent


def _flat(fields: Iterable[Any]) -> Iterable[Any]:
    """Yield the fields in nested lists one by one."""
    for field in fields:
        if isinstance(field, (list, tuple)):
            yield from _flat(field)
        else:
            yield field
