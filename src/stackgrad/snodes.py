"""The tree of `sg.root`: how fields get their shapes, `sg.root.dense(sg.ij, (n, m)).place(x, x.grad)`.

Invariant: the tree decides shapes alone. Extents of one axis multiply along a path, axes are ordered by their letters,
and each field has row-major memory of its own; how nodes nest is a hint that changes no result.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from .compiler.frontend.refused import refuse
from .fields.array import Array
from .fields.kinds import Field
from .fields.offsets import checked_offset, set_offset
from .session import RUNTIME
from .usage import FieldError

LETTERS = "ijklmnopqrst"


class Axes(tuple[int, ...]):
    """Axes of a field by number: `sg.ij` is (0, 1)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "sg." + "".join(LETTERS[axis] for axis in self)


def axes(*numbers: int) -> Axes:
    """Axes by number, 0 to 11. Raises FieldError."""
    if len(set(numbers)) != len(numbers) or not all(0 <= n < len(LETTERS) for n in numbers):
        raise FieldError(f"{numbers} are no axes", f"give different numbers from 0 to {len(LETTERS) - 1}")
    return Axes(numbers)


i, j, k, l = axes(0), axes(1), axes(2), axes(3)
ij, ik, il, jk, jl, kl = axes(0, 1), axes(0, 2), axes(0, 3), axes(1, 2), axes(1, 3), axes(2, 3)
ijk, ijl, ikl, jkl, ijkl = axes(0, 1, 2), axes(0, 1, 3), axes(0, 2, 3), axes(1, 2, 3), axes(0, 1, 2, 3)


class SNode:
    """A node of the tree: the extents that a field placed here has, by axis."""

    __slots__ = ("extents", "_tree")

    def __init__(self, extents: dict[int, int], tree: Tree) -> None:
        self.extents = extents
        self._tree = tree

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of a field placed here, axes in order of their letters."""
        return tuple(self.extents[axis] for axis in sorted(self.extents))

    def __repr__(self) -> str:
        return f"<sg.root node of shape {self.shape}>"

    def dense(self, axes: Sequence[int], dimensions: int | Sequence[int]) -> SNode:
        """A node inside this one; an int is the extent of every axis. Extents multiply. Raises FieldError."""
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

    def place(self, *fields: Any, offset: int | Sequence[int] | None = None) -> SNode:
        """Give fields the shape of this node, and memory. Gradients made with needs_grad come along.

        fields: made without a shape, gradients `x.grad` among them. offset: the first index of each axis.
        Raises FieldError.
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
        if not isinstance(field, Field):
            raise FieldError(f"place takes fields, not {type(field).__name__}", "make it with sg.field(dtype)")
        arrays: tuple[Array, ...] = field.arrays  # type: ignore[attr-defined]
        if all(array.automatic and array.is_placed for array in arrays):
            if field.shape != self.shape:  # type: ignore[attr-defined]
                raise FieldError(f"{field.label} was placed with its primal", "place both at one node")  # type: ignore[attr-defined]
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
        """Place the adjoints of all real fields of the tree that have none yet."""
        self._tree.place_companions("grad")

    def lazy_dual(self) -> None:
        """Place the tangents of all real fields of the tree that have none yet."""
        self._tree.place_companions("dual")

    # -- what is refused ------------------------------------------------------------------------------------

    def pointer(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: Unsupported at the caller's line."""
        self._refuse("root.pointer")

    def bitmasked(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: Unsupported at the caller's line."""
        self._refuse("root.bitmasked")

    def dynamic(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: Unsupported at the caller's line."""
        self._refuse("root.dynamic")

    def hash(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: Unsupported at the caller's line."""
        self._refuse("root.hash")

    def quant_array(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: Unsupported at the caller's line."""
        self._refuse("root.quant_array")

    def bit_struct(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: Unsupported at the caller's line."""
        self._refuse("root.bit_struct")

    def _refuse(self, name: str) -> NoReturn:
        raise refuse(name)


class Tree:
    """The fields placed through one root."""

    def __init__(self) -> None:
        self.arrays: weakref.WeakSet[Array] = weakref.WeakSet()
        self.closed = False

    def check_open(self) -> None:
        """Raise FieldError if the tree was finalised."""
        RUNTIME.ensure()
        if self.closed:
            raise FieldError("this FieldsBuilder is finalised", "make another sg.FieldsBuilder()")

    def place_companions(self, kind: str) -> None:
        """Give memory to the companions of all live real fields of the tree."""
        self.check_open()
        for array in list(self.members()):
            if array.dtype.is_real and array._generation == RUNTIME.generation:
                found = array.companion(kind)
                if not found.is_placed:
                    found.allocate(array.shape)

    def members(self) -> Iterable[Array]:
        """The fields concerned."""
        return self.arrays


class Everything(Tree):
    """The tree of `sg.root`: its fields and those made with a shape."""

    def members(self) -> Iterable[Array]:
        """All live fields; ndarrays are none."""
        return (array for array in RUNTIME.fields if isinstance(array, Field))


class Root(SNode):
    """`sg.root`."""

    __slots__ = ()

    def __init__(self, tree: Tree | None = None) -> None:
        super().__init__({}, tree or Everything())

    def __repr__(self) -> str:
        return "<sg.root>"


class FieldsBuilder(Root):
    """A root of its own: `dense`, `place`, `lazy_grad`, then `finalize()`, after which nothing can be placed."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Tree())

    def __repr__(self) -> str:
        return "<sg.FieldsBuilder>"

    def finalize(self) -> SNodeTree:
        """Close the builder. The fields have their memory already."""
        self._tree.check_open()
        self._tree.closed = True
        return SNodeTree(self._tree)


class SNodeTree:
    """What `FieldsBuilder.finalize` gives."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def destroy(self) -> None:
        """Make the fields of the tree unusable; their memory goes when nothing names them."""
        for array in list(self._tree.arrays):
            array.discard()


root = Root()


def _extent(given: Any) -> int:
    try:
        extent = operator.index(given)
    except TypeError:
        raise FieldError(f"{given!r} is no extent", "give an int, or a sequence of ints") from None
    if extent < 0:
        raise FieldError(f"the extent {extent} is negative", "extents are 0 or more")
    return extent


def _flat(fields: Iterable[Any]) -> Iterable[Any]:
    for field in fields:
        if isinstance(field, (list, tuple)):
            yield from _flat(field)
        else:
            yield field
