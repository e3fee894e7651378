"""Messages that a kernel prints or fails with: a template with `{}` for each value known at launch only."""
from __future__ import annotations

import ast

from ..ir import nodes as n
from ..ir.nodes import Value
from .context import Tracer
from .conversions import as_matrix
from .diagnostics import mistyped, unsupported
from .operands import UNKNOWN, MatrixValue, Operand, Pack, ShapeOf, Static, StructValue, describe, known


class Template:
    """Text and values in order. names: the text holds `{name}` where a value stands, instead of the value."""

    def __init__(self, names: bool = False) -> None:
        self.text = ""
        self.values: list[Value] = []
        self._names = names

    def literal(self, text: str) -> None:
        """Append text as it is."""
        self.text += text

    def finished(self) -> str:
        """The template; refuses text of the program that reads like the place of a value."""
        if self.text.count("{}") != len(self.values):
            raise unsupported("a printed text cannot hold `{}`", "write it differently, as `{ }`")
        return self.text

    def operand(self, t: Tracer, operand: Operand) -> None:
        """Append a value, or the text of what is known at compile time."""
        if isinstance(operand, Value):
            self.text += "{}"
            self.values.append(operand)
        elif isinstance(operand, Pack) or (isinstance(operand, Static) and isinstance(operand.value, ShapeOf)):
            self._items(t, "(", t.items(operand) or (), ")")
        elif isinstance(operand, MatrixValue):
            self._matrix(t, operand)
        elif isinstance(operand, StructValue):
            self._struct(t, operand)
        elif isinstance(operand, Static) and isinstance(operand.value, (bool, int, float, str, type(None))):
            self.literal(str(operand.value))
        elif (matrix := as_matrix(t, operand)) is not None:
            self._matrix(t, matrix)
        else:
            raise mistyped(f"{describe(operand)} cannot be printed", "print its elements")

    def _items(self, t: Tracer, begin: str, items: tuple[Operand, ...], end: str) -> None:
        self.text += begin
        for position, item in enumerate(items):
            self.text += ", " if position else ""
            self.operand(t, item)
        self.text += end

    def _matrix(self, t: Tracer, matrix: MatrixValue) -> None:
        """Append a vector as `[a, b]`, a matrix as `[[a, b], [c, d]]`."""
        if len(matrix.shape) == 1:
            self._items(t, "[", matrix.items, "]")
            return
        columns = matrix.shape[1]
        rows = [matrix.items[i : i + columns] for i in range(0, len(matrix.items), columns)]
        self._items(t, "[", tuple(MatrixValue((columns,), row) for row in rows), "]")

    def _struct(self, t: Tracer, struct: StructValue) -> None:
        """Append a struct as `{name: value, name: value}`."""
        self.text += "{"
        for position, (name, member) in enumerate(struct.members.items()):
            self.text += f"{', ' if position else ''}{name}: "
            self.operand(t, member)
        self.text += "}"

    def shown(self, t: Tracer, operand: Operand, node: ast.expr) -> None:
        """Append an operand, or what the program calls it."""
        if self._names and known(operand) is UNKNOWN:
            self.literal("{" + ast.unparse(node) + "}")
        else:
            self.operand(t, operand)

    def formatted(self, t: Tracer, node: ast.JoinedStr) -> None:
        """Append an f-string; format specifications work on what is known at compile time."""
        for part in node.values:
            if isinstance(part, ast.Constant):
                self.literal(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                self._part(t, part)

    def _part(self, t: Tracer, part: ast.FormattedValue) -> None:
        operand = t.clean(part.value)
        if self._names and known(operand) is UNKNOWN:
            self.shown(t, operand, part.value)
            return
        if part.format_spec is None and (part.conversion == -1 or isinstance(operand, Value)):
            self.operand(t, operand)
            return
        if known(operand) is UNKNOWN:
            t.warn("a value of a kernel is printed in full: the format is left out", "remove what follows the `:`")
            self.operand(t, operand)
            return
        specification = Template()
        if isinstance(part.format_spec, ast.JoinedStr):
            specification.formatted(t, part.format_spec)
        value = operand.value if isinstance(operand, Static) else None
        convert = {ord("r"): repr, ord("s"): str, ord("a"): ascii}.get(part.conversion, lambda v: v)
        self.literal(format(convert(value), specification.text))  # type: ignore[operator]


def template_of(t: Tracer, node: ast.expr, into: Template) -> None:
    """Append the text of one argument of `print`, or of a message."""
    if isinstance(node, ast.JoinedStr):
        into.formatted(t, node)
    else:
        into.shown(t, t.clean(node), node)


def assertion_text(t: Tracer, node: ast.Assert) -> str:
    """The message of an assertion, with names where it has values; the condition itself if there is none."""
    if node.msg is None:
        return f"assertion failed: {ast.unparse(node.test)}"
    made = Template(names=True)
    template_of(t, node.msg, made)
    return made.text


def lower_print(t: Tracer, node: ast.Call) -> Operand:
    """`print(...)`: values, strings and f-strings; `sep` may be a constant, `end` only a newline."""
    separator = " "
    for keyword in node.keywords:
        operand = t.clean(keyword.value)
        if not isinstance(operand, Static) or not isinstance(operand.value, str):
            raise mistyped(f"`{keyword.arg}` of print is a constant string", "print without it", keyword.value)
        if keyword.arg == "sep":
            separator = operand.value
        elif keyword.arg != "end" or operand.value != "\n":
            raise unsupported("a kernel prints whole lines to the standard output", "print without it", keyword.value)
    made = Template()
    for position, argument in enumerate(node.args):
        made.literal(separator if position else "")
        template_of(t, argument, made)
    t.builder.emit(n.Print(made.finished(), tuple(made.values), loc=t.builder.loc))
    return Static(None)
