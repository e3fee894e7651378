"""Report to the user which values a gradient saves on adstacks, and why, from the plans of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import Span
from ..ir import nodes as n
from ..ir.depth import with_stack_room
from ..ir.kernels import Kernel
from ..ir.nodes import StackAlloca
from ..ir.roles import LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import walk, walk_kernel
from .forward import stack_name
from .grad_kernel import plan_tasks
from .plan import SavingPlan
from .risk import Risk
from .segment_sweeps import state_stacks


@dataclass(frozen=True)
class History:
    """Describe one adstack of a grad kernel: its variable, source location, reader and reason.

    Attributes:
        stack: Name of the adstack.
        variable: Name of the variable, or a description of a value without a name.
        dtype: Name of the type of the value.
        span: The place in the source where the value is made.
        reader: Text that names the use for which the reverse sweep reads the value, with the source line.
        reason: Text that says why the value is saved.
    """

    stack: str
    variable: str
    dtype: str
    span: Span | None
    reader: str
    reason: str


@dataclass(frozen=True)
class TaskHistory:
    """Represent a report on one task of a grad kernel: which values it saves, keeps and recomputes.

    Attributes:
        task: Number of the task in the prepared kernel.
        span: The place of the task in the source.
        stacks: The adstacks of the task.
        kept: Number of values that are kept in registers.
        recomputed: Number of values that the reverse sweep computes again.
    """

    task: int
    span: Span | None
    stacks: tuple[History, ...]
    kept: int
    recomputed: int


@with_stack_room
def explain(prepared: Kernel, grad: Kernel, lowering: str = "lean") -> list[TaskHistory]:
    """Return a description of the values that the gradient of a kernel saves, keeps and recomputes, per task.

    Args:
        prepared: The kernel, as `prepare_for_ad` returns it.
        grad: The grad kernel made of `prepared`. Adstacks that were removed as dead code are not in it.
        lowering: Name of the policy that made `grad`.

    Raises:
        NotDifferentiable: The kernel has no gradient.
    """
    left = {s.stack: s for s in walk_kernel(grad) if isinstance(s, StackAlloca)}
    found = []
    for number, (task, (prefix, plan, risks)) in enumerate(zip(prepared.tasks, plan_tasks(prepared, lowering))):
        teller = _Explainer(prepared, plan, risks)
        alive = [(left[name], v) for v in plan.saved if (name := stack_name(prefix, v)) in left]
        own = [teller.tell(alloca, value) for alloca, value in alive]
        own += [_state(prepared, s) for name, s in left.items() if name.startswith(state_stacks(prefix))]
        own += [_adjoint(prepared, s) for name, s in left.items() if name.startswith(f"{prefix}.of.")]
        recomputed = sum(v not in plan.saved for v in plan.reader)
        found.append(TaskHistory(number, prepared.span(task.loc), tuple(own), len(plan.kept), recomputed))
    return found


def _adjoint(kernel: Kernel, stack: StackAlloca) -> History:
    """Return the entry of the report for an adstack on which the classic lowering keeps an active variable."""
    reason = "the classic lowering keeps primal and adjoint of each version of an active variable"
    span, variable = kernel.span(stack.loc), stack.variable or ""
    return History(stack.stack, variable, stack.dtype.name, span, "its own reverse", reason)


def _state(kernel: Kernel, stack: StackAlloca) -> History:
    """Return the entry of the report for an adstack of the states of a variable at checkpoints."""
    reason = "the loop has checkpoints: values between two of them are made again"
    span, variable = kernel.span(stack.loc), stack.variable or ""
    return History(stack.stack, variable, stack.dtype.name, span, "each segment of the loop, as it begins", reason)


def _described(stmt: Stmt) -> str:
    """Return a description, for messages, of a value that has no name in the program."""
    if isinstance(stmt, LOOPS):
        return "trip count"
    return f"result of '{stmt.op}'" if isinstance(stmt, n.Op) else "intermediate value"


class _Explainer:
    """Explain, for each adstack of one task, which statements read its values and why the adstack exists."""

    def __init__(self, kernel: Kernel, plan: SavingPlan, risks: Mapping[Value, Risk]) -> None:
        self.kernel = kernel
        self.plan = plan
        self.risks = risks
        self.structure = plan.sources.structure

    def tell(self, alloca: StackAlloca, value: Value) -> History:
        """Return the description of the adstack that saves `value`."""
        stmt, reader = self.structure.made[value], self.plan.reader[value]
        by = f"{reader.role}{self._line(reader.stmt)}"
        if reader.value != value:
            by += ", computed again from it"
        span, variable = self.kernel.span(stmt.loc), alloca.variable or _described(stmt)
        return History(alloca.stack, variable, value.type.name, span, by, self._reason(value, variable))

    def _line(self, stmt: Stmt) -> str:
        """Return the source line of a statement as text in brackets, or "" if it is not known."""
        span = self.kernel.span(stmt.loc)
        return f" (line {span.line})" if span else ""

    def _reason(self, value: Value, variable: str) -> str:
        """Return the reason for which a value is saved, as a sentence without a full stop."""
        stmt = self.structure.made[value]
        if isinstance(stmt, n.Get):
            return self._merged(stmt)
        if isinstance(stmt, n.Load):
            risk = self.risks.get(value)
            return f"'{stmt.array}' may be overwritten afterwards{self._line(risk.write) if risk else ''}"
        if isinstance(stmt, n.GetElement):
            return f"elements of '{stmt.var}' may be overwritten afterwards"
        if isinstance(stmt, n.Atomic):
            return "what an atomic returned is gone"
        if isinstance(stmt, n.Random):
            return "a draw is made once"
        if isinstance(stmt, LOOPS):
            return "the number of trips is known only when the loop has ended"
        if value in self.structure.slopes.values():
            return f"it takes the place of '{variable}', of which it would be made again: as many bytes"
        if not self.plan.sources.is_recomputable(value):
            return "this lowering computes nothing again"
        return "saving it costs less than computing it again, or than saving what it is computed from"

    def _merged(self, stmt: n.Get) -> str:
        """Return a text that names the loop or branch which decides the value of a variable at a read."""
        home = self.structure.homes[stmt.result]
        if home and self._writes(self.structure.blocks[home], stmt.var) and self._is_loop(home):
            return f"the loop{self._line(self.structure.holder(home))} changes it in every iteration"
        return "a loop or branch before it decides its value"

    def _is_loop(self, home: tuple[tuple[int, str], ...]) -> bool:
        """Return True if the block is the body or the condition of a loop."""
        return isinstance(self.structure.holder(home), LOOPS)

    @staticmethod
    def _writes(block: Block, var: str) -> bool:
        """Return True if the block sets the variable, at any depth."""
        return any(isinstance(s, n.Set) and s.var == var for s in walk(block))
