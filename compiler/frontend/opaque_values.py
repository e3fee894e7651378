"""This module defines the objects that take the place of values known only at launch in a static expression.

`sg.static(enumerate((a, b)))` passes the numbers a and b on, although only the launch knows them. Invariant: Python
code can hand such an object on, and take a vector apart, but no operator finds out anything about it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NoReturn

from .diagnostics import type_problem


class OpaqueValue:
    """Represent, in a static expression, a value known only at launch; each operator on it raises ProblemError.

    Attributes:
        operand: operand that takes the place of the object in the result of the expression.
    """

    __slots__ = ("operand", "_node", "_parts", "__weakref__")

    def __init__(self, operand: Any, node: ast.expr, parts: tuple[OpaqueValue, ...] | None = None) -> None:
        self.operand = operand
        self._node = node
        self._parts = parts

    def refuse(self, *_: object) -> NoReturn:
        """Raise ProblemError that names the value, which is not known at compile time."""
        is_element = isinstance(self._node, ast.Subscript)
        cure = "read it outside `static`" if is_element else "use constants and `sg.static(range(...))` loops"
        raise type_problem(f"`{ast.unparse(self._node)}` is not known at compile time", cure, self._node)

    def __iter__(self) -> Iterator[OpaqueValue]:
        """Iterate over the entries of a vector or the rows of a matrix."""
        return iter(self.refuse() if self._parts is None else self._parts)

    def __len__(self) -> int:
        return len(self.refuse() if self._parts is None else self._parts)

    def __getitem__(self, key: Any) -> Any:
        return (self.refuse() if self._parts is None else self._parts)[key]


_BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor")
_OTHERS = ("bool", "index", "int", "float", "complex", "str", "format", "neg", "pos", "abs", "invert", "round", "call")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "contains", "hash")

for _name in (*_BINARY, *(f"r{name}" for name in _BINARY), *_OTHERS, *_COMPARISONS):
    setattr(OpaqueValue, f"__{_name}__", OpaqueValue.refuse)
