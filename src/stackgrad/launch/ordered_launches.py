"""Launch kernels under a tape in a recorded order of atomic updates, if their gradient depends on this order.

`compiler.ad.ordered_updates` makes the ordered kernel. Invariant: a tape that takes the gradient of such a launch sees
a launch of the ordered kernel in its place, and nothing else. The arrays that record the results of atomics are new for
each launch.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ..backends.launching.launcher import NO_DRAWS
from ..compiler.errors import NotDifferentiable
from ..compiler.ir.types import ArrayType, adjoint_type, from_dtype
from ..runtime.session import RUNTIME
from .program import Binding, Program

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..compiler.ad.ordered_updates import OrderedKernel


def ordered_binding(binding: Binding, scalars: Scalars, ended: Collection[str] | None) -> Binding | None:
    """Return a binding that replaces another one under a tape to fix the order of updates, or None if not needed.

    Args:
        binding: The launch that the program asks for.
        scalars: The scalar arguments of the launch by name.
        ended: None if the tape takes the gradient of the launch. If the launch is constant to the tape, the parameters
            of the arrays whose adjoints the launch ends.

    Raises:
        NotDifferentiable: The launch has no gradient under a tape. The error is located.
        Unsupported: The ordered kernel cannot be made. The error is located.
    """
    program = binding.program if ended is None else binding.program.detached(frozenset(ended))
    if not program.gradients or ended is not None and not ended:
        return None
    ordering = ordering_of(program, serial=RUNTIME.forward is not None)
    return ordering.binding(binding, scalars) if ordering is not None else None


def ordering_of(program: Program, serial: bool) -> OrderedLaunch | None:
    """Return the variant of a program with ordered updates for launches under a tape, or None if not needed.

    Args:
        program: The program.
        serial: True to accept serial loops only. In forward mode each direction is a launch of its own, and only a
            serial loop has the same order in all of them.
    """
    if serial not in program.orderings:
        program.orderings[serial] = _order(program, serial)
    return program.orderings[serial]


def _order(program: Program, serial: bool) -> OrderedLaunch | None:
    """Make the variant of a program with ordered updates; None if its gradient needs no order or cannot be ordered."""
    try:
        program.taped()
        return None
    except NotDifferentiable:
        from ..compiler.ad.ordered_updates import make_ordered_kernel

    for last in (True,) if serial else (False, True):
        made = make_ordered_kernel(program.kernel, serial=last)
        if made is None:
            return None  # The tape then asks for the gradient itself, and shows the reason why there is none.
        ordering = OrderedLaunch(program, made)
        try:
            ordering.settle()
        except NotDifferentiable:
            if last:
                raise
        else:
            return ordering
    return None


class OrderedLaunch:
    """Represent the variant of a program that executes its atomic updates in a known order.

    Attributes:
        made: The ordered kernel, with the arrays that it needs besides those of the program.
        program: The program of the ordered kernel.
        span: Where the kernel is defined.
    """

    def __init__(self, program: Program, made: OrderedKernel) -> None:
        self.made = made
        self.span = program.span
        self.program = Program(made.kernel, program.span)
        self._extents: Program | None = None
        self._bindings: weakref.WeakKeyDictionary[Binding, Binding] = weakref.WeakKeyDictionary()

    def settle(self) -> None:
        """Lower the ordered program's gradient, and stop recording results of atomics that the gradient ignores.

        Raises:
            NotDifferentiable: The ordered kernel has no gradient either. The error is located.
        """
        side = self.program.taped().side
        unread = self.made.records.keys() - {*side.reads, *side.launcher.versioned}
        if unread and not self.program.overwritten().difference(self.program.gradients):
            self._without(unread)
        if self.made.extents is not None:
            self._extents = Program(self.made.extents)

    def _without(self, unread: set[str]) -> None:
        """Stop recording results of atomics that the gradient does not read, if the gradient exists without them."""
        made = self.made.without(unread)
        program = Program(made.kernel, self.span)
        # A record may be unread only because its presence replaced a value. Then there is no gradient without it.
        with suppress(NotDifferentiable):
            program.taped()
            self.made, self.program = made, program

    def binding(self, binding: Binding, scalars: Scalars) -> Binding:
        """Return the ordered kernel bound to the arrays of a binding, with new arrays for recorded atomic results."""
        if self.made.records or self.made.apart:
            own = {**self._records(binding, scalars), **self._apart(binding)}
            found = Binding(self.program, {**binding.arrays, **own})
            found.own = own
            found.replay = lambda given: self.binding(binding, given).launch(given)
            return found
        known = self._bindings.get(binding)
        if known is None:
            known = self._bindings[binding] = Binding(self.program, binding.arrays)
        return known

    def _records(self, binding: Binding, scalars: Scalars) -> dict[str, np.ndarray]:
        """Return new arrays that record the results of atomics, with one element for each iteration."""
        if self._extents is None:
            return {}
        types = {p.name: p.type for p in self.made.kernel.params}
        extents = np.zeros(sum(_axes(types[name]) for name in self.made.records), np.int64)
        counting = Binding(self._extents, {**binding.arrays, "$extents": extents})
        counting.run(scalars, NO_DRAWS)
        found, at = {}, 0
        for name in self.made.records:
            kind = types[name]
            assert isinstance(kind, ArrayType)
            found[name] = np.zeros(extents[at : at + kind.ndim], kind.dtype.dtype)
            at += kind.ndim
        return found

    def _apart(self, binding: Binding) -> dict[str, np.ndarray]:
        """Return new arrays of zeros, with adjoints, in which the ordered kernel stores atomic minima and maxima.

        The adjoints are zero before and after each gradient.
        """
        found = {}
        for name, array in self.made.apart.items():
            like = binding.arrays[array]
            memory = like if isinstance(like, np.ndarray) else like.memory
            found[name] = np.zeros(memory.shape, memory.dtype)
            found[f"{name}.grad"] = np.zeros(memory.shape, adjoint_type(from_dtype(memory.dtype)).dtype)
        return found


def _axes(kind: object) -> int:
    """Return the number of axes of an array type."""
    assert isinstance(kind, ArrayType)
    return kind.ndim
