"""Launches under a tape whose gradient needs the order in which iterations updated memory, see `compiler.ad.returned`.

Invariant: a tape that takes the gradient of such a launch sees a launch of the ordered kernel instead, and nothing
else. Arrays of one launch alone, which hold what atomics returned, are new for each.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from .backends.launcher import NO_DRAWS
from .compiler.errors import NotDifferentiable
from .compiler.ir.types import ArrayType, adjoint_type, from_dtype
from .program import Binding, Program
from .session import RUNTIME

if TYPE_CHECKING:
    from .backends.base import Scalars
    from .compiler.ad.returned import Ordered


def ordered_binding(binding: Binding, scalars: Scalars, ended: Collection[str] | None) -> Binding | None:
    """What to launch instead of a binding under a tape that takes its gradient; None if it is right as it is.

    ended: of a launch that is constant to the tape: arrays whose adjoints it ends; else None. Raises
    NotDifferentiable and Unsupported, located.
    """
    program = binding.program if ended is None else binding.program.detached(frozenset(ended))
    if not program.gradients or ended is not None and not ended:
        return None
    ordering = ordering_of(program, serial=RUNTIME.forward is not None)
    return ordering.binding(binding, scalars) if ordering is not None else None


def ordering_of(program: Program, serial: bool) -> Ordering | None:
    """How to launch a program under a tape; None if as it is. serial: each direction of forward mode is a launch of
    its own, and only serial loops have one order in all of them.
    """
    if serial not in program.orderings:
        program.orderings[serial] = _order(program, serial)
    return program.orderings[serial]


def _order(program: Program, serial: bool) -> Ordering | None:
    try:
        program.taped  # noqa: B018 - whether it can be had
        return None
    except NotDifferentiable:
        from .compiler.ad.returned import order_updates

    for last in (True,) if serial else (False, True):
        made = order_updates(program.kernel, serial=last)
        if made is None:
            return None  # the tape asks for the gradient, and shows why there is none
        ordering = Ordering(program, made)
        try:
            ordering.settle()
        except NotDifferentiable:
            if last:
                raise
        else:
            return ordering
    return None


class Ordering:
    """An ordered kernel of a program, launchable."""

    def __init__(self, program: Program, made: Ordered) -> None:
        self.made = made
        self.span = program.span
        self.program = Program(made.kernel, program.span)
        self._extents: Program | None = None
        self._bindings: weakref.WeakKeyDictionary[Binding, Binding] = weakref.WeakKeyDictionary()

    def settle(self) -> None:
        """Lower the gradient, and leave out what it does not read. Raises NotDifferentiable, located."""
        side = self.program.taped.side
        unread = self.made.records.keys() - {*side.reads, *side.launcher.versioned}
        if unread and not self.program.overwritten.difference(self.program.gradients):
            self._without(unread)
        if self.made.extents is not None:
            self._extents = Program(self.made.extents)

    def _without(self, unread: set[str]) -> None:
        made = self.made.without(unread)
        program = Program(made.kernel, self.span)
        with suppress(NotDifferentiable):  # that it is not read may be because it is there
            program.taped  # noqa: B018 - whether it can be had
            self.made, self.program = made, program

    def binding(self, binding: Binding, scalars: Scalars) -> Binding:
        """The ordered kernel on the same arrays, and on new ones for what is kept of this launch."""
        if self.made.records or self.made.apart:
            own = {**self._records(binding, scalars), **self._apart(binding)}
            found = Binding(self.program, {**binding.arrays, **own})
            found.own = own
            found.again = lambda given: self.binding(binding, given).launch(given)
            return found
        known = self._bindings.get(binding)
        if known is None:
            known = self._bindings[binding] = Binding(self.program, binding.arrays)
        return known

    def _records(self, binding: Binding, scalars: Scalars) -> dict[str, np.ndarray]:
        """An element for each iteration."""
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
        """Arrays for extremes, and their adjoints, which are zero before and after each gradient."""
        found = {}
        for name, array in self.made.apart.items():
            like = binding.arrays[array]
            memory = like if isinstance(like, np.ndarray) else like.memory
            found[name] = np.zeros(memory.shape, memory.dtype)
            found[f"{name}.grad"] = np.zeros(memory.shape, adjoint_type(from_dtype(memory.dtype)).dtype)
        return found


def _axes(kind: object) -> int:
    assert isinstance(kind, ArrayType)
    return kind.ndim
