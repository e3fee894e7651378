"""This module defines kernels and their parts other than statements: parameters, temporaries and tasks.

All are immutable plain data without behavior.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import Span
from .statement import Block, Value
from .types import ArrayType, Scalar


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel is a scalar argument or an array. `x.grad` is the adjoint array of `x`."""

    name: str
    type: Scalar | ArrayType


@dataclass(frozen=True)
class Temp:
    """A temporary is a scalar in memory that lives for one launch and starts at zero; its array rank is 0."""

    name: str
    dtype: Scalar


@dataclass(frozen=True)
class Task:
    """A task is a parallel loop over the box [begin, end) or, without indices, serial code that runs once.

    A task sees no value and no local of another task.

    Attributes:
        body: statements of one iteration.
        indices: index values, one for each axis of the box.
        bounds: statements that compute `begin` and `end`; their values are visible there only.
        begin: first index of each axis.
        end: exclusive end of each axis.
        loc: index into the kernel's location table.
        block: number of consecutive iterations, in row-major order, that form a block; 0 if the task has no blocks.
    """

    body: Block
    indices: tuple[Value, ...] = ()
    bounds: Block = ()
    begin: tuple[Value, ...] = ()
    end: tuple[Value, ...] = ()
    loc: int = field(default=0, compare=False, repr=False)
    block: int = field(default=0, kw_only=True)

    @property
    def is_parallel(self) -> bool:
        """Return True if the task is a parallel loop."""
        return bool(self.indices)


@dataclass(frozen=True)
class Kernel:
    """A kernel is a sequence of tasks that run in order; each task ends before the next begins.

    Attributes:
        name: name of the kernel.
        params: scalar and array parameters.
        tasks: tasks in the order in which they run.
        temps: temporaries, which carry values between tasks.
        locations: source spans that statements refer to by `loc`; they count neither for equality nor for the text.
    """

    name: str
    params: tuple[Param, ...]
    tasks: tuple[Task, ...]
    temps: tuple[Temp, ...] = ()
    locations: tuple[Span | None, ...] = field(default=(None,), compare=False, repr=False)

    def span(self, loc: int) -> Span | None:
        """Return the source span of a statement's `loc`, or None if it is not known."""
        return self.locations[loc] if 0 <= loc < len(self.locations) else None

    def array_types(self) -> dict[str, ArrayType]:
        """Return the types of all arrays and temporaries, by the names that `Load`, `Store` and `Atomic` use."""
        found = {p.name: p.type for p in self.params if isinstance(p.type, ArrayType)}
        return found | {t.name: ArrayType(t.dtype, 0) for t in self.temps}

    def has_real_arrays(self) -> bool:
        """Return True if an array parameter is of reals; without one, the gradient of the kernel is empty."""
        return any(isinstance(p.type, ArrayType) and p.type.dtype.is_real for p in self.params)

    def scalar_types(self) -> dict[str, Scalar]:
        """Return the types of all scalar parameters, by the names that `Arg` uses."""
        return {p.name: p.type for p in self.params if isinstance(p.type, Scalar)}
