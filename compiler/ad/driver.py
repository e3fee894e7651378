"""reverse(kernel): the grad kernel of a kernel, as a list of named steps.

The grad kernel runs with memory as the kernel left it. Its tasks are: first what the kernel's temporaries need (they
live for one launch, so they are made again), then for each task, last to first, forward sweep and reverse sweep in
one body. It has the parameters of the kernel and `x.grad` for every array `x` with a gradient. Under a tape it also
takes copies of arrays as they were before the launch, see `before`.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
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
from .before import Copies, Repeatable, make_copies, on_copies, params
from .check import StateOverwritten, check_kernel, check_state
from .forget_primals import forget_primals
from .plan import Plan, Planner
from .policies import POLICIES, Policy
from .reverse import TaskReverser
from .risk import Risk, RiskAnalysis
from .structure import Structure


def reverse(kernel: Kernel, lowering: str = "lean") -> Kernel:
    """The grad kernel (stage adjoint) of a prepared kernel (stage structured, versions rewritten, loops numbered).

    Adjoint arrays hold the cotangents of the final content before, and of the initial content after it has run.
    Raises NotDifferentiable or Unsupported, located.
    """
    try:
        return _Reversal(kernel, lowering).run(frozenset())
    except StateOverwritten as problem:
        raise NotDifferentiable(problem.diagnostics) from None


def reverse_taped(kernel: Kernel, lowering: str = "lean") -> tuple[Kernel, dict[str, str]]:
    """Like `reverse`, where the state before the launch is at hand. Gives the array behind each parameter `x.before`
    too: the launch finds in it the content of x before the kernel ran, and may write it.
    """
    made = _Reversal(kernel, lowering)
    arrays: frozenset[str] = frozenset()
    while True:
        try:
            return made.run(arrays), made.copies.names
        except StateOverwritten as problem:
            left = list(dict.fromkeys(diagnostic for risk, diagnostic in problem.found if risk not in made.cured))
            more = arrays | {risk.load.array for risk, _ in problem.found}
            if left or more == arrays:
                raise NotDifferentiable(left or problem.diagnostics) from None
            arrays = more


class _Reversal:
    """A kernel analysed once; each run makes a grad kernel with copies of these arrays as they were before."""

    def __init__(self, kernel: Kernel, lowering: str) -> None:
        self.kernel = kernel
        self.policy = POLICIES[lowering]
        self.activity = find_activity(kernel)
        if not any(t.grad for t in kernel.array_types().values()):
            reason = f"no array of kernel '{kernel.name}' has a gradient"
            raise NotDifferentiable(reason, "create the fields with needs_grad=True", _first_span(kernel))
        risks = RiskAnalysis(kernel)
        check_kernel(kernel, self.activity, risks)
        self.found = risks.find()
        self.cured = Repeatable(kernel, map(own_arrays, kernel.tasks) if self.found else ())
        self.copies = Copies()

    def run(self, before: frozenset[str]) -> Kernel:
        """Raises StateOverwritten if it reads what the kernel overwrites."""
        kernel, at_risk = self.kernel, dict(self.found)
        self.copies = make_copies(kernel, before) if before else Copies()
        raw = _reverse_tasks(kernel, self.activity, self.policy, at_risk, self.copies)
        prelude = _temporaries(kernel, at_risk, next_id(raw), self.copies)
        grad = forget_primals(replace(raw, tasks=prelude + raw.tasks))
        check_state(grad, kernel, at_risk, self.copies.names, self.cured)
        return replace(grad, tasks=tuple(t for t in grad.tasks if t.body) or grad.tasks[:1])


def plan_tasks(kernel: Kernel, lowering: str = "lean") -> list[tuple[str, Plan, dict[Value, Risk]]]:
    """For each task the prefix of the names made for it, its plan, and the risks of its loads. Raises as `reverse`."""
    made = _Reversal(kernel, lowering)
    return [
        (_prefix(kernel, t), Planner(Structure(task), made.activity, set(made.found), made.policy).make(), made.found)
        for t, task in enumerate(kernel.tasks)
    ]


def _reverse_tasks(
    kernel: Kernel, activity: Activity, policy: Policy, at_risk: dict[Value, Risk], copies: Copies
) -> Kernel:
    first_id, tasks = next_id(kernel), []
    for t, task in reversed(list(enumerate(kernel.tasks))):
        structure, own = Structure(task), copies.of(t)
        plan = Planner(structure, activity, set(at_risk), policy).make()
        if not plan.reversed:  # draws, which are made again whether or not they are read, would keep it
            tasks.append(replace(task, bounds=on_copies(task.bounds, own), body=()))
            continue
        prefix = _prefix(kernel, t)
        if own:
            copier = _Copier(first_id, own, at_risk, f"{prefix}.earlier.")
            tasks += [copier.task(p) for p in kernel.tasks[:t] if writes_any(p, own)]
            first_id = copier.next_id
        made = TaskReverser(structure, activity, plan, policy, first_id, own_arrays(task), prefix, own)
        tasks.append(made.build())
        first_id = made.b.next_id
    return _grad_kernel(kernel, activity, tuple(tasks), copies)


def _first_span(kernel: Kernel) -> Span | None:
    spans = [s for s in kernel.locations if s is not None]
    return spans[0] if spans else None


def _grad_kernel(kernel: Kernel, activity: Activity, tasks: tuple[Task, ...], copies: Copies) -> Kernel:
    return replace(
        kernel,
        name=f"{kernel.name}.grad",
        params=kernel.params + _adjoint_params(kernel) + params(kernel, copies),
        temps=kernel.temps + tuple(Temp(f"{t.name}.grad", t.dtype) for t in kernel.temps if t.name in activity.arrays),
        tasks=tasks,
    )


def writes_any(task: Task, arrays: Collection[str]) -> bool:
    """Whether a task writes any of these arrays."""
    return not arrays_written(task.body).isdisjoint(arrays)


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


def _temporaries(kernel: Kernel, at_risk: dict[Value, Risk], first_id: int, copies: Copies) -> tuple[Task, ...]:
    """Every task with the stores to arrays left out: what the kernel's temporaries need, after dead code.

    The copies have values of their own, for a value is defined once in a kernel; risks follow the copies.
    """
    temps = {t.name: t.name for t in kernel.temps}
    if not temps:
        return ()
    stored = {**temps, **copies.prelude}
    copier = _Copier(first_id, stored, at_risk, "prelude.")
    return tuple(copier.task(t) for t in kernel.tasks if writes_any(t, stored))


class _Copier:
    """Repeats tasks with the stores to some arrays alone. stored: these arrays, and where they are stored instead."""

    def __init__(self, first_id: int, stored: Mapping[str, str], at_risk: dict[Value, Risk], prefix: str) -> None:
        self.next_id = first_id
        self.stored = stored
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
        return not isinstance(stmt, n.Store) or stmt.array in self.stored

    def stmt(self, stmt: Stmt) -> Stmt:
        changes: dict[str, Any] = {}
        for name in ("result", "index", "trips"):
            value = getattr(stmt, name, None)
            if isinstance(value, Value) and value in results(stmt):
                changes[name] = self.fresh(value)
                if value in self.at_risk and getattr(stmt, "array", None) not in self.stored:
                    self.at_risk[changes[name]] = self.at_risk[value]
        for name in ("var", "stop"):
            if getattr(stmt, name, None):
                changes[name] = self.prefix + getattr(stmt, name)
        if isinstance(stmt, n.Atomic) and stmt.array not in self.stored:
            return n.Load(changes["result"], stmt.array, self.renamed(stmt.indices), loc=stmt.loc)
        if isinstance(stmt, (n.Load, n.Store, n.Atomic)):
            changes["array"] = self.stored.get(stmt.array, stmt.array)
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

