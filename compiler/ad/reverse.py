"""The reverse of one task: forward sweep of its body, then the adjoint of every statement, last to first.

    forward                                reverse
    { a = ..; push s, a                    { ā = 0; a = top s; pop s        entry: zero, pop
      for i in b .. e { F(i) }               ..reverse of R..
      R }                                    for i in b .. e descending { F̄(i) }
                                             ..reverse of a = .. }

The adjoint of a value lives where the value is defined and is zeroed once per execution of that block: an SSA
value while every contribution comes from that block, else a local. The reverse of a block is built from its
statement list and never reads a mutable scalar. Stores and atomics of the kernel's own are not executed again.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.nodes import Block, Stmt, Task, Value
from ..ir.table import Table
from ..ir.types import Scalar, i32
from ..ir.walk import operands, rename, walk
from .activity import Activity
from .needs import needs
from .plan import Plan, Policy
from .rules import VJP
from .structure import Path, Structure, inner_blocks

Handler = Callable[["TaskReverser", Stmt, Path, int], None]

UNREACHED = "removed before reverse mode, or refused by it"
REVERSE: Table[type[Stmt], Handler] = Table(
    "reverse",
    n.STATEMENTS.values(),
    {
        cls: UNREACHED
        for cls in (
            n.Scope, n.Break, n.Continue, n.Return, n.GetElement, n.SetElement, n.StackAlloca, n.StackPush, n.StackPop,
            n.StackTop, n.StackTopAdjoint, n.StackAccumulate,
        )
    }
    | {
        cls: "has no derivative"
        for cls in (n.Const, n.Arg, n.Shape, n.BitCast, n.Random, n.Assert, n.Print, n.LocalArray)
    },
)  # fmt: skip


class TaskReverser:
    """Builds the grad task. own_arrays: arrays of which this task touches own elements only (plain adds suffice)."""

    def __init__(
        self, structure: Structure, activity: Activity, plan: Plan, policy: Policy, first_id: int, own_arrays: set[str],
        prefix: str,
    ) -> None:  # fmt: skip
        self.structure = structure
        self.activity = activity
        self.plan = plan
        self.policy = policy
        self.own_arrays = own_arrays
        self.prefix = prefix
        self.b = Builder(first_id)
        self.scopes: list[dict[Value, Value]] = []
        self.adjoints: dict[Value, Value] = {}
        self.zero: set[str] = set()
        self.touched: set[str] = set()
        self.nested = _nested_uses(structure)
        self.order = {v: k for k, v in enumerate(structure.made)}
        self.kept_locals: dict[Value, str] = {}
        self.entered: dict[Path, list[Value]] = {}
        for value, path in plan.saved.items():
            self.entered.setdefault(path, []).append(value)
        self.names = {s.value: s.var for s in walk(structure.task.body) if isinstance(s, n.Set)}
        self.stack_locals = self._stack_locals()

    def _stack_locals(self) -> dict[str, Scalar]:
        """Active locals that the classic lowering keeps on adstacks."""
        if not self.policy.adjoint_stacks:
            return {}
        declared = (s for s in walk(self.structure.task.body) if isinstance(s, n.Local))
        return {s.var: s.dtype for s in declared if s.var in self.activity.locals}

    def build(self) -> Task:
        """The task: forward sweep, then reverse sweep, in one body per iteration."""
        task = self.structure.task
        self._declare()
        for stmt in self._forward(task.body, ()):
            self.b.emit(stmt)
        self._reverse_block((), task.body)
        return replace(task, body=self.b.take())

    def _declare(self) -> None:
        """Adstacks, and locals for values that the reverse sweep reads from inside an if, at the root of the task."""
        self.b.loc = self.structure.task.loc
        for value in self.plan.saved:
            stmt = self.structure.made[value]
            self.b.emit(n.StackAlloca(self.stack(value), value.type, variable=self.variable(value), loc=stmt.loc))
        for var, dtype in self.stack_locals.items():
            self.b.emit(n.StackAlloca(f"{self.prefix}.{var}", dtype, adjoint=True, variable=var, loc=self.b.loc))
        for value in sorted(self.plan.kept, key=lambda v: v.id):
            if self.structure.homes[value] != () and value in self.structure.made:
                self.kept_locals[value] = f"{self.prefix}.kept{value.id}"
                self.b.local(self.kept_locals[value], value.type)

    def stack(self, value: Value) -> str:
        return f"{self.prefix}.s{value.id}"

    def variable(self, value: Value) -> str | None:
        """The user's variable whose history a saved value is, as far as it has a name."""
        stmt = self.structure.made[value]
        if isinstance(stmt, n.Get):
            return stmt.var
        return self.names.get(value, stmt.array if isinstance(stmt, n.Load) else None)

    # -- forward sweep --------------------------------------------------------------------------------------------

    def _forward(self, block: Block, path: Path) -> Block:
        out: list[Stmt] = []
        if path != ():
            out += (self._push(v) for v in self.entered.get(path, ()) if self.structure.homes[v] != path)
        for position, stmt in enumerate(block):
            out += self._forward_stmt(stmt, path, position)
            for value in _defined_here(stmt):
                if self.plan.saved.get(value) == path:
                    out.append(self._push(value))
                if value in self.kept_locals:
                    out.append(n.Set(self.kept_locals[value], value, loc=stmt.loc))
        return tuple(out)

    def _push(self, value: Value) -> Stmt:
        return n.StackPush(self.stack(value), value, loc=self.structure.made[value].loc)

    def _forward_stmt(self, stmt: Stmt, path: Path, position: int) -> Iterator[Stmt]:
        if isinstance(stmt, (n.Store, n.Print, n.Assert)):
            return
        if isinstance(stmt, n.Atomic):
            # What it returned is gone; a load in its place is at risk, and refused if anything still reads it.
            yield n.Load(stmt.result, stmt.array, stmt.indices, loc=stmt.loc)
        elif isinstance(stmt, (n.Local, n.Get, n.Set)) and stmt.var in self.stack_locals:
            yield from self._forward_on_stack(stmt)
        else:
            bodies = {name: self._forward(b, (*path, (position, name))) for name, b in inner_blocks(stmt)}
            yield replace(stmt, **bodies) if bodies else stmt  # type: ignore[arg-type]

    def _forward_on_stack(self, stmt: n.Local | n.Get | n.Set) -> Iterator[Stmt]:
        stack = f"{self.prefix}.{stmt.var}"
        if isinstance(stmt, n.Get):
            yield n.StackTop(stmt.result, stack, loc=stmt.loc)
        elif isinstance(stmt, n.Set):
            yield n.StackPush(stack, stmt.value, loc=stmt.loc)
        else:
            zero = self.b.fresh(stmt.dtype)
            yield n.Const(zero, 0.0, loc=stmt.loc)
            yield n.StackPush(stack, zero, loc=stmt.loc)

    # -- reverse sweep --------------------------------------------------------------------------------------------

    @contextmanager
    def _scope(self, known: dict[Value, Value]) -> Iterator[None]:
        self.scopes.append(known)
        try:
            yield
        finally:
            self.scopes.pop()

    def _reverse_block(self, path: Path, block: Block, known: dict[Value, Value] | None = None) -> None:
        """Adjoint locals known to be zero are known so within one block only, and until something adds to them."""
        outer, self.zero = self.zero, set()
        with self._scope(dict(known or {})):
            self._zero(path)
            for value in self.entered.get(path, ()):
                self.b.loc = self.structure.made[value].loc
                self.scopes[-1][value] = self.b.top(self.stack(value), value.type)
                self.b.pop(self.stack(value))
            for position in range(len(block) - 1, -1, -1):
                if (path, position) in self.plan.reversed:
                    stmt = block[position]
                    self.b.loc = stmt.loc
                    REVERSE[type(stmt)](self, stmt, path, position)
        self.zero = outer - self.touched

    def _zero(self, path: Path) -> None:
        """Adjoint locals of what this block defines or declares start at zero in each execution of its reverse."""
        for stmt in self.structure.blocks[path]:
            self.b.loc = stmt.loc
            for value in _defined_here(stmt):
                if value in self.activity.values and value in self.nested:
                    self._declare_adjoint(self.adjoint_local(value), value.type)
            if isinstance(stmt, n.Local) and stmt.var in self.activity.locals and stmt.var not in self.stack_locals:
                self._declare_adjoint(self.adjoint_local(stmt.var), stmt.dtype)

    def _declare_adjoint(self, name: str, dtype: Scalar) -> None:
        self.b.local(name, dtype)
        self.zero.add(name)

    def adjoint_local(self, thing: Value | str) -> str:
        return f"{self.prefix}.adj.{thing if isinstance(thing, str) else thing.id}"

    # -- adjoints -------------------------------------------------------------------------------------------------

    def take(self, value: Value) -> Value | None:
        """The whole adjoint of an active value, at the reverse of its definition; None if it is zero."""
        if value not in self.activity.values:
            return None
        if value in self.nested:
            return self.b.get(self.adjoint_local(value), value.type)
        return self.adjoints.get(value)

    def add(self, value: Value, share: Value | None) -> None:
        """Accumulate into the adjoint of a value; nothing if it is not active."""
        if share is None or value not in self.activity.values:
            return
        share = self.b.cast(share, value.type)
        if value in self.nested:
            self._accumulate(self.adjoint_local(value), share)
        else:
            old = self.adjoints.get(value)
            self.adjoints[value] = self.b.op("add", old, share) if old else share

    def take_local(self, var: str, dtype: Scalar) -> Value:
        """The adjoint of a variable, which becomes zero: the store above it ends this version's life."""
        if var in self.stack_locals:
            adjoint = self.b.top_adjoint(f"{self.prefix}.{var}", dtype)
            self.b.pop(f"{self.prefix}.{var}")
            return adjoint
        name = self.adjoint_local(var)
        adjoint = self.b.get(name, dtype)
        self.b.set(name, self.b.const(0.0, dtype))
        self.zero.add(name)
        return adjoint

    def add_local(self, var: str, share: Value) -> None:
        if var in self.stack_locals:
            self.b.accumulate(f"{self.prefix}.{var}", share)
        else:
            self._accumulate(self.adjoint_local(var), share)

    def _accumulate(self, name: str, share: Value) -> None:
        """name += share; a plain store where it is known to be zero."""
        known_zero = name in self.zero
        self.zero.discard(name)
        self.touched.add(name)
        self.b.set(name, share if known_zero else self.b.op("add", self.b.get(name, share.type), share))

    # -- primal values --------------------------------------------------------------------------------------------

    def _known(self, value: Value) -> Value | None:
        for scope in reversed(self.scopes):
            if value in scope:
                return scope[value]
        if value not in self.structure.made or self.structure.homes[value] == () and value not in self.plan.saved:
            return value
        return None

    def primal(self, value: Value) -> Value:
        """The value as the reverse sweep has it here: known, kept, or computed again from what is."""
        missing: set[Value] = set()
        pending = [value]
        while pending:
            v = pending.pop()
            if v not in missing and self._known(v) is None:
                missing.add(v)
                if v not in self.kept_locals:
                    pending += operands(self.structure.made[v])
        for v in sorted(missing, key=self.order.__getitem__):
            self.scopes[-1][v] = self._recompute(v)
        known = self._known(value)
        assert known is not None
        return known

    def _recompute(self, value: Value) -> Value:
        if value in self.kept_locals:
            return self.b.get(self.kept_locals[value], value.type)
        stmt = self.structure.made[value]
        made = self.b.fresh(value.type)
        inputs = {v: self.primal(v) for v in operands(stmt)}
        self.b.emit(replace(rename(stmt, inputs), result=made))  # type: ignore[call-arg]
        return made

    def primals(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.primal(v) for v in values)

    # -- memory ---------------------------------------------------------------------------------------------------

    def add_element(self, array: str, indices: tuple[Value, ...], share: Value) -> None:
        """array.grad[indices] += share; other iterations may add to the same element unless all are own."""
        grad = f"{array}.grad"
        if array in self.own_arrays:
            self.b.store(grad, indices, self.b.op("add", self.b.load(grad, indices, share.type), share))
        else:
            self.b.atomic("add", grad, indices, share)


def _defined_here(stmt: Stmt) -> tuple[Value, ...]:
    """Results visible in the block of the statement: not the index of a loop."""
    found = [getattr(stmt, "result", None), getattr(stmt, "trips", None)]
    return tuple(v for v in found if v is not None)


def _nested_uses(structure: Structure) -> set[Value]:
    """Values used in a block other than their own."""
    return {v for o in structure.occurrences() for v in operands(o.stmt) if structure.homes.get(v, ()) != o.path}


# ---- one handler per statement ------------------------------------------------------------------------------------


@REVERSE.row(n.Op)
def _op(r: TaskReverser, stmt: n.Op, path: Path, position: int) -> None:
    adjoint = r.take(stmt.result)
    if adjoint is None:
        return
    for k, operand in enumerate(stmt.args):
        rule = VJP[stmt.op][k]
        if rule is not None and r.activity.operand(stmt, k):
            read = needs(stmt.op, tuple(a.type for a in stmt.args), stmt.result.type, k)
            assert read is not None
            args = tuple(r.primal(a) if j in read.operands else a for j, a in enumerate(stmt.args))
            result = r.primal(stmt.result) if read.result else stmt.result
            r.add(operand, rule(r.b, adjoint, args, result))


@REVERSE.row(n.Cast)
def _cast(r: TaskReverser, stmt: n.Cast, path: Path, position: int) -> None:
    r.add(stmt.arg, r.take(stmt.result))


@REVERSE.row(n.Get)
def _get(r: TaskReverser, stmt: n.Get, path: Path, position: int) -> None:
    adjoint = r.take(stmt.result)
    if adjoint is not None:
        r.add_local(stmt.var, adjoint)


@REVERSE.row(n.Set)
def _set(r: TaskReverser, stmt: n.Set, path: Path, position: int) -> None:
    r.add(stmt.value, r.take_local(stmt.var, stmt.value.type))


@REVERSE.row(n.Local)
def _local(r: TaskReverser, stmt: n.Local, path: Path, position: int) -> None:
    """On an adstack the declaration pushed a zero. A register ends here."""
    if stmt.var in r.stack_locals:
        r.b.pop(f"{r.prefix}.{stmt.var}")


@REVERSE.row(n.Load)
def _load(r: TaskReverser, stmt: n.Load, path: Path, position: int) -> None:
    adjoint = r.take(stmt.result)
    if adjoint is not None and stmt.array in r.activity.arrays:
        r.add_element(stmt.array, r.primals(stmt.indices), adjoint)


@REVERSE.row(n.Store)
def _store(r: TaskReverser, stmt: n.Store, path: Path, position: int) -> None:
    """Take, zero, add: the content before the store has no influence on what follows."""
    indices, grad = r.primals(stmt.indices), f"{stmt.array}.grad"
    if stmt.value in r.activity.values:
        r.add(stmt.value, r.b.load(grad, indices, stmt.value.type))
    r.b.store(grad, indices, r.b.const(0.0, stmt.value.type))


@REVERSE.row(n.Atomic)
def _atomic(r: TaskReverser, stmt: n.Atomic, path: Path, position: int) -> None:
    """add: the share of the value is the adjoint. min, max: whoever holds the final value takes the adjoint, once."""
    indices, grad = r.primals(stmt.indices), f"{stmt.array}.grad"
    if stmt.op == "add":
        r.add(stmt.value, r.b.load(grad, indices, stmt.value.type))
        return
    value = r.primal(stmt.value)
    final = r.b.load(stmt.array, indices, value.type)
    won = r.b.op("cmp_eq", value, final)
    share = f"{r.prefix}.won{r.b.next_id}"
    r.b.local(share, value.type)
    with r.b.block() as then:
        r.b.set(share, r.b.atomic("exchange", grad, indices, r.b.const(0.0, value.type)))
    r.b.if_(won, then)
    r.add(stmt.value, r.b.get(share, value.type))


@REVERSE.row(n.If)
def _if(r: TaskReverser, stmt: n.If, path: Path, position: int) -> None:
    cond = r.primal(stmt.cond)
    with r.b.block() as then:
        r._reverse_block((*path, (position, "then")), stmt.then)
    with r.b.block() as orelse:
        r._reverse_block((*path, (position, "orelse")), stmt.orelse)
    r.b.loc = stmt.loc
    r.b.if_(cond, then, orelse)


@REVERSE.row(n.For)
def _for(r: TaskReverser, stmt: n.For, path: Path, position: int) -> None:
    """The same indices, last to first: b .. e, or b .. b + trips·step if the loop may stop early."""
    begin = r.primal(stmt.begin)
    if stmt.stop and stmt.trips:
        span = r.b.op("mul", r.primal(stmt.trips), r.b.const(stmt.step, begin.type))
        end = r.b.op("add", begin, span)
    else:
        end = r.primal(stmt.end)
    index = r.b.fresh(begin.type)
    with r.b.block() as body:
        r._reverse_block((*path, (position, "body")), stmt.body, {stmt.index: index})
    made = n.For(index, begin, end, tuple(body), step=stmt.step, descending=not stmt.descending, loc=stmt.loc)
    r.b.emit(made)


@REVERSE.row(n.While)
def _while(r: TaskReverser, stmt: n.While, path: Path, position: int) -> None:
    """As often as the body ran. The condition block has no derivative."""
    assert stmt.trips is not None
    trips, zero = r.primal(stmt.trips), r.b.const(0, i32)
    index = r.b.fresh(i32)
    with r.b.block() as body:
        r._reverse_block((*path, (position, "body")), stmt.body)
    r.b.emit(n.For(index, zero, trips, tuple(body), loc=stmt.loc))
