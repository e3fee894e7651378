"""This module contains the base class of passes that rewrite single statements, and equations as rewrite rules.

A pass subclasses `Rewriter` and overrides `enter` and `leave`. Invariant: a renamed value is replaced by a value whose
definition dominates it, so wherever the old value was visible the new one is visible too. `definitions` holds the
rewritten definition of every constant, operation and cast met so far.

An `Equation` such as `sub(x, neg(y)) = add(x, y)` is read from left to right: names match values, the same name matches
the same value, and numbers match constants of that bit pattern in the type of the matched value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from ..ir import nodes as n
from ..ir.build import normal_constant
from ..ir.kernels import Kernel, Task
from ..ir.ops import result_type
from ..ir.statement import Block, Stmt, Value
from ..ir.types import Scalar
from ..ir.walk import NESTED, kept_block, map_blocks, next_id, rename_operands

# ---- the walk -----------------------------------------------------------------------------------------------

_READ_BY_LAWS = frozenset({n.Const, n.Op, n.Cast, n.BitCast})
"""Definitions of these classes are kept, because no pass asks for any other definition."""


class Rewriter:
    """A `Rewriter` visits the statements of a kernel in textual order and replaces some of them.

    Attributes:
        ENTERED: classes of statements that `enter` of the pass looks at.
        LEFT: classes of statements that `leave` of the pass looks at.
        renamed: for each value that no longer exists, the value that replaces it.
        definitions: rewritten definition of each constant, operation and cast so far.
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
        """Return the rewritten kernel, or the same object if nothing changed."""
        tasks = tuple(self._task(task) for task in self.kernel.tasks)
        if all(a is b for a, b in zip(tasks, self.kernel.tasks)):
            return self.kernel
        return replace(self.kernel, tasks=tasks)

    def enter(self, stmt: Stmt) -> Iterable[Stmt] | None:
        """Return the replacement of a statement before its blocks are rewritten, or None to keep the statement.

        The replacement is rewritten in its turn.
        """
        return None

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        """Return the replacement of a statement whose blocks were rewritten, or None to keep the statement."""
        return None

    def rename(self, old: Value, new: Value) -> tuple[Stmt, ...]:
        """Replace `old` by `new`, whose definition dominates it, in all later statements. Return an empty tuple."""
        # Chains of renamings are resolved at once, so one look-up suffices later.
        self.renamed[old] = self.renamed.get(new, new)
        return ()

    def fresh(self, dtype: Scalar) -> Value:
        """Return a new value with an id that the kernel does not use yet."""
        if self._next_id is None:
            self._next_id = next_id(self.kernel)
        self._next_id += 1
        return Value(self._next_id - 1, dtype)

    def constant(self, value: Value) -> float | int | bool | None:
        """Return the constant number that a value has, or None if it is not constant."""
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
            # Most statements only pass through, so they are spared the call of `_statement`.
            if self.renamed:
                stmt = rename_operands(stmt, self.renamed)
            made.append(stmt)
            if cls in _READ_BY_LAWS:
                self.definitions[stmt.result] = stmt  # type: ignore[attr-defined]
        return kept_block(block, made)

    def _statement(self, stmt: Stmt, made: list[Stmt]) -> None:
        """Append a statement, or the statements that replace it, to `made`.

        Operands of a statement with blocks are renamed twice, because the test of a while is defined in its own first
        block.
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
class NamePattern:
    """A `NamePattern` matches any value; a name that occurs several times matches only the same value."""

    text: str


@dataclass(frozen=True)
class ConstantPattern:
    """A `ConstantPattern` matches a constant, rounded or wrapped to the type of the matched value."""

    value: float | int | bool


@dataclass(frozen=True)
class OperationPattern:
    """An `OperationPattern` matches an IR operation whose operands match patterns: operations, names or constants."""

    op: str
    args: tuple[OperationPattern | NamePattern | ConstantPattern, ...]


Pattern = OperationPattern | NamePattern | ConstantPattern


@dataclass(frozen=True)
class Equation:
    """An `Equation` is a rewrite rule from a left to a right pattern, for reals, integers or booleans by `kinds`.

    The kinds are 'f', 'i', 'u' and 'b'; the type is that of x.

    A number on the left takes the type of the value with which it is compared (a boolean matches booleans only). A
    number on the right takes the type of the result if it stands alone, else the type of x.

    Attributes:
        text: the equation as text, such as `sub(x, neg(y)) = add(x, y)`.
        kinds: kinds of types for which the equation holds.
        left: pattern of the statements to replace.
        right: pattern of the replacement.
    """

    text: str
    kinds: str
    left: OperationPattern
    right: Pattern


def equation(text: str, kinds: str) -> Equation:
    """Return the rewrite rule that a text `left = right` describes.

    Args:
        text: the equation, such as `sub(x, neg(y)) = add(x, y)`.
        kinds: kinds of types of x for which it holds.

    Raises:
        ValueError: the text is no equation between terms, or its left side does not read x.
    """
    left, _, right = text.partition(" = ")
    made = _pattern(ast.parse(left.strip(), mode="eval").body)
    if not isinstance(made, OperationPattern) or "x" not in re.findall(r"\w+", left):
        raise ValueError(f"{text}: the left side is no operation that reads x")
    return Equation(text, kinds, made, _pattern(ast.parse(right.strip(), mode="eval").body))


def _pattern(tree: ast.expr) -> Pattern:
    if isinstance(tree, ast.Name):
        return NamePattern(tree.id)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return OperationPattern(tree.func.id, tuple(_pattern(a) for a in tree.args))
    number = ast.literal_eval(tree)
    if not isinstance(number, (int, float)):
        raise ValueError(f"{number!r} is no number")
    return ConstantPattern(number)


def match(equated: Equation, stmt: n.Op, rewriter: Rewriter) -> dict[str, Value] | None:
    """Return the values that the names of the left pattern match in a statement, or None if it does not match."""
    found: dict[str, Value] = {}
    fits = _match(equated.left, stmt.result, stmt, rewriter, found)
    return found if fits and found["x"].type.kind in equated.kinds else None


def _match(pattern: Pattern, value: Value, made: Stmt | None, rewriter: Rewriter, found: dict[str, Value]) -> bool:
    """Return True if a value matches a pattern, and add the values of its names to `found`.

    Args:
        pattern: the pattern to be matched.
        value: the value that must match it.
        made: statement that defines the value, or None if it is not known.
        rewriter: source of further definitions.
        found: values of the names so far.
    """
    if isinstance(pattern, NamePattern):
        return found.setdefault(pattern.text, value) == value
    if isinstance(pattern, ConstantPattern):
        known = made.value if isinstance(made, n.Const) else None
        if known is None or isinstance(pattern.value, bool) and not value.type.is_bool:
            return False
        # Texts distinguish -0.0 from 0.0, and equate NaN with itself.
        return repr(known) == repr(normal_constant(pattern.value, value.type))
    if not isinstance(made, n.Op) or made.op != pattern.op:
        return False
    define = rewriter.definitions.get
    return all(_match(p, a, define(a), rewriter, found) for p, a in zip(pattern.args, made.args))


def build(equated: Equation, stmt: n.Op, found: dict[str, Value], rewriter: Rewriter) -> tuple[Stmt, ...]:
    """Return statements that compute the right pattern of an equation as the new definition of the result of `stmt`.

    If the right side is a single name, the result is renamed instead and no statement is needed.

    Args:
        equated: the equation.
        stmt: the statement that its left side matches.
        found: values of the names, as `match` returned them.
        rewriter: source of new values and of renamings.
    """
    right = equated.right
    if isinstance(right, NamePattern):
        return rewriter.rename(stmt.result, found[right.text])
    if isinstance(right, ConstantPattern):
        return (n.Const(stmt.result, normal_constant(right.value, stmt.result.type), loc=stmt.loc),)
    made: list[Stmt] = []
    args = tuple(_build(a, stmt, found, rewriter, made) for a in right.args)
    return (*made, n.Op(stmt.result, right.op, args, loc=stmt.loc))


def _build(pattern: Pattern, stmt: n.Op, found: dict[str, Value], rewriter: Rewriter, made: list[Stmt]) -> Value:
    if isinstance(pattern, NamePattern):
        return found[pattern.text]
    if isinstance(pattern, ConstantPattern):
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
