"""Size expressions as text, and back: `parse_size(print_size(x), kernel)` is x, up to the numbers of its indices.

    max($i in 0 .. shape(x, 0): row[$i + 1] - row[$i])

Indices are named in order of nesting: $i, $j, .. The kernel gives the types of arguments and arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..errors import ParseError
from ..ir.nodes import Kernel
from . import algebra as a
from .expressions import KINDS, OVER, Expr, argument, const, node, read, shape, variable, variable_of
from .expressions import TRUE as YES

NAMES = "ijklmnopqrstuvwxyz"
_COMPARED = {"cmp_lt": "<", "cmp_le": "<=", "cmp_eq": "==", "cmp_ne": "!="}
_LEXEME = re.compile(
    r"\s*(?:(?P<real>-?(?:\d+\.(?!\.)\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b)|nan\b)|(?P<number>\d+)"
    r"|(?P<name>[A-Za-z_$][\w.$]*)|(?P<mark>\.\.|<=|==|!=|//|.))"
)


def print_size(x: Expr, names: dict[int, str] | None = None) -> str:
    """The text of an expression."""
    return PRINT[x.kind](x, names or {})


def _operand(x: Expr, names: dict[int, str]) -> str:
    """In parentheses unless it holds together by itself."""
    text = print_size(x, names)
    return f"({text})" if x.kind in _LOOSE else text


_LOOSE = {"sum", "product", "floordiv", "mod", "positive", "zero", "compare", "not", "and", "or"}


def _name(number: int) -> str:
    return f"${NAMES[number]}" if number < len(NAMES) else f"${NAMES[-1]}{number}"


def _call(word: str) -> Callable[[Expr, dict[int, str]], str]:
    return lambda x, names: f"{word}({', '.join(print_size(arg, names) for arg in x.args)})"


def _between(word: str) -> Callable[[Expr, dict[int, str]], str]:
    return lambda x, names: f" {word} ".join(_operand(arg, names) for arg in x.args)


def _over(x: Expr, names: dict[int, str]) -> str:
    own = _name(len(names))
    begin, end = (print_size(arg, names) for arg in x.args[:2])
    body = print_size(x.args[2], {**names, variable_of(x): own})
    return f"{'sum' if x.kind == 'total' else 'max'}({own} in {begin} .. {end}: {body})"


def _signed(constant: int, terms: a.Terms, names: dict[int, str]) -> str:
    """A sum, what is added before what is subtracted."""
    text = ""
    for term, factor in sorted(terms.items(), key=lambda tf: tf[1] < 0):
        word = _operand(term, names) if abs(factor) == 1 else f"{abs(factor)}*{_operand(term, names)}"
        sign = ("-" if factor < 0 else "") if not text else " - " if factor < 0 else " + "
        text += sign + word
    if not text:
        return str(constant)
    return text + (f" {'-' if constant < 0 else '+'} {abs(constant)}" if constant else "")


def _compared(x: Expr, names: dict[int, str]) -> str:
    """0 < a - b as b < a."""
    constant, terms = a.linear(x.args[0])
    added = {t: f for t, f in terms.items() if f > 0}
    taken = {t: -f for t, f in terms.items() if f < 0}
    sides = _signed(max(-constant, 0), taken, names), _signed(max(constant, 0), added, names)
    return f"{sides[0]} {'<' if x.kind == 'positive' else '=='} {sides[1]}"


PRINT: dict[str, Callable[[Expr, dict[int, str]], str]] = {
    "const": lambda x, _: str(x.data[0]).lower() if isinstance(x.data[0], bool) else repr(x.data[0]),
    "arg": lambda x, _: str(x.data[0]),
    "shape": lambda x, _: f"shape({x.data[0]}, {x.data[1]})",
    "var": lambda x, names: names.get(variable_of(x), f"${variable_of(x)}"),
    "read": lambda x, names: f"{x.data[0]}[{', '.join(print_size(arg, names) for arg in x.args)}]",
    "sum": lambda x, names: _signed(*a.linear(x), names),
    "product": _between("*"),
    "floordiv": _between("//"),
    "mod": _between("%"),
    "max": _call("max"),
    "min": _call("min"),
    "when": _call("if"),
    "total": _over,
    "largest": _over,
    "positive": _compared,
    "zero": _compared,
    "compare": lambda x, names: f" {_COMPARED[str(x.data[0])]} ".join(print_size(arg, names) for arg in x.args),
    "not": lambda x, names: f"not {_operand(x.args[0], names)}",
    "and": _between("and"),
    "or": _between("or"),
}
"""How each kind is written."""

assert PRINT.keys() == KINDS.keys()


# ---- reading ------------------------------------------------------------------------------------------------


def parse_size(text: str, kernel: Kernel) -> Expr:
    """The expression of a text on the arguments of a kernel. Raises ParseError."""
    parser = _Parser(text, kernel)
    found = parser.condition()
    if parser.peek() != ("end", ""):
        raise parser.fail("expected the end")
    return found


class _Parser:
    def __init__(self, text: str, kernel: Kernel) -> None:
        self.text = text
        self.scalars = kernel.scalar_types()
        self.arrays = kernel.array_types()
        found = [(m.lastgroup or "", m.group(m.lastgroup or 0), m.end()) for m in _LEXEME.finditer(text.rstrip())]
        self.lexemes = [(kind, word) for kind, word, _ in found]
        self.ends = [0, *(end for _, _, end in found)]
        self.at = 0
        self.names: dict[str, Expr] = {}

    # -- lexemes --------------------------------------------------------------------------------------------

    def peek(self) -> tuple[str, str]:
        return self.lexemes[self.at] if self.at < len(self.lexemes) else ("end", "")

    def fail(self, message: str) -> ParseError:
        return ParseError(f"size expression, column {self.ends[self.at] + 1}: {message}, found {self.peek()[1]!r}")

    def accept(self, word: str) -> bool:
        if self.peek()[1] == word and self.peek()[0] in ("name", "mark"):
            self.at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.fail(f"expected {word!r}")

    def next(self, kind: str, what: str) -> str:
        if self.peek()[0] != kind:
            raise self.fail(f"expected {what}")
        self.at += 1
        return self.lexemes[self.at - 1][1]

    # -- levels ---------------------------------------------------------------------------------------------

    def condition(self) -> Expr:
        """not, comparisons, and, or: in parentheses wherever they are mixed."""
        if self.accept("not"):
            return self.node("not", self.primary())
        found = self.compared()
        for word in ("and", "or"):
            if self.peek()[1] == word:
                parts = [found]
                while self.accept(word):
                    parts.append(self.compared())
                return self.node(word, *parts)
        return found

    def compared(self) -> Expr:
        left = self.sum()
        for operation, word in _COMPARED.items():
            if self.accept(word):
                right = self.sum()
                if left.is_real or right.is_real:
                    return a.compare(operation, left, right)
                return a.positive(a.sub(right, left)) if operation == "cmp_lt" else a.zero(a.sub(left, right))
        return left

    def sum(self) -> Expr:
        found = a.scale(self.term(), -1) if self.accept("-") else self.term()
        while self.peek()[1] in ("+", "-"):
            sign = 1 if self.accept("+") else -1
            self.at += sign < 0
            found = a.add(found, a.scale(self.term(), sign))
        return found

    def term(self) -> Expr:
        found = self.primary()
        while self.peek()[1] in ("*", "//", "%"):
            make = {"*": a.mul, "//": a.floordiv, "%": a.mod}[self.next("mark", "an operation")]
            found = make(found, self.primary())
        return found

    def primary(self) -> Expr:
        kind, word = self.peek()
        self.at += 1
        if kind in ("number", "real"):
            return const(int(word) if kind == "number" else float(word))
        if word == "(":
            found = self.condition()
            self.expect(")")
            return found
        if kind == "name":
            return self.named(word)
        self.at -= 1
        raise self.fail("expected an operand")

    def named(self, word: str) -> Expr:
        if word in self.names:
            return self.names[word]
        if self.accept("["):
            return self.read(word)
        if word in ("max", "min", "if", "sum", "shape") and self.accept("("):
            return self.call(word)
        if word in ("true", "false") and word not in self.scalars:
            return YES if word == "true" else const(False)
        if word not in self.scalars:
            self.at -= 1
            raise self.fail("expected a name of an argument")
        return argument(word, self.scalars[word])

    def read(self, array: str) -> Expr:
        if array not in self.arrays:
            raise self.fail(f"the kernel has no array {array!r}")
        indices: list[Expr] = []
        while not self.accept("]"):
            indices.append(self.condition())
            if not self.accept(","):
                self.expect("]")
                break
        return read(array, self.arrays[array].dtype, indices)

    def call(self, word: str) -> Expr:
        if word == "shape":
            array = self.next("name", "an array")
            self.expect(",")
            axis = int(self.next("number", "an axis"))
            self.expect(")")
            return shape(array, axis)
        if self.peek()[1].startswith("$") and self.lexemes[self.at + 1 : self.at + 2] == [("name", "in")]:
            return self.over("total" if word == "sum" else "largest")
        args = [self.condition()]
        while self.accept(","):
            args.append(self.condition())
        self.expect(")")
        return _CALLED[word](*args)

    def over(self, kind: str) -> Expr:
        name = self.next("name", "an index")
        self.expect("in")
        begin = self.sum()
        self.expect("..")
        end = self.sum()
        self.expect(":")
        number, outer = len(self.names), dict(self.names)
        self.names[name] = variable(number, begin.low, max(end.high - 1, begin.low))
        body = self.condition()
        self.names = outer
        self.expect(")")
        return a.over(kind, number, begin, end, body)

    def node(self, kind: str, *args: Expr) -> Expr:
        return _JOINED[kind](*args)


_CALLED: dict[str, Callable[..., Expr]] = {"max": a.maximum, "min": a.minimum, "if": a.when}
_JOINED: dict[str, Callable[..., Expr]] = {"not": a.negate, "and": a.both, "or": a.either}


def numbered(x: Expr, names: dict[int, int] | None = None) -> Expr:
    """The expression with indices numbered in order of nesting, as the parser numbers them."""
    names = names or {}
    if x.kind == "var":
        return variable(names.get(variable_of(x), variable_of(x)), x.low, x.high)
    if x.kind in OVER:
        begin, end = (numbered(arg, names) for arg in x.args[:2])
        body = numbered(x.args[2], {**names, variable_of(x): len(names)})
        return node(x.kind, (begin, end, body), (len(names),), x.low, x.high)
    return node(x.kind, tuple(numbered(arg, names) for arg in x.args), x.data, x.low, x.high) if x.args else x
