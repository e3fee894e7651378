"""Structs in the program model: values made of members, and the members of values, locals and elements.

The types are stated by the program; a field of structs is one field for each member (`Field.struct`).
"""

from __future__ import annotations

from .syntax import Expr, enter


@enter
class Make(Expr):
    """`S(a, b)`; named: `S(x=a, y=b)`. One value for each member, in order."""

    struct: str
    values: tuple[Expr, ...]
    named: bool = False


@enter
class Member(Expr):
    """`s.mass`, `s.first.pos`, `x[i].pos`."""

    base: Expr
    name: str
