"""This module builds the forward sweep of a grad task: the task's body without effects, with pushes of saved values.

Stores, prints and asserts are left out, because the kernel itself did them. A saved value is pushed after its
definition or at the head of the branch that reads it. A kept value that is defined inside a branch is put in a local of
the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.roles import ACCESSES
from ..ir.statement import Block, Stmt, Value
from ..ir.types import Scalar, adjoint_type
from ..ir.walk import replace_fields
from .plan import SavingPlan
from .risk import Risk
from .segment_sweeps import SegmentCounts, forward_segments
from .segments import SegmentedLoop
from .structure import BlockPath, Structure, inner_blocks, is_set_at_once


def stack_name(prefix: str, thing: Value | str) -> str:
    """Return the name of the adstack for a saved value, or for an active local under the classic lowering."""
    return f"{prefix}.of.{thing}" if isinstance(thing, str) else f"{prefix}.s{thing.id}"


def overwritten_stack(prefix: str, path: BlockPath, position: int) -> str:
    """Return the name of the adstack for the elements that one write to a local array overwrites."""
    return f"{prefix}.w" + "".join(f"{at}{name[0]}" for at, name in path) + str(position)


def defined_here(stmt: Stmt) -> tuple[Value, ...]:
    """Return the results of a statement that later statements of its block may use, which excludes a loop's index."""
    found = [getattr(stmt, "result", None), getattr(stmt, "trips", None)]
    return tuple(v for v in found if v is not None)


def without_effect(stmt: Stmt, copies: Mapping[str, str]) -> Stmt | None:
    """Return the statement by which a forward sweep replaces `stmt`, without its effects; None if nothing is left.

    Args:
        stmt: The statement.
        copies: The copy of each array as it was before the task. The sweep repeats the accesses to these arrays there.
    """
    if isinstance(stmt, ACCESSES) and stmt.array in copies:
        return replace_fields(stmt, array=copies[stmt.array])
    if isinstance(stmt, (n.Store, n.Print, n.Assert)):
        return None
    if isinstance(stmt, n.Atomic):
        # What it returned is gone; a load in its place is at risk, and refused if anything still reads it.
        return n.Load(stmt.result, stmt.array, stmt.indices, loc=stmt.loc)
    return stmt


class ForwardSweep:
    """Rewrite the body of one task as its forward sweep.

    Attributes:
        structure: The structure of the task.
        plan: The plan of the task.
        stack_locals: Types of the locals that live on adstacks with adjoints.
        kept_locals: The local for each kept value that is defined inside a branch.
        prefix: Text that the names of adstacks begin with.
        b: The builder that numbers new values.
        copies: The copy of each array as it was before the task, on which the sweep runs.
        segments: The loops whose history is kept as checkpoints, by the path of their bodies.
        counts: The numbers of segments of these loops.
        at_risk: The risks of loads, by result. The risks of loads that are repeated are added.
    """

    def __init__(
        self,
        structure: Structure,
        plan: SavingPlan,
        stack_locals: Mapping[str, Scalar],
        kept_locals: Mapping[Value, str],
        prefix: str,
        builder: Builder,
        copies: Mapping[str, str],
        segments: Mapping[BlockPath, SegmentedLoop],
        at_risk: dict[Value, Risk],
    ) -> None:
        self.structure = structure
        self.plan = plan
        self.stack_locals = stack_locals
        self.kept_locals = kept_locals
        self.prefix = prefix
        self.b = builder
        self.copies = copies
        self.segments = segments
        self.counts: dict[BlockPath, SegmentCounts] = {}
        self.at_risk = at_risk

    def block(self, block: Block, path: BlockPath) -> Block:
        """Return the forward sweep of a block, with the statements that save and keep values."""
        # These values are defined in an outer block and pushed at the head of this branch, which holds all their
        # readers.
        entered = (v for v, place in self.plan.saved.items() if place == path != self.structure.homes[v])
        out: list[Stmt] = [self._push(v) for v in entered]
        for position, stmt in enumerate(block):
            if isinstance(stmt, n.SetElement) and (path, position) in self.plan.restored:
                out += self._push_overwritten(stmt, path, position)
            out += self._statement(stmt, path, position)
            for value in defined_here(stmt):
                if self.plan.saved.get(value) == path:
                    out.append(self._push(value))
                if value in self.kept_locals:
                    out.append(n.Set(self.kept_locals[value], value, loc=stmt.loc))
        return tuple(out)

    def _push(self, value: Value) -> Stmt:
        """Return the statement that pushes a value to its adstack."""
        return n.StackPush(stack_name(self.prefix, value), value, loc=self.structure.made[value].loc)

    def _push_overwritten(self, stmt: n.SetElement, path: BlockPath, position: int) -> Iterator[Stmt]:
        """Yield the statements that save the element of a local array before a write replaces it."""
        old = self.b.fresh(stmt.value.type)
        yield n.GetElement(old, stmt.var, stmt.index, loc=stmt.loc)
        yield n.StackPush(overwritten_stack(self.prefix, path, position), old, loc=stmt.loc)

    def _statement(self, stmt: Stmt, path: BlockPath, position: int) -> Iterator[Stmt]:
        """Yield the statements of the forward sweep that replace one statement of the task."""
        if isinstance(stmt, (n.Local, n.Get, n.Set)) and stmt.var in self.stack_locals:
            yield from self._on_stack(stmt, path, position)
        elif isinstance(stmt, n.For) and (inner := (*path, (position, "body"))) in self.segments:
            yield from forward_segments(self, stmt, inner)
        elif kept := without_effect(stmt, self.copies):
            bodies = {name: self.block(b, (*path, (position, name))) for name, b in inner_blocks(kept)}
            yield replace_fields(kept, **bodies) if bodies else kept

    def _on_stack(self, stmt: n.Local | n.Get | n.Set, path: BlockPath, position: int) -> Iterator[Stmt]:
        """Yield the statements for a declaration, read or write of a local that is kept on an adstack."""
        stack = stack_name(self.prefix, stmt.var)
        if isinstance(stmt, n.Get):
            yield from self._top(stmt, stack)
        elif isinstance(stmt, n.Set):
            yield from self._push_version(stmt, stack)
        elif not is_set_at_once(self.structure.blocks[path], position, stmt.var):
            zero = self.b.fresh(adjoint_type(stmt.dtype))
            yield n.Const(zero, 0.0, loc=stmt.loc)
            yield n.StackPush(stack, zero, loc=stmt.loc)

    def _top(self, stmt: n.Get, stack: str) -> Iterator[Stmt]:
        """Yield the statements that read the top of an adstack as the result of `stmt`, with a cast if types differ."""
        kept = adjoint_type(stmt.result.type)
        top = stmt.result if kept == stmt.result.type else self.b.fresh(kept)
        yield n.StackTop(top, stack, loc=stmt.loc)
        if top != stmt.result:
            yield n.Cast(stmt.result, top, loc=stmt.loc)

    def _push_version(self, stmt: n.Set, stack: str) -> Iterator[Stmt]:
        """Yield the push of a new version of a local, with a cast to the type of its adjoint if types differ."""
        kept = adjoint_type(stmt.value.type)
        value = stmt.value if kept == stmt.value.type else self.b.fresh(kept)
        if value != stmt.value:
            yield n.Cast(value, stmt.value, loc=stmt.loc)
        yield n.StackPush(stack, value, loc=stmt.loc)
