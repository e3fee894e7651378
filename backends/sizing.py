"""Sizes from expressions, inside a launch: on the host where they need no range, else by NumPy or by native code.

Native code for ranges is an ordinary kernel of the backend. It is made when a range is long, or NumPy has been at short
ones for as long as making it takes, so that a program which is launched a few times compiles nothing for its sizes.
"""
from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..compiler.ir.nodes import Kernel, StackAlloca
from ..compiler.ir.walk import walk_kernel
from ..compiler.sizing.evaluate import Inexact, TooLong, sizes
from ..compiler.sizing.expressions import INFINITY
from ..compiler.sizing.host import host_function
from ..compiler.sizing.post_order import KeptSizes
from ..compiler.sizing.sizes import Sized
from ..compiler.sizing.to_kernel import INEXACT, size_kernel
from .base import SLABS, Arrays, Backend, Draws, Executable, Options, Scalars, Sizes

BREAK_EVEN = 0.02
"""Seconds of NumPy after which native code is made."""

LONG = 1 << 15
"""Points of ranges that are no matter for NumPy."""


class SizeFinder:
    """The size expressions of a kernel on a backend. seconds: spent in code generation."""

    def __init__(self, kernel: Kernel, kept: KeptSizes, backend: Backend, options: Options) -> None:
        self.kernel = kernel
        self.kept = kept
        self.backend = backend
        self.options = replace(options, debug=False)
        self.seconds = 0.0
        self.break_even = BREAK_EVEN if backend.name != "reference" else INFINITY
        self._spent = 0.0
        self._sized: Sized | None = None
        self._native: tuple[Kernel, Executable] | None = None

    def find(self, arrays: Arrays, scalars: Scalars) -> Sizes | None:
        """Sizes in this state; None if the expressions do not describe it."""
        sized = self._sized
        if sized is None:
            sized = self.kept.sized()
            self._host = host_function(sized)
            self._slots = [s for s in walk_kernel(self.kernel) if isinstance(s, StackAlloca)]
            self._sized = sized  # last: other threads look for it
        found = self._find(sized, arrays, scalars)
        return None if found is None else self._named(found)

    def _find(self, sized: Sized, arrays: Arrays, scalars: Scalars) -> list[int] | None:
        try:
            if self._host is not None:
                return self._host(arrays, scalars)
            if self._spent >= self.break_even:
                return self._run(sized, arrays, scalars)
            begin = time.perf_counter()
            found = sizes(sized, arrays, scalars, LONG if self.break_even < INFINITY else INFINITY)
            self._spent += time.perf_counter() - begin
            return found
        except TooLong:
            self.break_even = 0.0
            return self._find(sized, arrays, scalars)
        except Inexact:
            return None

    def _run(self, sized: Sized, arrays: Arrays, scalars: Scalars) -> list[int]:
        if self._native is None:
            begin = time.perf_counter()
            kernel = size_kernel(self.kernel, sized)
            self._native = kernel, self.backend.compile(kernel, self.options)
            self.seconds += time.perf_counter() - begin
        kernel, executable = self._native
        depths, totals = (np.zeros(len(self._slots), np.int64) for _ in range(2))
        rows, inexact = np.zeros(len(sized.rows), np.int64), np.zeros(1, np.int64)
        own = {"$depths": depths, "$totals": totals, "$rows": rows, INEXACT: inexact}
        memory = {name: own[name] if name in own else arrays[name] for name in kernel.array_types()}
        executable.run(memory, {name: scalars[name] for name in kernel.scalar_types()}, Sizes(), Draws())
        if inexact[0]:
            raise Inexact
        return [*depths.tolist(), *totals.tolist(), *rows.tolist()]

    def _named(self, found: list[int]) -> Sizes:
        count = len(self._slots)
        capacities = {s.stack: d for s, d in zip(self._slots, found) if s.capacity is None}
        totals: Mapping[str, int] = {s.stack: t for s, t in zip(self._slots, found[count:])}
        rows = iter(found[2 * count :])
        needs = {(task, slab): next(rows) for task in range(len(self.kernel.tasks)) for slab in SLABS}
        return Sizes(capacities, needs, totals)
