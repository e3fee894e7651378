"""Print size expressions as text, and parse them.

    max($i in 0 .. shape(x, 0): row[$i + 1] - row[$i])

`parse_size(print_size(x), kernel)` is x, up to the numbers of its indices. Indices are named in order of nesting: $i,
$j and so on. The kernel gives the types of arguments and arrays.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.kernels import Kernel
from ..ir.lexer import DIGITS, NAME, Lexer, language
from . import algebra as a
from .expressions import KINDS, OVER, SizeExpr, argument, const, node, read, shape, variable, variable_of
from .expressions import TRUE as YES

NAMES = "ijklmnopqrstuvwxyz"
_COMPARED = {"cmp_lt": "<", "cmp_le": "<=", "cmp_eq": "==", "cmp_ne": "!="}
_LANGUAGE = language(
    r"\.\.|<=|==|!=|//", real=r"-?(?:\d+\.(?!\.)\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b)|nan\b", number=r"\d+", name=NAME
)
UNNAMED = "<size expression>"
"""This name stands for the file in errors about a size expression."""


def print_size(x: SizeExpr, names: dict[int, str] | None = None) -> str:
    """Return the text of a size expression; `names` maps the numbers of loops to index names.

    Args:
        x: The expression.
        names: Names of the indices of loops around, by their number.
    """
    return PRINT[x.kind](x, names or {})


def _operand(x: SizeExpr, names: dict[int, str]) -> str:
    """Return the text of an operand, in parentheses if operator precedence requires them."""
    text = print_size(x, names)
    return f"({text})" if x.kind in _LOOSE else text


_LOOSE = {"sum", "product", "floordiv", "mod", "positive", "zero", "compare", "not", "and", "or"}
"""Kinds whose text needs parentheses as an operand."""


def _name(number: int) -> str:
    """Return the printed name of the loop index at a depth of nesting, such as `$i`."""
    return f"${NAMES[number]}" if number < len(NAMES) else f"${NAMES[-1]}{number}"


def _call(word: str) -> Callable[[SizeExpr, dict[int, str]], str]:
    """Return a function that prints nodes as a call, `word(...)`."""
    return lambda x, names: f"{word}({', '.join(print_size(arg, names) for arg in x.args)})"


def _between(word: str) -> Callable[[SizeExpr, dict[int, str]], str]:
    """Return a function that prints nodes with the operator `word` between their arguments."""
    return lambda x, names: f" {word} ".join(_operand(arg, names) for arg in x.args)


def _over(x: SizeExpr, names: dict[int, str]) -> str:
    """Return the text of a sum or maximum over a range, such as `sum($i in 0 .. n: x[$i])`."""
    own = _name(len(names))
    begin, end = (print_size(arg, names) for arg in x.args[:2])
    body = print_size(x.args[2], {**names, variable_of(x): own})
    return f"{'sum' if x.kind == 'total' else 'max'}({own} in {begin} .. {end}: {body})"


def _signed(constant: int, terms: a.Terms, names: dict[int, str]) -> str:
    """Return the text of a sum, with positive terms before negative terms."""
    text = ""
    for term, factor in sorted(terms.items(), key=lambda tf: tf[1] < 0):
        word = _operand(term, names) if abs(factor) == 1 else f"{abs(factor)}*{_operand(term, names)}"
        sign = ("-" if factor < 0 else "") if not text else " - " if factor < 0 else " + "
        text += sign + word
    if not text:
        return str(constant)
    return text + (f" {'-' if constant < 0 else '+'} {abs(constant)}" if constant else "")


def _compared(x: SizeExpr, names: dict[int, str]) -> str:
    """Return the text of a comparison with 0: 0 < a - b is written as b < a."""
    constant, terms = a.linear(x.args[0])
    added = {t: f for t, f in terms.items() if f > 0}
    taken = {t: -f for t, f in terms.items() if f < 0}
    sides = _signed(max(-constant, 0), taken, names), _signed(max(constant, 0), added, names)
    return f"{sides[0]} {'<' if x.kind == 'positive' else '=='} {sides[1]}"


PRINT: dict[str, Callable[[SizeExpr, dict[int, str]], str]] = {
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
"""The printer of each kind."""

assert PRINT.keys() == KINDS.keys()


# ---- reading ------------------------------------------------------------------------------------------------


def parse_size(text: str, kernel: Kernel) -> SizeExpr:
    """Return the size expression that a text describes, for a kernel with these arrays and arguments.

    Args:
        text: The text.
        kernel: The kernel whose arguments and arrays the text names.

    Raises:
        ParseError: The text is not a size expression.
    """
    parser = _SizeExprParser(text, kernel)
    found = parser.condition()
    parser.expect_end()
    return found


class _SizeExprParser(Lexer):
    """This recursive-descent parser reads the text of one size expression."""

    def __init__(self, text: str, kernel: Kernel) -> None:
        super().__init__(text, UNNAMED, _LANGUAGE)
        self.scalars = kernel.scalar_types()
        self.arrays = kernel.array_types()
        self.names: dict[str, SizeExpr] = {}

    # -- levels ---------------------------------------------------------------------------------------------

    def condition(self) -> SizeExpr:
        """Parse a condition with not, and, or and comparisons, which must be parenthesized where they are mixed."""
        if self.accept("not"):
            return self.node("not", self.primary())
        found = self.compared()
        for word in ("and", "or"):
            if self.peek().text == word:
                parts = [found]
                while self.accept(word):
                    parts.append(self.compared())
                return self.node(word, *parts)
        return found

    def compared(self) -> SizeExpr:
        """Parse a sum, or a comparison of two sums, and return its node."""
        left = self.sum()
        for operation, word in _COMPARED.items():
            if self.accept(word):
                right = self.sum()
                if left.is_real or right.is_real:
                    return a.compare(operation, left, right)
                return a.positive(a.sub(right, left)) if operation == "cmp_lt" else a.zero(a.sub(left, right))
        return left

    def sum(self) -> SizeExpr:
        """Parse terms with + and - between them, and return the node of their sum."""
        found = a.scale(self.term(), -1) if self.accept("-") else self.term()
        while self.peek().text in ("+", "-"):
            sign = 1 if self.next("mark", "a sign") == "+" else -1
            found = a.add(found, a.scale(self.term(), sign))
        return found

    def term(self) -> SizeExpr:
        """Parse operands with *, // and % between them, and return the node of the result."""
        found = self.primary()
        while self.peek().text in ("*", "//", "%"):
            make = {"*": a.mul, "//": a.floordiv, "%": a.mod}[self.next("mark", "an operation")]
            found = make(found, self.primary())
        return found

    def primary(self) -> SizeExpr:
        """Parse a number, a name, or a condition in parentheses."""
        kind = self.peek().kind
        if kind == "number":
            return const(self.integer(4 * DIGITS))
        if kind == "real":
            return const(float(self.next("real", "a number")))
        if self.accept("("):
            found = self.condition()
            self.expect(")")
            return found
        return self.named(self.next("name", "an operand"))

    def named(self, word: str) -> SizeExpr:
        """Parse an expression that begins with a name: an index, an element, a call, a constant or an argument."""
        if word in self.names:
            return self.names[word]
        if self.accept("["):
            return self.read(word)
        if word in ("max", "min", "if", "sum", "shape") and self.accept("("):
            return self.call(word)
        if word in ("true", "false") and word not in self.scalars:
            return YES if word == "true" else const(False)
        if word not in self.scalars:
            raise self.fail("expected a name of an argument", back=1)
        return argument(word, self.scalars[word])

    def read(self, array: str) -> SizeExpr:
        """Parse the indices of an array element and return the element's node."""
        if array not in self.arrays:
            raise self.fail(f"the kernel has no array {array!r}", back=2)
        indices: list[SizeExpr] = []
        while not self.accept("]"):
            indices.append(self.condition())
            if not self.accept(","):
                self.expect("]")
                break
        return read(array, self.arrays[array].dtype, indices)

    def call(self, word: str) -> SizeExpr:
        """Parse the arguments of a call and return its node."""
        if word == "shape":
            array = self.next("name", "an array")
            self.expect(",")
            axis = self.integer(what="an axis")
            self.expect(")")
            return shape(array, axis)
        if self.peek().text.startswith("$") and self.peek(1).text == "in":
            return self.over("total" if word == "sum" else "largest")
        args = [self.condition()]
        while self.accept(","):
            args.append(self.condition())
        self.expect(")")
        return _CALLED[word](*args)

    def over(self, kind: str) -> SizeExpr:
        """Parse a sum or a maximum over a range, and return its node."""
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
        return a.range_node(kind, number, begin, end, body)

    def node(self, kind: str, *args: SizeExpr) -> SizeExpr:
        """Return the node of an `and` or `or` of the parsed arguments."""
        return _JOINED[kind](*args)


_CALLED: dict[str, Callable[..., SizeExpr]] = {"max": a.maximum, "min": a.minimum, "if": a.select_value}
_JOINED: dict[str, Callable[..., SizeExpr]] = {"not": a.negate, "and": a.all_of, "or": a.any_of}


def numbered(x: SizeExpr, names: dict[int, int] | None = None) -> SizeExpr:
    """Return the expression with loop indices numbered by depth of nesting, which is the numbering of the parser."""
    names = names or {}
    if x.kind == "var":
        return variable(names.get(variable_of(x), variable_of(x)), x.low, x.high)
    if x.kind in OVER:
        begin, end = (numbered(arg, names) for arg in x.args[:2])
        body = numbered(x.args[2], {**names, variable_of(x): len(names)})
        return node(x.kind, (begin, end, body), (len(names),), x.low, x.high)
    return node(x.kind, tuple(numbered(arg, names) for arg in x.args), x.data, x.low, x.high) if x.args else x
