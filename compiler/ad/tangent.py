"""tangent(kernel, carriers): forward mode. Beside every real value its derivative along one direction.

    %2 = mul %0, %1            →    %2 = mul %0, %1;  %2' = %0'·%1 + %1'·%0
    store y[i], %2                  store y[i], %2;   store y.dual[i], %2'

The rules are those of reverse mode: a row of VJP is linear in `g` and acts on one element, so the share it gives for
the operand k, taken at g = the tangent of operand k, is that operand's part of the tangent of the result. Control flow
is kept as it is: tangents follow values through locals, local arrays and memory by twins named `x.dual`.

An atomic whose derivative needs primal and tangent to change as one (min, max, mul, exchange, or add if what it
returned is used) is right only if iterations run one after another; a parallel task with such an atomic on elements
that iterations share becomes a serial one.

The kernel may be a gradient: then this is forward over reverse, and `x.grad.dual` the second derivative. A twin of each
adstack, `s.dual`, is pushed and popped with it, so depths are what they were. The exchange with 0 that hands an adjoint
to the winner of an extreme may take adjoint and tangent in two steps: only iterations that tie can take one each, and
where the derivative exists these have one derivative, to which what they took is the factor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..errors import NotDifferentiable
from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.nodes import Block, Kernel, Param, Task, Temp, Value
from ..ir.types import ArrayType
from ..ir.walk import next_id, used_values, walk_kernel, walk_task
from .activity import reached_from
from .own_arrays import own_arrays
from .rules import VJP
from .serialise import serialise
from .tangent_statements import TANGENT

DUAL, GRAD = ".dual", ".grad"


def tangent(kernel: Kernel, carriers: Iterable[str], gradient: bool = False) -> Kernel:
    """The kernel with tangents: stage tasks to stage tasks, or adjoint to adjoint.

    carriers: array parameters of real type that have a tangent array, which becomes the parameter `x.dual`; a
    derivative ends where it is stored to another array. gradient: reverse mode made the kernel. Raises
    NotDifferentiable, located.
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
    """A kernel that handles x.dual itself cannot also have it updated by its own tangents.

    Nor has an adjoint a tangent that is no parameter, but means `x.grad` of a parameter x, as adjoint kernels may.
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
    """Rewrites the bodies of one kernel.

    carriers: arrays with a tangent; arrays: those and the temporaries that carry one. locals: scalars and local arrays
    with a twin; stacks: adstacks with one. tangents: of the values made so far that have one; others are constant along
    every direction.
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
        """A task with tangents; a serial one where iterations must not interleave."""
        shared = self.arrays - own_arrays(task)
        coupled = [s for s in walk_task(task) if isinstance(s, n.Atomic) and s.array in shared and self.couples(s)]
        if coupled and task.is_parallel:
            task = serialise(self.kernel, task, coupled[0])
        return replace(task, body=self.block(task.body))

    def couples(self, stmt: n.Atomic) -> bool:
        """Whether primal and tangent of the element must change as one."""
        return not self.hands_out(stmt) and (stmt.op != "add" or stmt.result in self.used)

    def hands_out(self, stmt: n.Atomic) -> bool:
        """Whether this takes the adjoint of an element for the winner of an extreme, as gradients alone do."""
        return self.gradient and stmt.op == "exchange" and stmt.array.endswith(GRAD) and stmt.value not in self.varied

    def block(self, block: Block) -> Block:
        """The statements of a block with those of their tangents."""
        with self.b.block() as made:
            for stmt in block:
                self.b.loc = stmt.loc
                TANGENT[type(stmt)](self, stmt)
        return tuple(made)

    def twin(self, var: str) -> str | None:
        """The local that holds the tangent of a local; None if it has none."""
        return var + self.suffix if var in self.locals else None

    def twin_stack(self, stack: str) -> str | None:
        """The adstack that holds the tangents of an adstack; None if it has none."""
        return stack + self.suffix if stack in self.stacks else None

    def dual(self, array: str) -> str | None:
        """The tangent of an array or temporary; None if it carries none."""
        return array + DUAL if array in self.arrays else None

    def of(self, value: Value) -> Value:
        """The tangent of a value, zero if it has none."""
        found = self.tangents.get(value)
        return self.b.const(0.0, value.type) if found is None else found

    def along(self, op: str, args: tuple[Value, ...], result: Value) -> Value | None:
        """The tangent of an operation's result, from its rows of VJP; None if no operand contributes."""
        total: Value | None = None
        for operand, rule in zip(args, VJP[op]):
            direction = self.tangents.get(operand)
            if rule is not None and direction is not None:
                share = rule(self.b, direction, args, result)
                total = share if total is None else self.b.op("add", total, share)
        return total


def _suffix(kernel: Kernel) -> str:
    """What names of twins end with: no local and no adstack of the kernel ends so."""
    names = {s.var for s in walk_kernel(kernel) if isinstance(s, (n.Local, n.LocalArray))}
    names |= {s.stack for s in walk_kernel(kernel) if isinstance(s, n.StackAlloca)}
    suffix = DUAL
    while any(name.endswith(suffix) for name in names):
        suffix += "_"
    return suffix
