"""This module contains the verifier, which checks that a kernel obeys the rules of its stage.

A pass gets valid IR and must give valid IR; the verifier checks that instead of trusting it.

Scopes follow the text: a value, local or adstack is visible from its definition to the end of its block, nested blocks
included, so that definitions dominate uses. A message names kernel, stage, task, rule and statement, and the place in
the source if it is known. The module `statement_rules` says what a single statement must fulfill.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from ..errors import VerifyError
from . import nodes as n
from .collectives import MOST_THREADS
from .depth import check_depth, with_stack_room
from .kernels import Kernel, Task
from .printer import print_statement
from .stages import BLOCKS, STAGES
from .statement import Block, Stmt, Value
from .statement_rules import ATTRIBUTES, RULES, check_range
from .types import ArrayType
from .walk import blocks, operands, results

Declaration = n.Local | n.LocalArray | n.SharedArray | n.StackAlloca

_NOT_IN_BOUNDS: frozenset[type[Stmt]] = frozenset({n.Store, n.Atomic, n.Random, n.Return, n.StackAlloca})
"""These statements may not appear in bounds, which run once, outside any iteration, and only read memory."""


MOST_AXES = 32
"""This limit bounds the number of axes of an array; every version of NumPy supports that many."""


@with_stack_room
def verify(kernel: Kernel, stage: str) -> None:
    """Raise VerifyError if a kernel breaks a rule of the given stage.

    Args:
        kernel: the kernel to check.
        stage: 'source', 'tasks', 'structured' or 'adjoint'.

    Raises:
        VerifyError: the kernel breaks a rule.
        Unsupported: blocks nest too deep.
    """
    check_depth(kernel)
    _Verifier(kernel, stage).run()


class _Verifier:
    """This class visits a kernel in textual order and checks each statement; it is the `RuleContext` of the rules.

    Invariant: `_visible` and `_names` hold what the current statement may use; `_defined` and `_declared` hold
    everything seen so far. `frames` are the enclosing loops and scopes, innermost last; a None stands for the wall
    around the condition of a while, which no jump may cross.
    """

    def __init__(self, kernel: Kernel, stage: str) -> None:
        self.kernel = kernel
        self.stage = STAGES[stage]
        self.scalars = kernel.scalar_types()
        self.frames: tuple[Stmt | None, ...] = ()
        self._arrays = _array_types(kernel, self.stage.gradients)
        self._place = "header"
        self._stmt: Stmt | None = None
        self._in_bounds = False
        self._block_size = 0
        self._visible: dict[int, Value] = {}
        self._names: dict[str, Declaration] = {}
        self._defined: set[int] = set()
        self._declared: set[str] = set()

    # -- what rules ask -------------------------------------------------------------------------------------

    def fail(self, rule: str) -> NoReturn:
        lines = [f"kernel {self.kernel.name}, stage {self.stage.name}, {self._place}: {rule}"]
        if self._stmt is not None:
            text = print_statement(self._stmt).splitlines()
            lines.append(f"    {text[0]}" + (" ... }" if len(text) > 1 else ""))
            span = self.kernel.span(self._stmt.loc)
            lines += [f"    {line}" for line in span.render().splitlines()] if span else []
        raise VerifyError("\n".join(lines))

    def check(self, holds: bool, rule: str) -> None:
        if not holds:
            self.fail(rule)

    def array(self, name: str) -> ArrayType:
        if name not in self._arrays:
            self.fail(f"there is no array {name} here; known: {', '.join(sorted(self._arrays)) or 'none'}")
        return self._arrays[name]

    def local(self, name: str) -> n.Local:
        found = self._names.get(name)
        if not isinstance(found, n.Local):
            self._no_such("local", name)
        return found

    def local_array(self, name: str) -> n.LocalArray | n.SharedArray:
        found = self._names.get(name)
        if not isinstance(found, (n.LocalArray, n.SharedArray)):
            self._no_such("local array", name)
        return found

    def stack(self, name: str) -> n.StackAlloca:
        found = self._names.get(name)
        if not isinstance(found, n.StackAlloca):
            self._no_such("adstack", name)
        return found

    def _no_such(self, what: str, name: str) -> NoReturn:
        if name in self._names:
            self.fail(f"{name} is no {what}, but declared by: {print_statement(self._names[name])}")
        self.fail(f"the {what} {name} is not " + ("visible here" if name in self._declared else "declared before"))

    def declare(self, stmt: Declaration) -> None:
        name = stmt.stack if isinstance(stmt, n.StackAlloca) else stmt.var
        self.check(name not in self._declared, f"{name} is declared twice in the kernel")
        self._declared.add(name)
        self._names[name] = stmt

    # -- kernel and tasks -----------------------------------------------------------------------------------

    def run(self) -> None:
        self._header()
        for number, task in enumerate(self.kernel.tasks):
            self._place = f"task {number}"
            self._stmt = None
            self._task(task)

    def _header(self) -> None:
        taken: set[str] = set()
        for name in [p.name for p in self.kernel.params] + [t.name for t in self.kernel.temps]:
            self.check(name not in taken, f"the name {name} is given twice")
            taken.add(name)
        for param in self.kernel.params:
            if isinstance(param.type, ArrayType):
                self._array(param.name, param.type)
        for name, wanted in _adjoints(self.kernel).items():
            given = self.kernel.array_types().get(name, wanted)
            # A parameter may be named `x.grad` itself; it must then have the type of the adjoint array of `x`.
            rule = f"{name} is the adjoint of {name.removesuffix('.grad')}: it is {wanted}, not {given}"
            self.check((given.dtype, given.ndim, given.grad) == (wanted.dtype, wanted.ndim, False), rule)

    def _array(self, name: str, found: ArrayType) -> None:
        """Check the type of an array parameter: its rank is in range, and only an array of reals has an adjoint."""
        self.check(found.dtype.is_real or not found.grad, f"{name} holds {found.dtype}: it has no adjoint")
        self.check(0 <= found.ndim <= MOST_AXES, f"{name} has rank {found.ndim}; at most {MOST_AXES} axes can be had")

    def _task(self, task: Task) -> None:
        self._block_size = task.block
        self.check(
            0 <= task.block <= MOST_THREADS, f"a block of {task.block} iterations; at most {MOST_THREADS} can be had"
        )
        ends = len(task.begin) == len(task.end) == len(task.indices)
        self.check(ends, "a box has one begin and one end for each index")
        if task.is_parallel:
            self._parallel(task)
            return
        self.check(not task.bounds, "a serial task has no bounds")
        self.check(not task.block, "a serial task has no blocks")
        with self._scope(open_ended=self.stage.crossing):
            self._block(task.body)

    def _parallel(self, task: Task) -> None:
        self._in_bounds = True
        with self._scope():
            self._block(task.bounds)
            self._in_bounds = False
            self._stmt = None
            for value in (*task.begin, *task.end):
                self._use(value)
        with self._scope():
            for index, begin, end in zip(task.indices, task.begin, task.end):
                check_range(self, index, begin, end)
                self._define(index)
            self._block(task.body)

    # -- scopes ---------------------------------------------------------------------------------------------

    @contextmanager
    def _scope(self, *frames: Stmt | None, open_ended: bool = False) -> Iterator[None]:
        """Open a scope during the `with`; names defined inside are hidden afterwards unless `open_ended`.

        No name shadows another, so hiding a name deletes it.
        """
        values, names, outer, stmt = len(self._visible), len(self._names), self.frames, self._stmt
        self.frames = (*outer, *frames)
        yield
        self.frames, self._stmt = outer, stmt
        while not open_ended and len(self._visible) > values:
            self._visible.popitem()
        while not open_ended and len(self._names) > names:
            self._names.popitem()

    def _define(self, value: Value) -> None:
        self.check(value.id not in self._defined, f"%{value.id} is defined twice")
        self._defined.add(value.id)
        self._visible[value.id] = value

    def _use(self, value: Value) -> None:
        known = self._visible.get(value.id)
        if known is None:
            closed = value.id in self._defined
            self.fail(f"%{value.id} is " + ("not visible here" if closed else "used before it is defined"))
        self.check(known.type == value.type, f"%{value.id} is defined as {known.type} and used as {value.type}")

    def _use_all(self, values: Iterable[Value]) -> None:
        for value in values:
            self._use(value)

    # -- statements -----------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for stmt in block:
            self._stmt = stmt
            self._statement(stmt)

    def _statement(self, stmt: Stmt) -> None:
        cls = type(stmt)
        self.check(cls in self.stage.statements, f"{cls.__name__} may not appear at this stage")
        self.check(not self._in_bounds or cls not in _NOT_IN_BOUNDS, f"{cls.__name__} may not appear in bounds")
        outside = not self._block_size or self._in_bounds
        self.check(not (cls in BLOCKS and outside), f"{cls.__name__} may not appear outside blocks")
        # The operands of a while are not visible where it begins: its condition block defines them.
        if isinstance(stmt, n.While):
            self._while(stmt)
            return
        self._use_all(operands(stmt))
        for name, kinds in ATTRIBUTES[cls]:
            found = getattr(stmt, name)
            self.check(type(found) in kinds, f"{name} of {cls.__name__} is {found!r}")
        RULES[cls](self, stmt)
        if isinstance(stmt, n.For):
            self._for(stmt)
            return
        # Results are defined only after the blocks, because a statement's own blocks do not see them.
        for inner in blocks(stmt):
            with self._scope(*((stmt,) if isinstance(stmt, n.Scope) else ())):
                self._block(inner)
        for value in results(stmt):
            self._define(value)

    def _for(self, stmt: n.For) -> None:
        with self._scope(stmt):
            self._define(stmt.index)
            self._block(stmt.body)
        if stmt.trips:
            self._define(stmt.trips)

    def _while(self, stmt: n.While) -> None:
        """Check a while loop, and that its body uses no values which its condition defines."""
        with self._scope(stmt, None):
            self._block(stmt.condition)
            self._stmt = stmt
            self._use(stmt.test)
        RULES[n.While](self, stmt)
        with self._scope(stmt):
            self._block(stmt.body)
        if stmt.trips:
            self._define(stmt.trips)


def _array_types(kernel: Kernel, gradients: bool) -> dict[str, ArrayType]:
    """Return the types of all arrays by name, with adjoint arrays if `gradients` is true."""
    return (_adjoints(kernel) if gradients else {}) | kernel.array_types()


def _adjoints(kernel: Kernel) -> dict[str, ArrayType]:
    """Return the types of the parameters' adjoint arrays, by name."""
    return {f"{name}.grad": t.adjoint for name, t in kernel.array_types().items() if t.grad}
