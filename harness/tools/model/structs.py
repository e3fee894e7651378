"""This module adds structs to the program model: struct constructors and accesses to members.

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
    """Represent an access to a struct member, such as `s.mass`, `s.first.pos` or `x[i].pos`."""

    base: Expr
    name: str
