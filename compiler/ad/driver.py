"""reverse(kernel): the grad kernel of a kernel, as a list of named steps.

The grad kernel runs with memory as the kernel left it. Its tasks are: first what the kernel's temporaries need (they
live for one launch, so they are made again), then for each task, last to first, forward sweep and reverse sweep in
one body. It has the parameters of the kernel and `x.grad` for every array `x` with a gradient.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import NotDifferentiable, Span
from ..ir import nodes as n
from ..ir.effects import arrays_written
from ..ir.nodes import Block, Kernel, Param, Stmt, Task, Temp, Value
from ..ir.types import ArrayType
from ..ir.walk import map_blocks, next_id, results, walk, walk_kernel
from ..passes.affine import Affine, IndexForms, is_own, same_indices
from .activity import Activity, find_activity
from .check import check_kernel, check_state
from .forget_primals import forget_primals
from .plan import LOWERINGS, Planner, Policy
from .reverse import TaskReverser
from .risk import Risk, RiskAnalysis
from .structure import Structure


def reverse(kernel: Kernel, lowering: str = "lean") -> Kernel:
    """The grad kernel (stage adjoint) of a prepared kernel (stage structured, versions rewritten, loops numbered).

    Adjoint arrays hold the cotangents of the final content before, and of the initial content after it has run.
    Raises NotDifferentiable or Unsupported, located.
    """
    policy = LOWERINGS[lowering]
    activity = find_activity(kernel)
    if not any(t.grad for t in kernel.array_types().values()):
        reason = f"no array of kernel '{kernel.name}' has a gradient"
        raise NotDifferentiable(reason, "create the fields with needs_grad=True", _first_span(kernel))
    risks = RiskAnalysis(kernel)
    check_kernel(kernel, activity, risks)
    at_risk = risks.find()
    raw = _reverse_tasks(kernel, activity, policy, at_risk)
    prelude = _temporaries(kernel, at_risk, next_id(raw))
    grad = forget_primals(replace(raw, tasks=prelude + raw.tasks))
    check_state(grad, kernel, at_risk)
    return replace(grad, tasks=tuple(t for t in grad.tasks if t.body) or grad.tasks[:1])


def _first_span(kernel: Kernel) -> Span | None:
    spans = [s for s in kernel.locations if s is not None]
    return spans[0] if spans else None


def _reverse_tasks(kernel: Kernel, activity: Activity, policy: Policy, at_risk: dict[Value, Risk]) -> Kernel:
    first_id, tasks = next_id(kernel), []
    for t, task in reversed(list(enumerate(kernel.tasks))):
        structure = Structure(task)
        plan = Planner(structure, activity, set(at_risk), policy).make()
        if not plan.reversed:  # draws, which are made again whether or not they are read, would keep it
            tasks.append(replace(task, body=()))
            continue
        made = TaskReverser(structure, activity, plan, policy, first_id, own_arrays(task), _prefix(kernel, t))
        tasks.append(made.build())
        first_id = made.b.next_id
    return replace(
        kernel,
        name=f"{kernel.name}.grad",
        params=kernel.params + _adjoint_params(kernel),
        temps=kernel.temps + tuple(Temp(f"{t.name}.grad", t.dtype) for t in kernel.temps if t.name in activity.arrays),
        tasks=tuple(tasks),
    )


def _prefix(kernel: Kernel, t: int) -> str:
    """What the names made for task t begin with: nothing of the kernel's own does."""
    names = {s.var for s in walk_kernel(kernel) if isinstance(s, (n.Local, n.LocalArray))}
    prefix = f"t{t}"
    while any(name.startswith(f"{prefix}.") for name in names):
        prefix += "_"
    return prefix


def _adjoint_params(kernel: Kernel) -> tuple[Param, ...]:
    present = {p.name for p in kernel.params}
    with_grad = [(f"{p.name}.grad", p.type) for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad]
    return tuple(Param(name, ArrayType(t.dtype, t.ndim)) for name, t in with_grad if name not in present)


def own_arrays(task: Task) -> set[str]:
    """Arrays of which every access in a parallel task is to the iteration's own element."""
    if not task.is_parallel:
        return {s.array for s in walk(task.body) if isinstance(s, (n.Load, n.Store, n.Atomic))}
    forms = IndexForms(task)
    tuples: dict[str, list[tuple[Affine, ...]]] = {}
    for stmt in walk(task.body):
        if isinstance(stmt, (n.Load, n.Store, n.Atomic)):
            tuples.setdefault(stmt.array, []).append(tuple(forms.form(v) for v in stmt.indices))
    alike = {a: t for a, t in tuples.items() if all(same_indices(t[0], other) for other in t)}
    return {a for a, found in alike.items() if is_own(found[0], task)}


# ---- temporaries --------------------------------------------------------------------------------------------------


def _temporaries(kernel: Kernel, at_risk: dict[Value, Risk], first_id: int) -> tuple[Task, ...]:
    """Every task with the stores to arrays left out: what the kernel's temporaries need, after dead code.

    The copies have values of their own, for a value is defined once in a kernel; risks follow the copies.
    """
    temps = {t.name for t in kernel.temps}
    if not temps:
        return ()
    copier = _Copier(first_id, temps, at_risk, "prelude.")
    return tuple(copier.task(t) for t in kernel.tasks if not temps.isdisjoint(arrays_written(t.body)))


class _Copier:
    def __init__(self, first_id: int, temps: set[str], at_risk: dict[Value, Risk], prefix: str) -> None:
        self.next_id = first_id
        self.temps = temps
        self.at_risk = at_risk
        self.prefix = prefix
        self.names: dict[Value, Value] = {}

    def task(self, task: Task) -> Task:
        bounds = self.block(task.bounds)
        indices = tuple(self.fresh(v) for v in task.indices)
        begin, end = (tuple(self.names[v] for v in ends) for ends in (task.begin, task.end))
        return replace(task, bounds=bounds, indices=indices, begin=begin, end=end, body=self.block(task.body))

    def fresh(self, value: Value) -> Value:
        self.names[value] = Value(self.next_id, value.type)
        self.next_id += 1
        return self.names[value]

    def block(self, block: Block) -> Block:
        return tuple(self.stmt(s) for s in block if self._stays(s))

    def _stays(self, stmt: Stmt) -> bool:
        if isinstance(stmt, (n.Assert, n.Print)):
            return False
        return not isinstance(stmt, n.Store) or stmt.array in self.temps

    def stmt(self, stmt: Stmt) -> Stmt:
        changes: dict[str, Any] = {}
        for name in ("result", "index", "trips"):
            value = getattr(stmt, name, None)
            if isinstance(value, Value) and value in results(stmt):
                changes[name] = self.fresh(value)
                if value in self.at_risk and getattr(stmt, "array", None) not in self.temps:
                    self.at_risk[changes[name]] = self.at_risk[value]
        for name in ("var", "stop"):
            if getattr(stmt, name, None):
                changes[name] = self.prefix + getattr(stmt, name)
        if isinstance(stmt, n.Atomic) and stmt.array not in self.temps:
            return n.Load(changes["result"], stmt.array, self.renamed(stmt.indices), loc=stmt.loc)
        return self._operands(replace(map_blocks(stmt, self.block), **changes))

    def renamed(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.names.get(v, v) for v in values)

    def _operands(self, stmt: Stmt) -> Stmt:
        own: dict[str, Any] = {}
        for name, role in n.ROLES[type(stmt)]:
            if role == "operand":
                old = getattr(stmt, name)
                own[name] = self.renamed(old) if isinstance(old, tuple) else self.names.get(old, old)
        return replace(stmt, **own) if own else stmt

