"""Launch one lowered kernel on one backend: compile it at the first launch, and size its adstacks before each launch.

Invariant: a launch runs with the sizes of exactly this state; size expressions give them where they are exact, else the
counting kernel. A size is reused only if everything that the counting kernel loads has the version it had then, and its
scalars and shapes are the same.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ...compiler.errors import AdstackOverflow, Refusals, StackgradError
from ...compiler.ir.kernels import Kernel
from ..base import Arrays, Backend, Draws, Executable, Options, Remote, Scalars, Sizes
from ..words import CACHE_HITS, LAST, LAUNCHES
from .adstack_usage import SlabUse, describe, describe_overflow, find_uses
from .extents import iterations
from .launch_collectors import execute
from .launch_stats import LaunchStats
from .lowered import LoweringLike
from .prelaunch import NO_DRAWS, NO_SIZES, CountingLaunch, MarkingLaunch, PreLaunch
from .size_finder import DeviceArrays, SizeFinder
from .wrapping_bounds import ProductChecks

__all__ = ["NO_DRAWS", "Launcher", "LoweringLike"]

_KEPT_SIZES = 1024
"""Number of sizes kept per kernel; a program that steps through time asks for one per step, forward and back."""


class Launcher:
    """Launch one lowered kernel on one backend; `run` is the only way to launch, and several threads may call it.

    Attributes:
        bound_arrays: names of the arrays whose contents decide the sizes
        versioned: these names and those of arrays that decide whether the kernel is right, in the order of the versions
            for `run`
        stats: counters of this launcher
    """

    def __init__(self, lowered: LoweringLike, backend: Backend, options: Options) -> None:
        self.lowered = lowered
        self.kernel: Kernel = lowered.kernel
        self.backend = backend
        self.options = options
        self.stats = LaunchStats()
        self.bound_arrays: tuple[str, ...] = ()
        self._executable: Executable | None = None
        self._ran: tuple[Mapping[str, weakref.ref[np.ndarray]], Scalars, Draws] = {}, {}, NO_DRAWS
        self._remote: Remote | None = backend if isinstance(backend, Remote) else None
        self._counting = None if lowered.counting is None else CountingLaunch(lowered, backend, options)
        self._finder = None if lowered.sizes is None else SizeFinder(lowered.kernel, lowered.sizes, backend, options)
        self._sizes: dict[object, Sizes] = {}
        self._refusals = Refusals()
        self._last = self._fitting = NO_SIZES
        self._source = "fixed"
        self._standing: dict[int, Sizes] = {}
        self._debug = os.environ.get("STACKGRAD_DEBUG_ADSTACK", "0") not in ("", "0")
        if self._counting is not None:
            self.bound_arrays = self._counting.loads
        self._marks = None if lowered.marking is None else MarkingLaunch(lowered.marking, backend, options)
        self._claims = None if lowered.claims is None else MarkingLaunch(lowered.claims, backend, options)
        self._clear: dict[object, None] = {}
        self._products = ProductChecks(lowered.kernel)
        marked = () if self._marks is None else self._marks.loads
        self.versioned = (*self.bound_arrays, *(name for name in marked if name not in self.bound_arrays))

    def run(
        self,
        arrays: Arrays,
        scalars: Scalars,
        draws: Draws = NO_DRAWS,
        versions: tuple[int, ...] | None = None,
        verified: bool = False,
    ) -> None:
        """Launch the kernel once on these arrays, which it modifies in place.

        Args:
            arrays: arrays by name
            scalars: scalar arguments by name
            draws: key of the random numbers
            versions: version of each array of `versioned`, a number that no other contents of any array have; None if
                the
                caller keeps no versions: then the stacks are counted before every launch
            verified: True if `verify` has seen this state

        Raises:
            StackgradError: what `Executable.run` and `verify` raise
        """
        executable = self._executable or self.compile()
        self._products.check(arrays, scalars)
        if self._marks is not None and not verified:
            self.verify(arrays, scalars, draws, versions)
        self.stats.words[LAUNCHES] += 1
        if self._counting is None and not self._debug:
            execute(executable, arrays, scalars, NO_SIZES, draws)
        else:
            self._run_sized(executable, arrays, scalars, draws, versions)
        if self._claims is not None:
            self.stats.markings += 1
            self._claims.look(arrays, scalars, draws)

    def _run_sized(
        self, executable: Executable, arrays: Arrays, scalars: Scalars, draws: Draws, versions: tuple[int, ...] | None
    ) -> None:
        """Find the adstack sizes for these arguments, launch, and add an explanation to an adstack overflow."""
        sizes = self._find_sizes(arrays, scalars, draws, versions)
        if self._counting is not None and sizes is not self._fitting:
            self._counting.refuse_beyond(sizes, self._source == "counted")
            self._fitting = sizes
        if self._debug:
            for use in self.usage():
                print(describe(use), file=sys.stderr)
        if self._remote is not None:
            self._ran = {name: weakref.ref(array) for name, array in arrays.items()}, dict(scalars), draws
        try:
            execute(executable, arrays, scalars, sizes, draws, self.usage)
        except AdstackOverflow as overflow:
            # A remote backend has explained the overflow already, and it may belong to an earlier launch.
            if self._remote is not None:
                raise
            raise self.explain(overflow, sizes, arrays, scalars, draws) from overflow

    def _explain_late(self, overflow: AdstackOverflow) -> AdstackOverflow:
        """Return the error for an overflow found after its launch returned, with the capacities that were needed."""
        arrays, scalars, draws = self._ran
        alive = {name: array for name, held in arrays.items() if (array := held()) is not None}
        return self.explain(overflow, self._last, alive, scalars, draws)

    def verify(
        self, arrays: Arrays, scalars: Scalars, draws: Draws = NO_DRAWS, versions: tuple[int, ...] | None = None
    ) -> None:
        """Raise NotDifferentiable if the marking kernel finds that the gradient would be wrong for these arguments.

        Arguments are those of `run`. A state that was clear is not looked at again.
        """
        marks = self._marks
        if marks is None:
            return
        key = marks.key(arrays, scalars, draws, versions)
        if key is not None and key in self._clear:
            return
        self.stats.markings += 1
        marks.look(arrays, scalars, draws)
        if key is not None:
            if len(self._clear) >= _KEPT_SIZES:
                self._clear.pop(next(iter(self._clear)), None)
            self._clear[key] = None

    def compile(self) -> Executable:
        """Return the executable, compiled at the first call."""
        if self._executable is None:
            begin = time.perf_counter()
            self._executable = self._refusals.once("compile", lambda: self.backend.compile(self.kernel, self.options))
            self.stats.compile_seconds += time.perf_counter() - begin
            if self._remote is not None:
                self._executable.on_overflow(weakref.WeakMethod(self._explain_late))  # type: ignore[attr-defined]
        return self._executable

    def _find_sizes(self, arrays: Arrays, scalars: Scalars, draws: Draws, versions: tuple[int, ...] | None) -> Sizes:
        """Return the adstack sizes for these arguments, from the cache of sizes if it has them."""
        counting = self._counting
        if counting is None:
            return NO_SIZES
        key = counting.key(arrays, scalars, draws, versions)
        known = None if key is None else self._sizes.get(key)
        if known is not None:
            self.stats.words[CACHE_HITS] += 1
            self._use(known, "cached")
            return known
        with self._looking():
            sizes, source = self._look(counting, arrays, scalars, draws)
        if key is not None:
            if len(self._sizes) >= _KEPT_SIZES:
                self._sizes.pop(next(iter(self._sizes)), None)
            self._sizes[key] = sizes
        self._use(sizes, source)
        return sizes

    def _look(self, counting: CountingLaunch, arrays: Arrays, scalars: Scalars, draws: Draws) -> tuple[Sizes, str]:
        """Return the adstack sizes for these arguments, and the way they were found: `expression` or `counted`."""
        remote = self._remote
        seen: Any = arrays if remote is None else DeviceArrays(arrays, remote)
        sizes = self._evaluate(seen, scalars)
        source = "expression" if sizes is not None else "counted"
        sizes = sizes if sizes is not None else self._count(counting, arrays, scalars, draws)
        if remote is not None:
            # A device has rows for all iterations at once, so their number matters there.
            shapes = {name: array.shape for name, array in arrays.items()}
            found = iterations(self.kernel, shapes, scalars, lambda name, place: seen[name].item(place))
            sizes = replace(sizes, iterations=found)
        return sizes, source

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """Count the waits for the device and the readbacks of the `with` block in the launcher's statistics."""
        if self._remote is None:
            yield
            return
        counters, stats = self._remote.counters, self.stats
        waits, readbacks = counters.waits, counters.readbacks
        try:
            yield
        finally:
            stats.waits += counters.waits - waits
            stats.readbacks += counters.readbacks - readbacks

    def _evaluate(self, arrays: Arrays, scalars: Scalars) -> Sizes | None:
        """Return the adstack sizes that size expressions give, or None if none are valid for the arguments."""
        finder = self._finder
        if finder is None:
            return None
        before = finder.seconds
        sizes = finder.find(arrays, scalars)
        self.stats.evaluations += sizes is not None
        self.stats.compile_seconds += finder.seconds - before
        return sizes

    def _count(self, counting: CountingLaunch, arrays: Arrays, scalars: Scalars, draws: Draws) -> Sizes:
        """Return the adstack sizes that a run of the counting kernel finds."""
        if counting.executable is None:
            begin = time.perf_counter()
            counting.compile()
            self.stats.compile_seconds += time.perf_counter() - begin
        self.stats.countings += 1
        return counting.count(arrays, scalars, draws)

    def measure(self, arrays: Arrays, scalars: Scalars, draws: Draws = NO_DRAWS) -> list[SlabUse]:
        """Return the adstack memory that a launch on these arrays would need, without launching the kernel itself."""
        self._find_sizes(arrays, scalars, draws, None)
        return self.usage()

    # -- native launches ------------------------------------------------------------------------------------

    @property
    def is_sized(self) -> bool:
        """Return True if the adstacks of the kernel must be sized before each launch."""
        return self._counting is not None

    @property
    def deciding_scalars(self) -> frozenset[str]:
        """Return the scalar arguments that can change the adstack sizes or the outcome of checks before a launch."""
        return self._products.scalars.union(*[one.scalars for one in self._slices])

    @property
    def deciding_shapes(self) -> frozenset[str]:
        """Return the arrays whose extents can change the adstack sizes or the outcome of checks before a launch."""
        return self._products.shapes.union(*[one.shapes for one in self._slices])

    @property
    def _slices(self) -> list[PreLaunch]:
        """Return the counting kernel and the marking kernel of this launcher, as far as it has them."""
        return [one for one in (self._counting, self._marks) if one is not None]

    def known_sizes(self, arrays: Arrays, scalars: Scalars, versions: tuple[int, ...] | None) -> Sizes | None:
        """Return the adstack sizes for these arguments if they are cached or constant, and None if they are not.

        The result is None also if checks must run before the launch. Only `versioned`, `deciding_scalars` and
        `deciding_shapes` can change these sizes.
        """
        if self._debug or self._claims is not None or any(one.draws for one in self._slices):
            return None
        if self._marks is not None and self._marks.key(arrays, scalars, NO_DRAWS, versions) not in self._clear:
            return None
        if self._counting is None:
            return NO_SIZES
        key = self._counting.key(arrays, scalars, NO_DRAWS, versions)
        return None if key is None else self._sizes.get(key)

    def stand(self, number: int, sizes: Sizes | None) -> None:
        """Register the adstack sizes of ready launch `number`; if `sizes` is None, unregister that ready launch."""
        if sizes is not None:
            self._standing[number] = sizes
            return
        if self.stats.words[LAST] == number:
            self._use(self._standing[number], "cached")
        self._standing.pop(number, None)

    def _use(self, sizes: Sizes, source: str) -> None:
        """Record the adstack sizes of the last launch, with the word for how they were found (`counted` and others)."""
        self._last, self._source = sizes, source
        self.stats.words[LAST] = 0

    # -- reports --------------------------------------------------------------------------------------------

    @property
    def growths(self) -> int:
        """Return the number of launches that made the adstack heap larger."""
        return 0 if self._executable is None else self._executable.growths

    def usage(self) -> list[SlabUse]:
        """Return the adstack memory that the last launch needed, by task and slab; empty without adstacks."""
        # A native launch tells only its number.
        standing = self._standing.get(self.stats.words[LAST])
        if standing is not None and self._counting is not None:
            self._use(standing, "cached")
        return find_uses(self.kernel, self._last, self._source, self.backend, self.options)

    def explain(
        self, overflow: AdstackOverflow, sizes: Sizes, arrays: Arrays, scalars: Scalars, draws: Draws = NO_DRAWS
    ) -> AdstackOverflow:
        """Return an overflow error with each adstack's capacity and, if it can be counted again, the one needed."""
        # No size is trusted any longer.
        self._sizes.clear()
        needed: Mapping[str, int] = {}
        if self._counting is not None:
            # An array may be gone.
            with suppress(StackgradError, KeyError):
                needed = self._counting.count(arrays, scalars, draws).capacities
        self._use(sizes, self._source)
        lines = [str(overflow), *describe_overflow(self.kernel, sizes, needed)]
        return AdstackOverflow("\n".join(lines))
