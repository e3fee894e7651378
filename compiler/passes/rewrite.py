"""The forward rewriter that passes over single statements share, and equations as its patterns.

A pass subclasses `Rewriter` and overrides `enter` and `leave`. Invariant: a renamed value is replaced by one whose
definition dominates it, so wherever the old name was visible the new one is; `definitions` holds the rewritten
definition of every constant, operation and cast met so far.

An `Equation` such as `sub(x, neg(y)) = add(x, y)` is read from left to right: names match values, the same name the
same value, and numbers match constants of that bit pattern in the type at hand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from ..ir import nodes as n
from ..ir.build import normal_constant
from ..ir.nodes import Block, Kernel, Stmt, Task, Value
from ..ir.ops import result_type
from ..ir.types import Scalar
from ..ir.walk import NESTED, kept_block, map_blocks, next_id, rename_operands

# ---- the walk -----------------------------------------------------------------------------------------------

_READ_BY_LAWS = frozenset({n.Const, n.Op, n.Cast, n.BitCast})
"""Classes whose definitions are kept: no pass asks for others."""


class Rewriter:
    """Rewrites the statements of a kernel in order of text.

    ENTERED, LEFT: classes of statements that `enter` and `leave` of the pass look at; others only pass through.
    """

    ENTERED: ClassVar[frozenset[type[Stmt]]] = frozenset()
    LEFT: ClassVar[frozenset[type[Stmt]]] = frozenset()

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.renamed: dict[Value, Value] = {}
        self.definitions: dict[Value, Stmt] = {}
        self._next_id: int | None = None
        self._stops = self.ENTERED | self.LEFT | NESTED

    def run(self) -> Kernel:
        """The rewritten kernel; the same object if nothing changed."""
        tasks = tuple(self._task(task) for task in self.kernel.tasks)
        if all(a is b for a, b in zip(tasks, self.kernel.tasks)):
            return self.kernel
        return replace(self.kernel, tasks=tasks)

    def enter(self, stmt: Stmt) -> Iterable[Stmt] | None:
        """Replace a statement before its blocks are rewritten; what is given is rewritten in its turn. None: keep."""
        return None

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        """Replace a statement that is rewritten, with its blocks, by finished statements. None: keep."""
        return None

    def rename(self, old: Value, new: Value) -> tuple[Stmt, ...]:
        """Use `new`, which dominates `old`, in its place from here on; the empty replacement."""
        self.renamed[old] = self.renamed.get(new, new)
        return ()

    def fresh(self, dtype: Scalar) -> Value:
        """A value that the kernel does not have yet."""
        if self._next_id is None:
            self._next_id = next_id(self.kernel)
        self._next_id += 1
        return Value(self._next_id - 1, dtype)

    def constant(self, value: Value) -> float | int | bool | None:
        """The number that the value is known to be, or None."""
        found = self.definitions.get(value)
        return found.value if isinstance(found, n.Const) else None

    def _task(self, task: Task) -> Task:
        bounds = self._block(task.bounds)
        begin, end = self._values(task.begin), self._values(task.end)
        body = self._block(task.body)
        if bounds is task.bounds and body is task.body and begin == task.begin and end == task.end:
            return task
        return replace(task, bounds=bounds, begin=begin, end=end, body=body)

    def _values(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.renamed.get(v, v) for v in values)

    def _block(self, block: Block) -> Block:
        made: list[Stmt] = []
        for stmt in block:
            cls = type(stmt)
            if cls in self._stops:
                self._statement(stmt, made)
                continue
            # Most statements only pass through, so they are spared the call.
            if self.renamed:
                stmt = rename_operands(stmt, self.renamed)
            made.append(stmt)
            if cls in _READ_BY_LAWS:
                self.definitions[stmt.result] = stmt  # type: ignore[attr-defined]
        return kept_block(block, made)

    def _statement(self, stmt: Stmt, made: list[Stmt]) -> None:
        """Append what becomes of the statement.

        Operands of a nest are renamed twice: those of a while test are defined in its own first block.
        """
        cls = type(stmt)
        if self.renamed:
            stmt = rename_operands(stmt, self.renamed)
        if cls in self.ENTERED:
            entered = self.enter(stmt)
            if entered is not None:
                for inner in entered:
                    self._statement(inner, made)
                return
        if cls in NESTED:
            stmt = rename_operands(map_blocks(stmt, self._block), self.renamed)
        left = self.leave(stmt) if cls in self.LEFT else None
        for one in (stmt,) if left is None else left:
            made.append(one)
            if type(one) in _READ_BY_LAWS:
                self.definitions[one.result] = one  # type: ignore[attr-defined]


# ---- equations ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """Any value; the same one at every place of the name."""

    text: str


@dataclass(frozen=True)
class Number:
    """A constant, rounded or wrapped to the type at hand."""

    value: float | int | bool


@dataclass(frozen=True)
class Term:
    """An operation on terms."""

    op: str
    args: tuple[Term | Name | Number, ...]


Pattern = Term | Name | Number


@dataclass(frozen=True)
class Equation:
    """left = right if the type of x is of one of these kinds ('f', 'i', 'u', 'b').

    A number on the left takes the type of the value it is compared with (a boolean matches booleans alone). On the
    right it takes the type of the result if it stands alone, else that of x.
    """

    text: str
    kinds: str
    left: Term
    right: Pattern


def equation(text: str, kinds: str) -> Equation:
    """Read `left = right`. Raises ValueError if it is no equation between terms."""
    left, _, right = text.partition(" = ")
    made = _pattern(ast.parse(left.strip(), mode="eval").body)
    if not isinstance(made, Term) or "x" not in re.findall(r"\w+", left):
        raise ValueError(f"{text}: the left side is no operation that reads x")
    return Equation(text, kinds, made, _pattern(ast.parse(right.strip(), mode="eval").body))


def _pattern(tree: ast.expr) -> Pattern:
    if isinstance(tree, ast.Name):
        return Name(tree.id)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return Term(tree.func.id, tuple(_pattern(a) for a in tree.args))
    number = ast.literal_eval(tree)
    if not isinstance(number, (int, float)):
        raise ValueError(f"{number!r} is no number")
    return Number(number)


def match(equated: Equation, stmt: n.Op, rewriter: Rewriter) -> dict[str, Value] | None:
    """What the names of the left side stand for in this statement, or None if it does not fit."""
    found: dict[str, Value] = {}
    fits = _match(equated.left, stmt.result, stmt, rewriter, found)
    return found if fits and found["x"].type.kind in equated.kinds else None


def _match(pattern: Pattern, value: Value, made: Stmt | None, rewriter: Rewriter, found: dict[str, Value]) -> bool:
    """Whether the value, made by the statement `made`, fits; adds to `found`."""
    if isinstance(pattern, Name):
        return found.setdefault(pattern.text, value) == value
    if isinstance(pattern, Number):
        known = made.value if isinstance(made, n.Const) else None
        if known is None or isinstance(pattern.value, bool) and not value.type.is_bool:
            return False
        return repr(known) == repr(normal_constant(pattern.value, value.type))
    if not isinstance(made, n.Op) or made.op != pattern.op:
        return False
    define = rewriter.definitions.get
    return all(_match(p, a, define(a), rewriter, found) for p, a in zip(pattern.args, made.args))


def build(equated: Equation, stmt: n.Op, found: dict[str, Value], rewriter: Rewriter) -> tuple[Stmt, ...]:
    """The right side as statements that define the result of `stmt`; none, and a renaming, if it is a single name."""
    right = equated.right
    if isinstance(right, Name):
        return rewriter.rename(stmt.result, found[right.text])
    if isinstance(right, Number):
        return (n.Const(stmt.result, normal_constant(right.value, stmt.result.type), loc=stmt.loc),)
    made: list[Stmt] = []
    args = tuple(_build(a, stmt, found, rewriter, made) for a in right.args)
    return (*made, n.Op(stmt.result, right.op, args, loc=stmt.loc))


def _build(pattern: Pattern, stmt: n.Op, found: dict[str, Value], rewriter: Rewriter, made: list[Stmt]) -> Value:
    if isinstance(pattern, Name):
        return found[pattern.text]
    if isinstance(pattern, Number):
        out = rewriter.fresh(found["x"].type)
        made.append(n.Const(out, normal_constant(pattern.value, out.type), loc=stmt.loc))
        return out
    args = tuple(_build(a, stmt, found, rewriter, made) for a in pattern.args)
    dtype = result_type(pattern.op, tuple(a.type for a in args))
    if dtype is None:
        raise ValueError(f"{pattern.op} does not fit the types of its operands")
    out = rewriter.fresh(dtype)
    made.append(n.Op(out, pattern.op, args, loc=stmt.loc))
    return out
