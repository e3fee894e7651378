"""Build the reverse of one task: the forward sweep of its body, then the adjoint of every statement, last to first.

    forward                                reverse
    { a = ..; push s, a                    { ā = 0; a = top s; pop s        entry: zero, pop
      for i in b .. e { F(i) }               ..reverse of R..
      R }                                    for i in b .. e descending { F̄(i) }
                                             ..reverse of a = .. }

The adjoint of a value lives where the value is defined and is zeroed once for each execution of that block. It is an
SSA value if all contributions come from that block, and else a local. The reverse of a block is built from its list of
statements and never reads a mutable scalar. Stores and atomics of the kernel itself are not executed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Task
from ..ir.statement import Block, Value
from ..ir.types import Scalar, adjoint_type, i64
from ..ir.walk import operands, rename, replace_fields, walk
from .activity import Activity
from .before_copies import redirect_to_copies
from .forward import ForwardSweep, defined_here, overwritten_stack, stack_name
from .induction_variables import InductionVariable
from .plan import SavingPlan
from .policies import Policy
from .risk import Risk
from .segment_sweeps import state_stack
from .segments import SegmentedLoop
from .statements import REVERSE
from .structure import BlockPath, Structure


class TaskReverser:
    """Build the grad task of one task, with forward sweep and reverse sweep.

    Attributes:
        structure: The structure of the task.
        activity: The activity of the kernel.
        plan: The plan of the task.
        policy: The choices of the plan.
        own_arrays: Arrays in which each iteration touches own elements only, so that plain adds suffice.
        prefix: Text that all names made for the task begin with.
        copies: The copy of each array as it was before the task, see `before_copies`.
        sweep: The forward sweep, which knows the loops whose history is kept as checkpoints.
        b: The builder of the body.
        scopes: For each open block, the primals that are available there, each with the value that equals it.
        adjoints: Adjoints that are SSA values.
        zero: Adjoint locals that are known to be zero at this place.
        touched: Adjoint locals that something was added to.
        nested: Values that are used in a block other than their own; their adjoints are locals.
        iterations: For the body of each loop, the value in the reverse sweep that numbers its trips.
        kept_locals: The local of each kept value that a branch defines.
        entered: By block, the saved values that are popped at the entry of its reverse.
        of_slopes: For each slope, the operand with respect to which it is the derivative.
        names: The variable that each value is stored to, if any.
        stack_locals: Active locals that live on adstacks, with their types.
    """

    def __init__(
        self,
        structure: Structure,
        activity: Activity,
        plan: SavingPlan,
        policy: Policy,
        first_id: int,
        own_arrays: set[str],
        prefix: str,
        copies: Mapping[str, str],
        segments: Mapping[BlockPath, SegmentedLoop],
        at_risk: dict[Value, Risk],
    ) -> None:
        self.structure = structure
        self.activity = activity
        self.plan = plan
        self.policy = policy
        self.own_arrays = own_arrays
        self.prefix = prefix
        self.copies = copies
        self.b = Builder(first_id)
        self.scopes: list[dict[Value, Value]] = []
        self.adjoints: dict[Value, Value] = {}
        self.zero: set[str] = set()
        self.touched: set[str] = set()
        self.nested = _nested_uses(structure)
        self.iterations: dict[BlockPath, Value] = {}
        self.kept_locals: dict[Value, str] = {}
        self.entered: dict[BlockPath, list[Value]] = {}
        for value, path in plan.saved.items():
            self.entered.setdefault(path, []).append(value)
        self.of_slopes = {v: self._operand(*key) for key, v in structure.slopes.items()}
        self.names = {s.value: s.var for s in walk(structure.task.body) if isinstance(s, n.Set)}
        self.stack_locals = self._stack_locals()
        self.sweep = ForwardSweep(
            structure, plan, self.stack_locals, self.kept_locals, prefix, self.b, copies, segments, at_risk
        )

    def _operand(self, result: Value, position: int) -> Value:
        """Return the operand at this position of the operation with this result."""
        stmt = self.structure.made[result]
        assert isinstance(stmt, n.Op)
        return stmt.args[position]

    def _stack_locals(self) -> dict[str, Scalar]:
        """Return the active locals that the classic lowering keeps on adstacks, with their types."""
        if not self.policy.adjoint_stacks:
            return {}
        declared = (s for s in walk(self.structure.task.body) if isinstance(s, n.Local))
        return {s.var: s.dtype for s in declared if s.var in self.activity.locals}

    def build(self) -> Task:
        """Return the grad task, with forward sweep and reverse sweep in one body."""
        task = self.structure.task
        self._declare()
        for stmt in self.sweep.block(task.body, ()):
            self.b.emit(stmt)
        self.reverse_block((), task.body)
        return replace(task, bounds=redirect_to_copies(task.bounds, self.copies), body=self.b.take())

    def _declare(self) -> None:
        """Declare, at the root of the task, its adstacks and the locals for kept values that are defined in blocks."""
        self.b.loc = self.structure.task.loc
        for value, path in self.plan.saved.items():
            if path[:1] not in self.sweep.segments:
                self.declare_stack(value)
        for path, position in sorted(self.plan.restored):
            write = self.structure.blocks[path][position]
            assert isinstance(write, n.SetElement)
            stack = overwritten_stack(self.prefix, path, position)
            self.b.emit(n.StackAlloca(stack, write.value.type, variable=write.var, loc=write.loc))
        for path, segmented in self.sweep.segments.items():
            for var, dtype in segmented.state.items():
                loc = self.structure.holder(path).loc
                self.b.emit(n.StackAlloca(state_stack(self.prefix, path, var), dtype, variable=var, loc=loc))
        for var, dtype in self.stack_locals.items():
            stack, kept = stack_name(self.prefix, var), adjoint_type(dtype)
            self.b.emit(n.StackAlloca(stack, kept, adjoint=True, variable=var, loc=self.b.loc))
        for value in sorted(self.plan.kept, key=lambda v: v.id):
            if self.structure.homes[value] != () and value in self.structure.made:
                self.kept_locals[value] = f"{self.prefix}.kept{value.id}"
                self.b.local(self.kept_locals[value], value.type)

    def declare_stack(self, value: Value) -> None:
        """Declare the adstack of a saved value, which is empty then."""
        loc = self.structure.made[value].loc
        name = stack_name(self.prefix, value)
        self.b.emit(n.StackAlloca(name, value.type, variable=self.variable(value), loc=loc))

    def variable(self, value: Value) -> str | None:
        """Return the name of the variable whose value is saved, or None if the value has no name.

        The history of a slope counts as that of the operand which the slope belongs to.
        """
        value = self.of_slopes.get(value, value)
        stmt = self.structure.made[value]
        if isinstance(stmt, n.Get):
            return stmt.var
        return self.names.get(value, stmt.array if isinstance(stmt, n.Load) else None)

    # -- reverse sweep --------------------------------------------------------------------------------------------

    @contextmanager
    def _scope(self, known: dict[Value, Value]) -> Iterator[None]:
        """Enter a scope in which the given primals have known values, for the duration of the `with` block."""
        self.scopes.append(known)
        try:
            yield
        finally:
            self.scopes.pop()

    def reverse_block(self, path: BlockPath, block: Block, known: dict[Value, Value] | None = None) -> None:
        """Emit the reverse of a block: the adjoints of its statements, last to first.

        Args:
            path: The block.
            block: Its statements.
            known: Primals that are available in the block, each with the value that equals it, such as the loop index.
        """
        # An adjoint local is known to be zero within one block only, and until something adds to it.
        outer, self.zero = self.zero, set()
        with self._scope(dict(known or {})):
            self._zero(path)
            for value in self.entered.get(path, ()):
                self.b.loc = self.structure.made[value].loc
                self.scopes[-1][value] = self.b.top(stack_name(self.prefix, value), value.type)
                self.b.pop(stack_name(self.prefix, value))
            for value in self.plan.early.get(path, ()):
                self.b.loc = self.structure.made[value].loc
                self.primal(value)
            for position in range(len(block) - 1, -1, -1):
                if (path, position) in self.plan.reversed:
                    stmt = block[position]
                    self.b.loc = stmt.loc
                    REVERSE[type(stmt)](self, stmt, path, position)
        # An inner block may have added to a local of an outer block, so this local is no longer known to be zero.
        self.zero = outer - self.touched

    def _zero(self, path: BlockPath) -> None:
        """Declare the locals for the adjoints of values and locals that a block defines; they start at zero."""
        for stmt in self.structure.blocks[path]:
            self.b.loc = stmt.loc
            for value in defined_here(stmt):
                if value in self.activity.values and value in self.nested:
                    self._declare_adjoint(self.adjoint_local(value), adjoint_type(value.type))
            if isinstance(stmt, n.Local) and stmt.var in self.activity.locals and stmt.var not in self.stack_locals:
                self._declare_adjoint(self.adjoint_local(stmt.var), adjoint_type(stmt.dtype))
            elif isinstance(stmt, n.LocalArray) and stmt.var in self.activity.locals:
                kept = adjoint_type(stmt.dtype)
                self.b.emit(n.LocalArray(self.adjoint_local(stmt.var), kept, stmt.size, loc=stmt.loc))

    def _declare_adjoint(self, name: str, dtype: Scalar) -> None:
        """Declare a local for an adjoint, and record that it is zero."""
        self.b.local(name, dtype)
        self.zero.add(name)

    def adjoint_local(self, thing: Value | str) -> str:
        """Return the name of the local that holds the adjoint of a value or a variable."""
        return f"{self.prefix}.adj.{thing if isinstance(thing, str) else thing.id}"

    # -- adjoints -------------------------------------------------------------------------------------------------

    def take(self, value: Value) -> Value | None:
        """Return the accumulated adjoint of a value; None if the adjoint is zero or the value is not active."""
        if value not in self.activity.values:
            return None
        if value in self.nested:
            return self.b.get(self.adjoint_local(value), adjoint_type(value.type))
        return self.adjoints.get(value)

    def add(self, value: Value, share: Value | None) -> None:
        """Add `share` to the adjoint of a value if the value is active and `share` is not None."""
        if share is None or value not in self.activity.values:
            return
        # The adjoint of a value of f16 is f32.
        share = self.b.cast(share, adjoint_type(value.type))
        if value in self.nested:
            self._accumulate(self.adjoint_local(value), share)
        else:
            old = self.adjoints.get(value)
            self.adjoints[value] = self.b.op("add", old, share) if old else share

    def take_local(self, var: str, dtype: Scalar) -> Value:
        """Return the adjoint of a variable and set it to zero, as the reverse of a write to the variable."""
        dtype = adjoint_type(dtype)
        if var in self.stack_locals:
            adjoint = self.b.top_adjoint(stack_name(self.prefix, var), dtype)
            self.b.pop(stack_name(self.prefix, var))
            return adjoint
        name = self.adjoint_local(var)
        adjoint = self.b.get(name, dtype)
        self.b.set(name, self.b.const(0.0, dtype))
        self.zero.add(name)
        return adjoint

    def add_local(self, var: str, share: Value) -> None:
        """Add `share` to the adjoint of a variable."""
        if var in self.stack_locals:
            self.b.accumulate(stack_name(self.prefix, var), share)
        else:
            self._accumulate(self.adjoint_local(var), share)

    def add_element_of_local(self, var: str, index: Value, share: Value) -> None:
        """Add `share` to the adjoint of an element of a local array."""
        name = self.adjoint_local(var)
        self.b.set_element(name, index, self.b.op("add", self.b.get_element(name, index, share.type), share))

    def _accumulate(self, name: str, share: Value) -> None:
        """Add `share` to an adjoint local, or set the local to `share` if it is known to be zero."""
        known_zero = name in self.zero
        self.zero.discard(name)
        self.touched.add(name)
        self.b.set(name, share if known_zero else self.b.op("add", self.b.get(name, share.type), share))

    # -- primal values --------------------------------------------------------------------------------------------

    def _known(self, value: Value) -> Value | None:
        """Return the value that equals a primal at this point of the reverse sweep, or None if there is none yet."""
        for scope in reversed(self.scopes):
            if value in scope:
                return scope[value]
        # Both sweeps share one body, so the reverse sweep sees what the root of the task defines.
        if value not in self.structure.made or self.structure.homes[value] == () and value not in self.plan.saved:
            return value
        return None

    def primal(self, value: Value) -> Value:
        """Return a primal for use at this point of the reverse sweep: known already, kept, or recomputed."""
        pending = [value]
        # Inputs come first, without recursion: a chain of sums may be longer than the stack of the interpreter.
        while pending:
            top = pending[-1]
            missing = () if self._known(top) is not None else self._missing_inputs(top)
            if not missing:
                pending.pop()
                if self._known(top) is None:
                    self.scopes[-1][top] = self._recompute(top)
            pending += missing
        known = self._known(value)
        assert known is not None
        return known

    def _missing_inputs(self, value: Value) -> list[Value]:
        """Return the inputs of a value that are not available at this point of the reverse sweep."""
        if value in self.kept_locals:
            return []
        return [v for v in self.plan.sources.inputs(value) if self._known(v) is None]

    def _recompute(self, value: Value) -> Value:
        """Emit the recomputation of a value from available inputs, and return the result."""
        if value in self.kept_locals:
            return self.b.get(self.kept_locals[value], value.type)
        counter = self.plan.sources.counters.get(value)
        if counter:
            return self._count(counter, value.type)
        stmt = self.structure.made[value]
        if isinstance(stmt, n.Get) and stmt.var in self.stack_locals:
            top = self.b.top(stack_name(self.prefix, stmt.var), adjoint_type(value.type))
            return self.b.cast(top, value.type)
        made = self.b.fresh(value.type)
        inputs = {v: self.primal(v) for v in operands(stmt)}
        self.b.emit(replace_fields(rename(stmt, inputs), result=made))
        return made

    def _count(self, counter: InductionVariable, dtype: Scalar) -> Value:
        """Return the value of an induction variable, init + sign * times * step, with the wrap-around of its type."""
        times = self.primal(counter.times) if counter.times else self._iteration(counter.loop, dtype)
        moved = self.b.op("mul", self.b.cast(times, dtype), self.primal(counter.step))
        init = self.primal(counter.init) if counter.init else self.b.const(0, dtype)
        return self.b.op("add" if counter.sign > 0 else "sub", init, moved)

    def _iteration(self, path: BlockPath, dtype: Scalar) -> Value:
        """Return the number of the trip that is being reversed, correct modulo 2^n for the n bits of `dtype`."""
        if path not in self.iterations:
            loop = self.structure.holder(path)
            assert isinstance(loop, n.For)
            begin, index = self.primal(loop.begin), self.primal(loop.index)
            # The difference may wrap around, but its low bits are right.
            if loop.step == 1 and dtype.bits <= index.type.bits:
                return self.b.op("sub", index, begin)
            distance = self.b.op("sub", self.b.cast(index, i64), self.b.cast(begin, i64))
            return self.b.op("floordiv", distance, self.b.const(loop.step, i64))
        return self.iterations[path]

    def primals(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the primals of several values for use at this point of the reverse sweep."""
        return tuple(self.primal(v) for v in values)

    # -- memory ---------------------------------------------------------------------------------------------------

    def add_element(self, array: str, indices: tuple[Value, ...], share: Value) -> None:
        """Emit an addition of `share` to `array.grad[indices]`, atomic unless the array has own elements only."""
        grad = f"{array}.grad"
        if array in self.own_arrays:
            self.b.store(grad, indices, self.b.op("add", self.b.load(grad, indices, share.type), share))
        else:
            self.b.atomic("add", grad, indices, share)


def _nested_uses(structure: Structure) -> set[Value]:
    """Return the values that are used in a block other than their own."""
    return {v for o in structure.occurrences() for v in operands(o.stmt) if structure.homes.get(v, ()) != o.path}
