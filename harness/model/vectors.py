"""Vectors and matrices in the program model: constructors, parts, methods. Names and elements hold them too.

Shapes are known from the text: constructors state them, fields and parameters declare them.
"""

from __future__ import annotations

from ...compiler.ir.types import Scalar
from .structs import Member
from .syntax import Element, Expr, Name, enter


@enter
class Vector(Expr):
    """`Vector([a, b])`; with a type `Vector([a, b], f32)`."""

    items: tuple[Expr, ...]
    dtype: Scalar | None = None


@enter
class Matrix(Expr):
    """`Matrix([[a, b], [c, d]])`."""

    rows: tuple[tuple[Expr, ...], ...]


@enter
class Comprehension(Expr):
    """form 'Vector': `Vector([item for name in range(count)])`; 'sum': `sum(item for name in range(count))`."""

    form: str
    name: str
    count: int
    item: Expr


@enter
class Filled(Expr):
    """`Vector.zero(f32, 3)`, `Matrix.one(f32, 2, 2)`, `Matrix.identity(f32, 2)`."""

    function: str
    shape: tuple[int, ...]
    dtype: Scalar


@enter
class Part(Expr):
    """`v[i]`, `m[i, j]`; of an element of a field `x[i][k]`."""

    base: Expr
    indices: tuple[Expr, ...]


@enter
class Swizzle(Expr):
    """`v.x`, `v.yx`."""

    base: Expr
    letters: str


@enter
class Slice(Expr):
    """`v[begin:end:step]`."""

    base: Expr
    begin: int | None
    end: int | None
    step: int | None = None


@enter
class Method(Expr):
    """`a.dot(b)`, `v.norm(0.5)`, `m.transpose()`."""

    base: Expr
    name: str
    args: tuple[Expr, ...] = ()


@enter
class Convert(Expr):
    """`v.cast(f64)`."""

    base: Expr
    dtype: Scalar


Place = Name | Element | Part | Swizzle | Slice | Member
"""What can be assigned; the base of a part is such a place again."""


def root(place: Expr) -> Expr:
    """The name or element that a place is a part of."""
    while isinstance(place, (Part, Swizzle, Slice, Member)):
        place = place.base
    return place
