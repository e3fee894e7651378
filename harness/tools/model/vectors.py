"""This module adds vectors and matrices to the program model: constructors, parts and methods.

Names and elements can hold vectors too. All shapes are known from the text: constructors state them, and fields and
parameters declare them.
"""

from __future__ import annotations

from ....compiler.ir.types import Scalar
from .structs import Member
from .syntax import Element, Expr, Name, enter


@enter
class Vector(Expr):
    """Represent `Vector([a, b])`, or with a type `Vector([a, b], f32)`."""

    items: tuple[Expr, ...]
    dtype: Scalar | None = None


@enter
class Matrix(Expr):
    """Represent `Matrix([[a, b], [c, d]])`."""

    rows: tuple[tuple[Expr, ...], ...]


@enter
class Comprehension(Expr):
    """Represent a comprehension over `range(count)`, which makes a vector or the sum of its items.

    Attributes:
        form: 'Vector' writes `Vector([item for name in range(count)])`, 'sum' writes `sum(item for name in
            range(count))`.
    """

    form: str
    name: str
    count: int
    item: Expr


@enter
class Filled(Expr):
    """Represent `Vector.zero(f32, 3)`, `Matrix.one(f32, 2, 2)` or `Matrix.identity(f32, 2)`."""

    function: str
    shape: tuple[int, ...]
    dtype: Scalar


@enter
class Part(Expr):
    """Represent an entry such as `v[i]`, `m[i, j]` or, for an element of a field, `x[i][k]`."""

    base: Expr
    indices: tuple[Expr, ...]


@enter
class Swizzle(Expr):
    """Represent `v.x` or `v.yx`, a selection of vector entries by letters."""

    base: Expr
    letters: str


@enter
class Slice(Expr):
    """Represent `v[begin:end:step]`."""

    base: Expr
    begin: int | None
    end: int | None
    step: int | None = None


@enter
class Method(Expr):
    """Represent a method call such as `a.dot(b)`, `v.norm(0.5)` or `m.transpose()`."""

    base: Expr
    name: str
    args: tuple[Expr, ...] = ()


@enter
class Convert(Expr):
    """Represent `v.cast(f64)`, the conversion of a vector or matrix to another type."""

    base: Expr
    dtype: Scalar


PlaceExpr = Name | Element | Part | Swizzle | Slice | Member
"""An expression that can be assigned; the base of a part is again a place."""


def root(place: Expr) -> Expr:
    """Return the local or array element that an entry, slice or member expression accesses."""
    while isinstance(place, (Part, Swizzle, Slice, Member)):
        place = place.base
    return place
