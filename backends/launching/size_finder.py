"""Find adstack sizes from size expressions before a launch, on the host, by NumPy or by native code.

Native code for ranges is an ordinary kernel of the backend. It is made when a range is long, or when NumPy has spent as
much time on short ranges as making it takes, so that a program with a few launches compiles nothing for its sizes.
Where arrays are on a device, expressions without ranges read single elements by small copies; other expressions are
left to the counting kernel, which runs on the device, unless they depend on no elements of arrays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...compiler.analysis.intervals import INFINITY
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.nodes import StackAlloca
from ...compiler.ir.walk import walk_kernel
from ...compiler.sizing.evaluate import InexactSizes, TooManyPoints, sizes
from ...compiler.sizing.expressions import walk
from ...compiler.sizing.host import host_function
from ...compiler.sizing.sizes import KernelSizes
from ...compiler.sizing.stored_sizes import StoredSizes
from ...compiler.sizing.to_kernel import INEXACT, size_kernel
from ..base import SLABS, Arrays, Backend, Draws, Executable, Options, Remote, Scalars, Sizes

BREAK_EVEN = 0.02
"""Seconds of NumPy after which native code is made."""

LONG = 1 << 15
"""Number of points of ranges up to which NumPy is fast enough."""


SMALL = 1 << 16
"""Greatest size in bytes of an array that is copied as a whole when more than one of its elements is looked at."""


class _DeviceArray:
    """Provide shape and elements of a device array to size expressions; each element is read from the device once."""

    __slots__ = ("array", "remote", "shape", "_known", "_copy")

    def __init__(self, array: np.ndarray, remote: Remote) -> None:
        self.array, self.remote, self.shape = array, remote, array.shape
        self._known: dict[tuple[int, ...], Any] = {}
        self._copy: np.ndarray | None = None

    def item(self, place: tuple[int, ...]) -> Any:
        """Return the element of the device array at the indices `place` as a Python number."""
        if place not in self._known:
            self._known[place] = self._read(place)
        return self._known[place]

    def _read(self, place: tuple[int, ...]) -> Any:
        """Return an element, read from the device; at the second read, a small array is copied to the host whole."""
        if self._copy is None and self._known and self.array.nbytes <= SMALL:
            self._copy = self.remote.fetch(self.array)
        return self.remote.item(self.array, place) if self._copy is None else self._copy.item(place)


class DeviceArrays(Mapping[str, Any]):
    """Provide the device arrays of a launch, by name, to size expressions."""

    def __init__(self, arrays: Arrays, remote: Remote) -> None:
        self._arrays, self._remote = arrays, remote
        self._seen: dict[str, _DeviceArray] = {}

    def __getitem__(self, name: str) -> _DeviceArray:
        if name not in self._seen:
            self._seen[name] = _DeviceArray(self._arrays[name], self._remote)
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def reads_elements(sized: KernelSizes) -> bool:
    """Return True if the size of an adstack depends on elements of an array."""
    return any(e.kind == "read" for x in sized.expressions for e in walk(x))


class SizeFinder:
    """Find the adstack sizes of a kernel from its size expressions, by NumPy or by compiled code.

    Attributes:
        kernel: kernel whose adstacks are sized
        kept: size expressions of the kernel, as the lowering stores them
        backend: backend that compiles ranges of size expressions
        options: options for native code
        seconds: seconds spent in code generation
        is_remote: True if arrays are on a device
        break_even: seconds of NumPy after which native code is made
    """

    def __init__(self, kernel: Kernel, kept: StoredSizes, backend: Backend, options: Options) -> None:
        self.kernel = kernel
        self.kept = kept
        self.backend = backend
        self.options = replace(options, debug=False)
        self.seconds = 0.0
        self.is_remote = isinstance(backend, Remote)
        self.break_even = BREAK_EVEN if backend.name != "reference" and not self.is_remote else INFINITY
        self._spent = 0.0
        self._sized: KernelSizes | None = None
        self._native: tuple[Kernel, Executable] | None = None

    def find(self, arrays: Arrays, scalars: Scalars) -> Sizes | None:
        """Return the adstack sizes for these arguments, or None if the counting kernel must find them.

        That is so if the expressions do not describe this state, or cannot be evaluated on the host at small cost. On a
        device, `arrays` is a `DeviceArrays`.
        """
        sized = self._sized
        if sized is None:
            sized = self.kept.sized()
            self._host = host_function(sized)
            self._slots = [s for s in walk_kernel(self.kernel) if isinstance(s, StackAlloca)]
            # This assignment is the last, because other threads look for it.
            self._sized = sized
        found = self._find(sized, arrays, scalars)
        return None if found is None else self._named(found)

    def _find(self, sized: KernelSizes, arrays: Arrays, scalars: Scalars) -> list[int] | None:
        """Return depths, totals and numbers of rows as one list, or None if the size expressions are not valid."""
        try:
            if self._host is not None:
                return self._host(arrays, scalars)
            if self.is_remote and reads_elements(sized):
                return None
            if self._spent >= self.break_even:
                return self._run(sized, arrays, scalars)
            begin = time.perf_counter()
            found = sizes(sized, arrays, scalars, LONG if self.break_even < INFINITY else INFINITY)
            self._spent += time.perf_counter() - begin
            return found
        except TooManyPoints:
            self.break_even = 0.0
            return self._find(sized, arrays, scalars)
        except InexactSizes:
            return None

    def _run(self, sized: KernelSizes, arrays: Arrays, scalars: Scalars) -> list[int]:
        """Return the depths, totals and rows that native code computes from the size expressions, as one list."""
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
            raise InexactSizes
        return [*depths.tolist(), *totals.tolist(), *rows.tolist()]

    def _named(self, found: list[int]) -> Sizes:
        """Return the computed numbers as Sizes: depths and totals by adstack, numbers of rows by task and slab."""
        count = len(self._slots)
        capacities = {s.stack: d for s, d in zip(self._slots, found) if s.capacity is None}
        totals: Mapping[str, int] = {s.stack: t for s, t in zip(self._slots, found[count:])}
        rows = iter(found[2 * count :])
        needs = {(task, slab): next(rows) for task in range(len(self.kernel.tasks)) for slab in SLABS}
        return Sizes(capacities, needs, totals)
