"""This module adds structs to the program model: values made of members, and members of values, locals and elements.

The program states the types; a field of structs is one `Field` for each member (`Field.struct`).
"""

from __future__ import annotations

from .syntax import Expr, enter


@enter
class Make(Expr):
    """Represent `S(a, b)`, or `S(x=a, y=b)` if named, with one value for each member in order."""

    struct: str
    values: tuple[Expr, ...]
    named: bool = False


@enter
class Member(Expr):
    """Represent `s.mass`, `s.first.pos` and `x[i].pos`."""

    base: Expr
    name: str
