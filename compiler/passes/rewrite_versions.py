"""This pass forwards stored values of scalar locals to later reads; reads stay only where control paths merge.

    t = get v; set v, f(t); u = mul (get v), t      →      t = get v; a = f(t); set v, a; u = mul a, t

A `get` remains at the head of a loop body, after a loop and after an if, for the variables written inside; every other
read uses the value stored last. Each version of a variable then has exactly one name, and no later code (in particular
the reverse sweep) reads a mutable scalar. Stores stay; dead stores are removed by dead-code removal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Task
from ..ir.roles import LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import Scalar
from ..ir.walk import NESTED, blocks, next_id, rename_operands, replace_fields, walk_kernel

Versions = dict[str, Value]
"""Value that each variable in scope holds at the current place."""


def rewrite_versions(kernel: Kernel) -> Kernel:
    """Return a kernel with reads of locals replaced, or the same object if the kernel has no locals.

    The kernel is of stage structured or adjoint, so it has no break, continue or return.
    """
    types = {s.var: s.dtype for s in walk_kernel(kernel) if isinstance(s, n.Local)}
    if not types:
        return kernel
    rewriting = _VersionRewriter(next_id(kernel), types)
    return replace(kernel, tasks=tuple(rewriting.task(t) for t in kernel.tasks))


class _VersionRewriter:
    """This class replaces reads of locals by the values last stored to them, in the tasks of one kernel.

    Attributes:
        next_id: id of the next new value.
        types: type of each local.
        names: for the result of a removed `get`, the value that replaces it.
    """

    def __init__(self, first_id: int, types: dict[str, Scalar]) -> None:
        self.next_id = first_id
        self.types = types
        self.names: dict[Value, Value] = {}
        self._written: dict[int, tuple[Stmt, frozenset[str]]] = {}

    def task(self, task: Task) -> Task:
        """Return the task with reads of scalar locals replaced by the values that were stored to them."""
        self.names = {}
        bounds = self._block(task.bounds, {})
        begin, end = ((tuple(self.names.get(v, v) for v in e)) for e in (task.begin, task.end))
        self.names = {}
        return replace(task, bounds=bounds, begin=begin, end=end, body=self._block(task.body, {}))

    def _block(self, block: Block, known: Versions) -> Block:
        """Return the rewritten block, and update `known`, the last value of each local, to the end of the block."""
        out: list[Stmt] = []
        for stmt in block:
            cls = type(stmt)
            if cls in NESTED:
                out += self._container(stmt, known)
            elif cls is n.Local or cls is n.Get or cls is n.Set:
                out += self._access(stmt, known)
            else:
                out.append(rename_operands(stmt, self.names))
        return tuple(out)

    def _access(self, stmt: Stmt, known: Versions) -> Block:
        if isinstance(stmt, n.Local):
            return (stmt, *self._zero(stmt, known))
        if isinstance(stmt, n.Set):
            stored = rename_operands(stmt, self.names)
            known[stmt.var] = stored.value
            return (stored,)
        assert isinstance(stmt, n.Get)
        if stmt.var in known:
            self.names[stmt.result] = known[stmt.var]
            return ()
        known[stmt.var] = stmt.result
        return (stmt,)

    def _zero(self, stmt: n.Local, known: Versions) -> Block:
        """Return a constant statement with the value zero that a declared local has first, and record it in `known`."""
        b = Builder(self.next_id)
        b.loc = stmt.loc
        known[stmt.var] = b.const(0, stmt.dtype)
        self.next_id = b.next_id
        return b.take()

    def _container(self, stmt: Stmt, known: Versions) -> Block:
        """Return an if or loop with rewritten blocks, followed by a `get` of each local that is written inside."""
        # A variable that is declared inside the statement is not visible after it.
        written = [v for v in sorted(self.written(stmt)) if v in known]
        loops = isinstance(stmt, LOOPS)
        changes: dict[str, Any] = {}
        operand_changes: dict[str, Any] = {k: self.names.get(v, v) for k, v in self._direct(stmt).items()}
        for name in ("condition", "then", "orelse", "body"):
            inner = getattr(stmt, name, None)
            if inner is None or (not inner and name == "orelse"):
                continue
            # A block may change the versions only for itself; the loads after it give the merged versions.
            inside = dict(known)
            # At the head of a loop two paths merge: the entry and the end of the body.
            head = self._loads(written, inside, stmt.loc) if loops else ()
            changes[name] = head + self._block(inner, inside)
        if isinstance(stmt, n.While):
            operand_changes["test"] = self.names.get(stmt.test, stmt.test)
        made = replace_fields(stmt, **operand_changes, **changes)
        return (made, *self._loads(written, known, stmt.loc))

    @staticmethod
    def _direct(stmt: Stmt) -> dict[str, Value]:
        """Return the operands that a statement reads before its blocks run."""
        names = {n.If: ("cond",), n.For: ("begin", "end")}.get(type(stmt), ())
        return {k: getattr(stmt, k) for k in names}

    def _loads(self, names: Iterable[str], known: Versions, loc: int) -> Block:
        b = Builder(self.next_id)
        b.loc = loc
        for name in names:
            known[name] = b.get(name, self.types[name])
        self.next_id = b.next_id
        return b.take()

    def written(self, stmt: Stmt) -> frozenset[str]:
        """Return the locals that are written anywhere inside a statement.

        The result is memoized by the identity of the statement, which the memo keeps alive.
        """
        found = self._written.get(id(stmt))
        if found is None:
            inside: set[str] = set()
            for block in blocks(stmt):
                for inner in block:
                    if isinstance(inner, n.Set):
                        inside.add(inner.var)
                    elif type(inner) in NESTED:
                        inside |= self.written(inner)
            found = self._written[id(stmt)] = (stmt, frozenset(inside))
        return found[1]
