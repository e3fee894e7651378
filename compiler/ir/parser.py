"""Text to IR: the inverse of the printer, with errors that name line and column."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple

from ..errors import ParseError, Span
from . import form
from .build import normal_constant
from .depth import NESTING, deep
from .nodes import STATEMENTS, Block, Const, Kernel, Op, Param, Stmt, Task, Temp, Value
from .ops import OPS
from .types import SCALARS, ArrayType, Scalar

_LEXEME = re.compile(
    r"(?P<space>\s+|//[^\n]*)|(?P<string>\"(?:[^\"\\]|\\.)*\")|(?P<value>%\d+)"
    r"|(?P<number>-?(?:\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?|inf\b)|nan\b)|(?P<name>[A-Za-z_$][\w.$]*)|(?P<mark>\.\.|.)"
)


class _Lexeme(NamedTuple):
    kind: str
    text: str
    offset: int


UNNAMED = "<kernel given as IR text>"
"""The file of a text that was given no name."""

_DIGITS = 4000
"""Most of a number; Python reads no integers that are much longer."""


@deep
def parse_kernel(text: str, file: str = UNNAMED) -> Kernel:
    """The single kernel of the text. file: for messages. Raises ParseError; types and scopes are for the verifier.

    Statements lie where they stand in the text, unless it says with `!N` where they come from.
    """
    parser = _Parser(text, file)
    kernel = parser.kernel()
    parser.expect_end()
    return kernel


@deep
def parse_kernels(text: str, file: str = UNNAMED) -> list[Kernel]:
    """All kernels of the text, in order. file: for messages. Raises ParseError."""
    parser, found = _Parser(text, file), []
    while parser.peek().kind != "end":
        found.append(parser.kernel())
    return found


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.lexemes = [
            _Lexeme(m.lastgroup or "", m.group(0), m.start()) for m in _LEXEME.finditer(text) if m.lastgroup != "space"
        ]
        self.lexemes.append(_Lexeme("end", "end of text", len(text)))
        self.position = 0
        self.values: dict[int, Value] = {}
        self.locations: list[Span | None] = [None]
        self.nesting = 0
        self.is_placed = not re.search(r"(?m)!\d+\s*$", text)

    # -- lexemes --------------------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> _Lexeme:
        return self.lexemes[min(self.position + ahead, len(self.lexemes) - 1)]

    def span(self, lexeme: _Lexeme) -> Span:
        line = bisect(self.starts, lexeme.offset)
        column = lexeme.offset - self.starts[line - 1]
        width = 0 if lexeme.kind == "end" else len(lexeme.text)
        return Span(self.file, line, column, column + width, self.lines[line - 1])

    def fail(self, message: str, cure: str = "") -> ParseError:
        """The error at the next lexeme."""
        found = self.peek().text
        shown = repr(found if len(found) <= 40 else found[:40] + "...")
        return ParseError(f"{message}, found {shown}", cure, self.span(self.peek()))

    def next(self, kind: str, what: str) -> str:
        if self.peek().kind != kind:
            raise self.fail(f"expected {what}")
        self.position += 1
        return self.lexemes[self.position - 1].text

    def accept(self, text: str) -> bool:
        if self.peek().text == text and self.peek().kind in ("name", "mark"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fail(f"expected {text!r}")

    def expect_end(self) -> None:
        if self.peek().kind != "end":
            raise self.fail("expected the end of the text")

    def integer(self, bits: int = 64) -> int:
        """A signed integer of at most so many bits."""
        text = self.next("number", "an integer")
        found = int(text) if len(text) <= _DIGITS and text.removeprefix("-").isdecimal() else None
        if found is None or found.bit_length() >= bits:
            self.position -= 1
            raise self.fail("expected an integer" if found is None else f"expected an integer of {bits} bits")
        return found

    def number(self) -> int:
        """Of a value."""
        text = self.next("value", "a value")[1:]
        if len(text) > _DIGITS:
            self.position -= 1
            raise self.fail("the number of a value is too long")
        return int(text)

    def string(self) -> str:
        text = self.next("string", "a string")
        try:
            found: str = json.loads(text)
            found.encode()
        except ValueError as error:
            self.position -= 1
            raise self.fail(f"the string is none of JSON: {error}", "escape what is no printable character") from None
        return found

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
            self.position -= 1
            raise self.fail("expected a scalar type")
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
        return Task(self.block(), tuple(indices), bounds, tuple(begin), tuple(end))

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
            self.position -= 1
            raise self.fail(f"%{number} is used before it is defined")
        return self.values[number]

    # -- statements -----------------------------------------------------------------------------------------

    def statement(self) -> Stmt:
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
        if isinstance(token, form.Word):
            self.expect(token.text)
        elif isinstance(token, form.Hole):
            found[token.field] = self._hole(cls, token, found)
        elif isinstance(token.tokens[0], form.Word) and self.peek().text == token.tokens[0].text:
            for inner in token.tokens:
                self._token(cls, inner, found)

    def _hole(self, cls: type[Stmt], hole: form.Hole, found: dict[str, Any]) -> Any:
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
            return normal_constant(self.integer(4 * _DIGITS), dtype)
        value = float(self.next("number", "a number"))
        return math.nan if value != value else normal_constant(value, dtype)


@cache
def _integers() -> frozenset[tuple[type[Stmt], str]]:
    """Attributes that are integers, by class and field."""
    return frozenset((cls, f.name) for cls in STATEMENTS.values() for f in fields(cls) if str(f.type).startswith("int"))
