"""This module builds the text templates of `print` and assertions, which have placeholders for run-time values."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..ir import nodes as n
from ..ir.statement import Value
from ..ir.texts import OPEN_END, place_formats
from .context import Tracer
from .conversions import as_matrix
from .diagnostics import type_problem, unsupported_problem
from .operands import UNKNOWN, MatrixValue, Operand, Pack, ShapeOf, Static, StructValue, describe, known_object

_CONVERSIONS: dict[int, Callable[[object], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}
"""These functions belong to the letters that may follow `!` in an f-string."""


class MessageTemplate:
    """A `MessageTemplate` collects the text of a message with placeholders, and the values for these.

    Args:
        names: True to put `{name}` into the text in place of a value.
    """

    def __init__(self, names: bool = False) -> None:
        self.text = ""
        self.values: list[Value] = []
        self._names = names

    def literal(self, text: str) -> None:
        """Append text literally, without interpretation of braces."""
        self.text += text

    def finished(self) -> str:
        """Return the finished template; raise ProblemError if literal text in it reads like a placeholder.

        Raises:
            ProblemError: literal text contains a placeholder such as `{}`.
        """
        if len(place_formats(self.text)) != len(self.values) or self.text.endswith(OPEN_END):
            raise unsupported_problem("a printed text cannot hold `{}`", "write it differently, as `{ }`")
        return self.text

    def operand(self, t: Tracer, operand: Operand, spec: str = "") -> None:
        """Append a placeholder for a run-time value, or the formatted text of an operand known at compile time.

        Args:
            t: the tracer.
            operand: the operand.
            spec: format of each number in the operand, "" for the shortest text.
        """
        if isinstance(operand, Value):
            self._value(operand, spec)
        elif isinstance(operand, Pack) or (isinstance(operand, Static) and isinstance(operand.value, ShapeOf)):
            self._items(t, "()", t.items(operand) or (), spec)
        elif isinstance(operand, MatrixValue):
            self._matrix(t, operand, spec)
        elif isinstance(operand, StructValue):
            self._struct(t, operand, spec)
        elif isinstance(operand, Static) and isinstance(operand.value, (bool, int, float, str, type(None))):
            self.literal(_formatted(operand.value, spec) if spec else str(operand.value))
        elif (matrix := as_matrix(t, operand)) is not None:
            self._matrix(t, matrix, spec)
        else:
            raise type_problem(f"{describe(operand)} cannot be printed", "print its elements")

    def _value(self, value: Value, spec: str) -> None:
        if spec:
            # Formatting a sample value reports a wrong format at compile time.
            _formatted(1.0 if value.type.is_real else value.type.is_bool or 1, spec)
        self.text += f"{{:{spec}}}" if spec else "{}"
        self.values.append(value)

    def _items(self, t: Tracer, brackets: str, items: tuple[Operand, ...], spec: str) -> None:
        self.text += brackets[0]
        for position, item in enumerate(items):
            self.text += ", " if position else ""
            self.operand(t, item, spec)
        self.text += brackets[1]

    def _matrix(self, t: Tracer, matrix: MatrixValue, spec: str) -> None:
        """Append a vector as `[a, b]`, or a matrix as `[[a, b], [c, d]]`."""
        if len(matrix.shape) == 1:
            self._items(t, "[]", matrix.items, spec)
            return
        columns = matrix.shape[1]
        rows = [matrix.items[i : i + columns] for i in range(0, len(matrix.items), columns)]
        self._items(t, "[]", tuple(MatrixValue((columns,), row) for row in rows), spec)

    def _struct(self, t: Tracer, struct: StructValue, spec: str) -> None:
        """Append a struct as `{name: value, name: value}`."""
        self.text += "{"
        for position, (name, member) in enumerate(struct.members.items()):
            self.text += f"{', ' if position else ''}{name}: "
            self.operand(t, member, spec)
        self.text += "}"

    def shown(self, t: Tracer, operand: Operand, node: ast.expr) -> None:
        """Append an operand, or its source text in braces if the template shows names instead of run-time values."""
        if self._names and known_object(operand) is UNKNOWN:
            self.literal("{" + ast.unparse(node) + "}")
        else:
            self.operand(t, operand)

    def formatted(self, t: Tracer, node: ast.JoinedStr) -> None:
        """Append the parts of an f-string: literal text, and placeholders for values."""
        for part in node.values:
            if isinstance(part, ast.Constant):
                self.literal(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                self._part(t, part)

    def _part(self, t: Tracer, part: ast.FormattedValue) -> None:
        operand = t.clean(part.value)
        if self._names and known_object(operand) is UNKNOWN:
            self.shown(t, operand, part.value)
            return
        spec = MessageTemplate()
        if isinstance(part.format_spec, ast.JoinedStr):
            spec.formatted(t, part.format_spec)
        if spec.values:
            raise type_problem("the format of a value is known at compile time", "write it as a constant", part)
        if isinstance(operand, Static) and part.conversion != -1:
            operand = Static(_CONVERSIONS[part.conversion](operand.value))
        self.operand(t, operand, spec.text)


def _formatted(value: object, spec: str) -> str:
    """Return Python's formatted text, or raise ProblemError if Python rejects the format."""
    try:
        return format(value, spec)
    except (TypeError, ValueError) as error:
        raise type_problem(f"the format `{spec}` does not fit: {error}", "correct it, or print without it") from None


def template_of(t: Tracer, node: ast.expr, into: MessageTemplate) -> None:
    """Append the text of one argument of `print`, or of a message, to the template `into`."""
    if isinstance(node, ast.JoinedStr):
        into.formatted(t, node)
    else:
        into.shown(t, t.clean(node), node)


def assertion_text(t: Tracer, node: ast.Assert) -> str:
    """Return the message of an assertion with names in place of values, or its condition if it has no message."""
    if node.msg is None:
        return f"assertion failed: {ast.unparse(node.test)}"
    made = MessageTemplate(names=True)
    template_of(t, node.msg, made)
    return made.text


def lower_print(t: Tracer, node: ast.Call) -> Operand:
    """Emit a `print(...)` of values, strings and f-strings; `sep` and `end` are constants."""
    constants = {"sep": " ", "end": "\n"}
    for keyword in node.keywords:
        operand = t.clean(keyword.value)
        if not isinstance(operand, Static) or not isinstance(operand.value, str):
            raise type_problem(f"`{keyword.arg}` of print is a constant string", "print without it", keyword.value)
        if keyword.arg not in constants:
            raise unsupported_problem("a kernel prints to the standard output", "print without it", keyword.value)
        constants[keyword.arg] = operand.value
    made = MessageTemplate()
    for position, argument in enumerate(node.args):
        made.literal(constants["sep"] if position else "")
        template_of(t, argument, made)
    whole = constants["end"].endswith("\n")
    made.literal(constants["end"].removesuffix("\n"))
    text = made.finished() + ("" if whole else OPEN_END)
    t.builder.emit(n.Print(text, tuple(made.values), loc=t.builder.loc))
    return Static(None)
