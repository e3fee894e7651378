"""This module parses the text form of the IR, as the inverse of the printer; errors have a line and a column."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from functools import cache
from typing import Any

from ..errors import Span
from . import form
from .build import normal_constant
from .depth import NESTING, with_stack_room
from .kernels import Kernel, Param, Task, Temp
from .lexer import COMMENT, DIGITS, NAME, STRING, Lexer, language
from .nodes import STATEMENTS, Const, Op
from .ops import OPS
from .statement import Block, Stmt, Value
from .types import SCALARS, ArrayType, Scalar

_LANGUAGE = language(
    r"\.\.",
    COMMENT,
    string=STRING,
    value=r"%\d+",
    number=r"-?(?:\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?|inf\b)|nan\b",
    name=NAME,
)

UNNAMED = "<kernel given as IR text>"
"""This name stands for the file in errors about a text that has none."""


@with_stack_room
def parse_kernel(text: str, file: str = UNNAMED) -> Kernel:
    """Parse an IR text that must hold exactly one kernel, and return this kernel.

    Each statement gets its own position in the text as its location, unless the text says with `!N` where statements
    come from.

    Args:
        text: text of one kernel. The verifier, not the parser, checks types and scopes.
        file: name of the file in messages and spans.

    Raises:
        ParseError: the text is not one kernel.
    """
    parser = _KernelParser(text, file)
    kernel = parser.kernel()
    parser.expect_end()
    return kernel


@with_stack_room
def parse_kernels(text: str, file: str = UNNAMED) -> list[Kernel]:
    """Parse an IR text and return all kernels in it, in order.

    Args:
        text: text of any number of kernels.
        file: name of the file in messages and spans.

    Raises:
        ParseError: the text is not a sequence of kernels.
    """
    parser, found = _KernelParser(text, file), []
    while parser.peek().kind != "end":
        found.append(parser.kernel())
    return found


class _KernelParser(Lexer):
    """This recursive-descent parser reads kernels; each method consumes the construct that it is named after.

    Attributes:
        values: values of the current kernel by id.
        locations: location table of the current kernel.
        nesting: number of blocks that are open.
        is_placed: True if statements get their positions in the text as locations, because no `!N` is given.
    """

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file, _LANGUAGE)
        self.values: dict[int, Value] = {}
        self.locations: list[Span | None] = [None]
        self.nesting = 0
        self.is_placed = not re.search(r"(?m)!\d+\s*$", text)

    def number(self) -> int:
        """Consume a value such as `%3` and return its number."""
        text = self.next("value", "a value")[1:]
        if len(text) > DIGITS:
            raise self.fail("the number of a value is too long", back=1)
        return int(text)

    # -- kernels --------------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        self.values, self.locations = {}, [None]
        self.expect("kernel")
        name = self.next("name", "the kernel's name")
        self.expect("(")
        params: list[Param] = []
        while not self.accept(")"):
            if params:
                self.expect(",")
            params.append(self.param())
        self.expect("{")
        temps, tasks = [], []
        while not self.accept("}"):
            if self.accept("temp"):
                temp = self.next("name", "a name")
                self.expect(":")
                temps.append(Temp(temp, self.scalar()))
            else:
                tasks.append(self.task())
        locations = tuple(self.locations) if self.is_placed else (None,)
        return Kernel(name, tuple(params), tuple(tasks), tuple(temps), locations)

    def param(self) -> Param:
        name = self.next("name", "a parameter")
        self.expect(":")
        dtype = self.scalar()
        if not self.accept("["):
            return Param(name, dtype)
        ndim = self.integer()
        self.expect("]")
        return Param(name, ArrayType(dtype, ndim, self.accept("grad")))

    def scalar(self) -> Scalar:
        found = SCALARS.get(self.next("name", "a type"))
        if found is None:
            raise self.fail("expected a scalar type", back=1)
        return found

    def task(self) -> Task:
        if self.accept("serial"):
            return Task(self.block())
        self.expect("bounds")
        bounds = self.block()
        self.expect("parallel")
        indices = [self.definition()]
        while self.accept(","):
            indices.append(self.definition())
        self.expect("in")
        begin, end = [], []
        for axis in range(len(indices)):
            if axis:
                self.expect(",")
            begin.append(self.use())
            self.expect("..")
            end.append(self.use())
        size = self.integer() if self.accept("block") else 0
        return Task(self.block(), tuple(indices), bounds, tuple(begin), tuple(end), block=size)

    def block(self) -> Block:
        if self.nesting > NESTING:
            raise self.fail(f"blocks nest more than {NESTING} deep", "put a part into a kernel of its own")
        self.expect("{")
        self.nesting += 1
        body = []
        while not self.accept("}"):
            body.append(self.statement())
        self.nesting -= 1
        return tuple(body)

    # -- values ---------------------------------------------------------------------------------------------

    def definition(self) -> Value:
        number = self.number()
        self.expect(":")
        if number in self.values:
            raise self.fail(f"%{number} is defined twice")
        self.values[number] = Value(number, self.scalar())
        return self.values[number]

    def use(self) -> Value:
        number = self.number()
        if number not in self.values:
            raise self.fail(f"%{number} is used before it is defined", back=1)
        return self.values[number]

    # -- statements -----------------------------------------------------------------------------------------

    def statement(self) -> Stmt:
        # A statement with a result starts with `%N : type =`: its keyword is the fifth lexeme.
        ahead = 4 if self.peek().kind == "value" else 0
        word = self.peek(ahead).text
        cls = Op if word in OPS else form.keywords().get(word)
        if cls is None:
            self.position += ahead
            raise self.fail("expected a statement or an operation")
        found: dict[str, Any] = {}
        if self.is_placed:
            found["loc"] = len(self.locations)
            self.locations.append(self.span(self.peek()))
        for token in form.tokens(cls):
            self._token(cls, token, found)
        if self.accept("!"):
            found["loc"] = self.integer()
        return cls(**found)

    def _token(self, cls: type[Stmt], token: form.Token, found: dict[str, Any]) -> None:
        if isinstance(token, form.LiteralToken):
            self.expect(token.text)
        elif isinstance(token, form.FieldToken):
            found[token.field] = self._hole(cls, token, found)
        elif isinstance(token.tokens[0], form.LiteralToken) and self.peek().text == token.tokens[0].text:
            for inner in token.tokens:
                self._token(cls, inner, found)

    def _hole(self, cls: type[Stmt], hole: form.FieldToken, found: dict[str, Any]) -> Any:
        if hole.role == "result":
            return self.definition()
        if hole.role == "block":
            return self.block()
        if hole.role == "operand":
            return self._uses() if hole.many else self.use()
        if hole.field in form.QUOTED:
            return self.string()
        return self._attribute(cls, hole.field, found)

    def _uses(self) -> tuple[Value, ...]:
        found: list[Value] = []
        if self.peek().kind == "value" and self.peek(1).text != ":":
            found.append(self.use())
            while self.accept(","):
                found.append(self.use())
        return tuple(found)

    def _attribute(self, cls: type[Stmt], name: str, found: dict[str, Any]) -> Any:
        if cls is Const:
            return self._constant(found["result"].type)
        if name == "dtype":
            return self.scalar()
        if name in ("descending", "adjoint"):
            return True
        return self.integer() if (cls, name) in _integers() else self.next("name", "a name")

    def _constant(self, dtype: Scalar) -> float | int | bool:
        if dtype.is_bool:
            if self.accept("true"):
                return True
            self.expect("false")
            return False
        if not dtype.is_real:
            return normal_constant(self.integer(4 * DIGITS), dtype)
        value = float(self.next("number", "a number"))
        return math.nan if value != value else normal_constant(value, dtype)


@cache
def _integers() -> frozenset[tuple[type[Stmt], str]]:
    """Return all attributes of statements that hold integers, as pairs of statement class and attribute name."""
    return frozenset((cls, f.name) for cls in STATEMENTS.values() for f in fields(cls) if str(f.type).startswith("int"))
