"""Write nodes of the program model as text of one dialect, by tables with an entry for each class of node.

Invariant: every compound operand is in parentheses, so the text has exactly the tree of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....compiler.ir.table import Table
from . import nodes as m
from .dialects import Dialect
from .single_loops import is_single

Expression = Callable[["Writer", Any], str]
LineWriter = Callable[["Writer", Any], Iterator[str]]
TEXT: Table[type[m.Expr], Expression] = Table(
    "model text of expressions", m.EXPRESSIONS, about="the Python text of an expression of the model"
)
DOMAIN_TEXT: Table[type[m.Domain], Expression] = Table(
    "model text of domains", m.DOMAINS, about="the Python text of the domain of a loop of the model"
)
LINES: Table[type[m.Stmt], LineWriter] = Table(
    "model text of statements", m.STATEMENTS, about="the Python lines of a statement of the model"
)
_ATOMS = (
    m.Name,
    m.Element,
    m.Extent,
    m.Call,
    m.Invoke,
    m.Cast,
    m.BitCast,
    m.Random,
    m.AtomicCall,
    m.Walrus,
    m.Vector,
    m.Matrix,
    m.Comprehension,
    m.Filled,
    m.Part,
    m.Swizzle,
    m.Slice,
    m.Method,
    m.Convert,
    m.Make,
    m.Member,
)


class Writer:
    """Write nodes of the program model as source text of one dialect."""

    def __init__(self, program: m.Program, dialect: Dialect) -> None:
        self.program = program
        self.dialect = dialect

    def expr(self, node: m.Expr) -> str:
        """Return the text of an expression, without parentheses around it."""
        return TEXT[type(node)](self, node)

    def operand(self, node: m.Expr) -> str:
        """Return the text of an expression, in parentheses if it is not a name, call or similar."""
        text = self.expr(node)
        plain = isinstance(node, _ATOMS) or isinstance(node, m.Number) and not text.startswith("-")
        return text if plain else f"({text})"

    def list(self, nodes: tuple[m.Expr, ...]) -> str:
        """Return the texts of expressions, separated by commas."""
        return ", ".join(map(self.expr, nodes))

    def function(self, name: str, *args: str) -> str:
        """Return the text of a call of the kernel language's function `name`, with these argument texts."""
        return f"{self.dialect.function(name)}({', '.join(args)})"

    def axis(self, begin: m.Expr | None, end: m.Expr) -> str:
        """Return the text of an axis of `ndrange`: an extent or a pair."""
        return self.expr(end) if begin is None else f"({self.expr(begin)}, {self.expr(end)})"

    def order(self, box: m.Box) -> tuple[str, ...]:
        """Return the text of the keyword `axes` of a box, or nothing. Raise NotInDialect if the dialect lacks it."""
        if not box.order:
            return ()
        self.dialect.need("ndrange with axes")
        return (f"axes={box.order!r}",)

    def grouped(self, domain: m.Grouped) -> str:
        """Return the name of `grouped`. Raise NotInDialect if the dialect lacks it over a field without axes."""
        if is_single(self.program, domain):
            self.dialect.need("grouped without axes")
        return "grouped"

    def dtype(self, dtype: Any) -> str:
        """Return the name of a scalar type in the dialect's text."""
        return f"{self.dialect.alias}.{dtype}"

    def type(self, dtype: Any, shape: tuple[int, ...]) -> str:
        """Return the text of a scalar, vector or matrix type in the dialect."""
        if not shape:
            return self.dtype(dtype)
        made = f"{self.dialect.alias}.types.{'vector' if len(shape) == 1 else 'matrix'}"
        return f"{made}({', '.join(map(str, shape))}, {self.dtype(dtype)})"

    def decorator(self, function: m.Function) -> Iterator[str]:
        """Yield the line before a function's definition, or nothing for a plain function of Python."""
        if function.decorated:
            yield f"@{self.dialect.alias}.func"
        else:
            self.dialect.need("undecorated functions")

    def block(self, body: m.StmtBlock) -> Iterator[str]:
        """Yield the lines of a block with indentation, and `pass` for a block without statements."""
        for stmt in body or (m.Pass(),):
            for line in LINES[type(stmt)](self, stmt):
                yield "    " + line
