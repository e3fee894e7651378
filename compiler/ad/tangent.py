"""This module makes tangent kernels, which compute every real value together with its derivative along a direction.

    %2 = mul %0, %1            →    %2 = mul %0, %1;  %2' = %0'·%1 + %1'·%0
    store y[i], %2                  store y[i], %2;   store y.dual[i], %2'

The rules are those of reverse mode. A rule of VJP is linear in `g`. So the rule for operand k, applied to the tangent
of operand k in place of `g`, gives the part of this operand in the tangent of the result. Control flow is kept as it
is. For each local, local array and array x there is a second one, named `x.dual`, that holds its tangents.

Some atomics must change primal and tangent in one step: min, max, mul, exchange, and add if its result is used. They
are right only if iterations run one after another. So a parallel task with such an atomic on elements that iterations
share becomes a serial task.

The kernel may be a gradient. Then this is forward over reverse, and `x.grad.dual` is the second derivative. A second
adstack for tangents, `s.dual`, is pushed and popped with each adstack s, so depths do not change. The exchange with 0
that hands an adjoint to the winner of an extreme may take adjoint and tangent in two steps. Only iterations that tie
can take one of the two each. Where the derivative exists, these iterations have the same derivative, which multiplies
what they took, so the sum is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..errors import NotDifferentiable
from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Param, Task, Temp
from ..ir.roles import LOCAL_DECLARATIONS
from ..ir.statement import Block, Value
from ..ir.types import ArrayType
from ..ir.walk import next_id, used_values, walk_kernel, walk_task
from .activity import reached_from
from .own_arrays import own_arrays
from .rules import VJP
from .serialize import serialize
from .tangent_statements import TANGENT

DUAL, GRAD = ".dual", ".grad"


def tangent(kernel: Kernel, carriers: Iterable[str], gradient: bool = False) -> Kernel:
    """Return the tangent kernel of a kernel of stage tasks or adjoint; the stage stays the same.

    Args:
        kernel: The kernel.
        carriers: Real array parameters x that have a tangent array, which becomes the parameter `x.dual`. A derivative
        ends at a store to any other array.
        gradient: True if reverse mode made the kernel.

    Raises:
        NotDifferentiable: The kernel uses `x.dual` itself, or a loop that must be serial draws random numbers.
    """
    sweep = TangentSweep(kernel, frozenset(carriers), gradient)
    tasks = tuple(sweep.task(task) for task in kernel.tasks)
    types = kernel.array_types()
    duals = tuple(Param(a + DUAL, ArrayType(types[a].dtype, types[a].ndim)) for a in sorted(sweep.carriers))
    _refuse_clashes(kernel, duals)
    return replace(
        kernel,
        name=f"{kernel.name}{DUAL}",
        params=kernel.params + duals,
        temps=kernel.temps + tuple(Temp(t.name + DUAL, t.dtype) for t in kernel.temps if t.name in sweep.arrays),
        tasks=tasks,
    )


def _refuse_clashes(kernel: Kernel, duals: tuple[Param, ...]) -> None:
    """Raise an error if a kernel uses `x.dual` itself, because its tangent kernel would update `x.dual` too.

    Refuse also an access to an adjoint array `x.grad` that is no parameter, as grad kernels have it: it has no tangent.
    """
    known = kernel.array_types()
    own = {p.name for p in kernel.params} & {p.name for p in duals}
    for stmt in walk_kernel(kernel):
        array = getattr(stmt, "array", "")
        if array and array not in known:
            raise NotDifferentiable(
                f"'{array}' is used in a kernel that runs in forward mode, and is none of its parameters",
                f"make '{array}' a parameter of the kernel",
                kernel.span(stmt.loc),
            )
        if array in own:
            raise NotDifferentiable(
                f"'{array}' is used in a kernel that runs in forward mode, which computes it",
                "read the dual after the block, or copy it to a field first",
                kernel.span(stmt.loc),
            )


class TangentSweep:
    """Rewrite the bodies of one kernel so that they also compute tangents.

    Attributes:
        kernel: The kernel.
        gradient: True if reverse mode made the kernel.
        carriers: Array parameters with a tangent.
        varied: Everything that depends on the carriers.
        arrays: The carriers, and the temporaries that carry a tangent.
        locals: Locals and local arrays that have a tangent, held in a second local.
        stacks: Adstacks that have tangents, held on a second adstack.
        used: Values that some statement reads.
        suffix: Text that the names of locals and adstacks for tangents end with.
        b: The builder of the bodies.
        tangents: The tangents of the values made so far; a value without one is constant along every direction.
    """

    def __init__(self, kernel: Kernel, carriers: frozenset[str], gradient: bool) -> None:
        self.kernel = kernel
        self.gradient = gradient
        self.carriers = carriers
        self.varied = varied = reached_from(kernel, {("array", name) for name in carriers})
        self.arrays = carriers | {v[1] for v in varied if isinstance(v, tuple) and v[0] == "array"}
        self.locals = {v[1] for v in varied if isinstance(v, tuple) and v[0] == "local"}
        self.stacks = {v[1] for v in varied if isinstance(v, tuple) and v[0] in ("stack", "adjoint")}
        self.used = used_values(walk_kernel(kernel))
        self.suffix = _suffix(kernel)
        self.b = Builder(next_id(kernel))
        self.tangents: dict[Value, Value] = {}

    def task(self, task: Task) -> Task:
        """Return the task with tangents added, made serial if updates of value and tangent must not interleave."""
        shared = self.arrays - own_arrays(task)
        coupled = [s for s in walk_task(task) if isinstance(s, n.Atomic) and s.array in shared and self.couples(s)]
        if coupled and task.is_parallel:
            task = serialize(self.kernel, task, coupled[0])
        return replace(task, body=self.block(task.body))

    def couples(self, stmt: n.Atomic) -> bool:
        """Return True if no other iteration may run between an atomic and the update of its element's tangent."""
        return not self.hands_out(stmt) and (stmt.op != "add" or stmt.result in self.used)

    def hands_out(self, stmt: n.Atomic) -> bool:
        """Return True if a grad kernel gives an adjoint to the winner of a min or max by this atomic exchange.

        Only grad kernels contain such an exchange.
        """
        return self.gradient and stmt.op == "exchange" and stmt.array.endswith(GRAD) and stmt.value not in self.varied

    def block(self, block: Block) -> Block:
        """Return the statements of a block together with the statements that compute their tangents."""
        with self.b.block() as made:
            for stmt in block:
                self.b.loc = stmt.loc
                TANGENT[type(stmt)](self, stmt)
        return tuple(made)

    def twin(self, var: str) -> str | None:
        """Return the name of the local that holds the tangent of a local, or None if it has none."""
        return var + self.suffix if var in self.locals else None

    def twin_stack(self, stack: str) -> str | None:
        """Return the name of the adstack that holds the tangents of an adstack, or None if it has none."""
        return stack + self.suffix if stack in self.stacks else None

    def dual(self, array: str) -> str | None:
        """Return the name of the array that holds the tangent of an array or temporary, or None if it has none."""
        return array + DUAL if array in self.arrays else None

    def of(self, value: Value) -> Value:
        """Return the tangent of a value, which is a zero constant if the value has none."""
        found = self.tangents.get(value)
        return self.b.const(0.0, value.type) if found is None else found

    def along(self, op: str, args: tuple[Value, ...], result: Value) -> Value | None:
        """Return the tangent of an operation's result by its rules in the table VJP; None if the tangent is zero."""
        total: Value | None = None
        for operand, rule in zip(args, VJP[op]):
            direction = self.tangents.get(operand)
            if rule is not None and direction is not None:
                share = rule(self.b, direction, args, result)
                total = share if total is None else self.b.op("add", total, share)
        return total


def _suffix(kernel: Kernel) -> str:
    """Return the suffix of the names of locals and adstacks for tangents, which no name of the kernel has."""
    names = {s.var for s in walk_kernel(kernel) if isinstance(s, LOCAL_DECLARATIONS)}
    names |= {s.stack for s in walk_kernel(kernel) if isinstance(s, n.StackAlloca)}
    suffix = DUAL
    while any(name.endswith(suffix) for name in names):
        suffix += "_"
    return suffix
