"""Specialize kernels: trace one for the types of a call's arguments, and bind the program to arrays of calls.

Invariant: a specialization keeps neither the arrays of a launch nor the objects it was traced for alive. When these
objects die, the data that was made for them is dropped.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.forks import hold_while_forking
from ..compiler.frontend.members import LaunchValue
from ..compiler.frontend.protocols import ArgumentArray
from ..data.fields.array import Array
from ..data.leaves import ArgumentMismatch, ForeignArray, Leaf
from ..runtime.guards import NO_GUARDS, GuardSet, guards_of
from .bound import GRAD
from .program import Binding, Program
from .results import ResultReader
from .stand_ins import StandInMaker

if TYPE_CHECKING:
    from ..compiler.errors import Span
    from ..compiler.frontend.reads import Read
    from ..compiler.frontend.trace import Traced
    from .equal_objects import EqualCalls
    from .matching import Matcher
    from .shared_traces import TracePlace

TRACING = threading.RLock()
"""This lock lets one kernel be traced at a time, because fields answer differently meanwhile."""

hold_while_forking(TRACING, 0)

Tracing = Callable[[Mapping[str, Any], "list[Read]"], "Traced"]
"""A function that traces the kernel, given what its parameters stand for.

It appends what the trace reads of Python objects to the list, also if the trace fails.
"""


class Specialization:
    """Represent a kernel traced for certain argument types, with a map from a call's arrays to its parameters.

    Attributes:
        program: The program.
        scalars: The names of the scalar arguments in order.
        captured: The arrays, by name, that the kernel uses without getting them as arguments, such as global fields.
        own: Identities of the captured arrays and of their gradients.
        slots: For each array parameter, (its name, the number of its leaf, True if it is the adjoint of the leaf).
        reader: The reader of the result, or None if the kernel returns nothing.
        guards: Guards of what the trace read from Python objects.
        checks: The same guards, checked together.
        held: Objects that the specialization keeps alive.
        alive: Bindings that a tape holds, by the identities of their arrays.
        shared: The binding that all calls use, if calls pass no arrays and return nothing; None before the first call.
    """

    __slots__ = (
        "program",
        "scalars",
        "captured",
        "own",
        "slots",
        "reader",
        "guards",
        "checks",
        "held",
        "alive",
        "shared",
    )

    def __init__(self, program: Program, traced: Traced) -> None:
        self.program = program
        self.scalars = tuple(argument.name for argument in traced.arguments)
        self.captured: dict[str, Array] = {}
        self.slots: list[tuple[str, int, bool]] = []
        for name, array in traced.arrays.items():
            if isinstance(array, ArgumentArray):
                self.slots.append((name, array.slot, array.is_grad))
            else:
                assert isinstance(array, Array)
                array.check_alive()
                self.captured[name] = array
        gradients = [array.grad for array in self.captured.values() if array.needs_grad]
        self.own = frozenset(map(id, [*self.captured.values(), *gradients]))
        self.reader = None if traced.result is None else ResultReader(traced.result)
        self.guards = program.guards = guards_of(traced.reads)
        self.checks = GuardSet(self.guards) if self.guards else NO_GUARDS
        self.held: list[Any] = []
        self.alive: weakref.WeakValueDictionary[tuple[int, ...], Binding] = weakref.WeakValueDictionary()
        self.shared: Binding | None = None

    def check_alive(self) -> None:
        """Raise StaleFieldError if an array that the kernel captured was destroyed."""
        for array in self.captured.values():
            array.check_alive()

    def binding(self, leaves: list[Leaf]) -> Binding:
        """Return a binding of the traced program to the arrays of a call.

        Raises:
            ArgumentMismatch: The kernel stores to an array that cannot be written.
            ArgumentError: Two arrays overlap.
            StaleFieldError: An array was destroyed.
        """
        self.check_alive()
        if self.shared is not None:
            return self.shared
        key = None if self.reader is not None else _identities(leaves)
        found = None if key is None else self.alive.get(key)
        if found is not None:
            return found
        arrays: dict[str, Array | np.ndarray] = dict(self.captured)
        for name, slot, is_grad in self.slots:
            leaf = leaves[slot]
            if isinstance(leaf, Array):
                arrays[name] = leaf.grad if is_grad else leaf
            else:
                self._bind_foreign(arrays, name, leaf, is_grad)
        if self.reader is not None:
            arrays |= self.reader.make()
        made = Binding(self.program, arrays)
        if not self.slots and self.reader is None:
            self.shared = made
        elif key is not None:
            self.alive[key] = made
        return made

    def _bind_foreign(
        self, arrays: dict[str, Array | np.ndarray], name: str, leaf: ForeignArray, is_grad: bool
    ) -> None:
        """Add an array of another library, or its adjoint, to the arrays of a binding."""
        if is_grad:
            assert leaf.grad is not None
            arrays[name] = leaf.grad
            return
        arrays[name] = leaf.memory
        if leaf.grad is not None:
            arrays[name + GRAD] = leaf.grad
        if leaf.read_only and name in self.program.forward().lowered.writes:
            raise ArgumentMismatch(
                f"the kernel stores to {name}, and a JAX array cannot be written",
                "give a NumPy array, an ndarray or a field",
            )


def specialised(
    parameters: Iterable[tuple[str, Matcher, Any]],
    leaves: list[Leaf],
    fixed: frozenset[int],
    trace: Tracing,
    span: Span | None,
    constant: bool,
    equal: EqualCalls | None,
    reads: list[Read],
    place: TracePlace | None = None,
) -> Specialization:
    """Trace a kernel for the arguments of a call, and return the specialization; the caller holds the lock TRACING.

    Args:
        parameters: The name and the matcher of each parameter, with its argument.
        leaves: The arrays of the call.
        fixed: Identities of arrays that get no stand-in, because the kernel also captured them.
        trace: The function that traces the kernel.
        span: The `def` of the kernel.
        constant: True if launches of the kernel are constant to derivatives.
        equal: The calls with equal arguments that the entry will serve, which get guards too, or None.
        reads: A list to which the trace appends what it reads of Python objects.
        place: The position of the trace in the store that equal kernels share, or None if no kernel can be equal.
    """
    shared = None if place is None else place.find()
    if shared is not None:
        return Specialization(*shared)
    make = StandInMaker(leaves, fixed)
    stand_ins = {name: matcher.stand_in(value, make) for name, matcher, value in parameters}
    traced = trace({name: one for name, one in stand_ins.items() if not isinstance(one, LaunchValue)}, reads)
    if equal is not None:
        equal.guard(partial(guards_of, traced.reads))
    program = Program(traced.kernel, span, constant)
    if place is not None:
        place.keep(program, traced)
    return Specialization(program, traced)


def _identities(leaves: list[Leaf]) -> tuple[int, ...] | None:
    """Return the ids of the arrays of a call, or None if one is a NumPy view that was made for this call."""
    found = []
    for leaf in leaves:
        if isinstance(leaf, ForeignArray) and leaf.owner is not leaf.memory:
            return None
        found.append(id(leaf if isinstance(leaf, Array) else leaf.memory))
    return tuple(found)
