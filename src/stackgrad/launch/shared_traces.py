"""Share the traces of kernels that programs define anew, such as kernels inside a function that is called again.

Two such kernels are equal if their functions have the same code, equal defaults, annotations and closures, and find
equal objects under their global names. Fields are compared by identity. Invariant: a shared trace keeps alive neither
the kernels nor their fields, only code, numbers and texts; at most `_MOST` traces are kept, all of the present
generation of the runtime.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ..compiler.ad.policies import policy_of
from ..compiler.frontend.functions import Func
from ..compiler.frontend.protocols import ArgumentArray
from ..data.fields.array import Array
from ..runtime.fresh_objects import FreshObjects
from ..runtime.guards import guards_with, hold
from ..runtime.repeated_reads import repetition_of
from ..runtime.session import RUNTIME
from .equal_objects import Content, Roots
from .kept_draws import KeptDraws
from .prepared import Reference, reference

if TYPE_CHECKING:
    from ..compiler.frontend.reads import Read
    from ..compiler.frontend.trace import Traced
    from .program import Program

_MOST = 128


class _SharedTrace:
    """Hold a trace of a kernel and its compiled code, without the Python objects that the trace read.

    Args:
        function: The function of the kernel.
        content: The key by which the parts of the function are compared.
        owners: Objects among the arguments whose identity is part of the key.
        program: The program that was compiled.
        traced: The trace.
    """

    def __init__(
        self, function: FunctionType, content: Content, owners: Sequence[Any], program: Program, traced: Traced
    ) -> None:
        self._roots = Roots()
        fresh = FreshObjects(self._roots.reaches(content))
        self._guards = self._roots.ask((function,), lambda: guards_with(traced.reads, fresh))
        self._repetitions = [repetition_of(read, fresh) for read in traced.reads]
        self.is_whole = not fresh.has_copies and not traced.warnings
        self._program, self._bare = program, replace(traced, arrays={}, reads=())
        self._arrays = {name: _weakly(array) for name, array in traced.arrays.items()}
        self._lasting = [reference(one) for one in (*content.lasting, *owners)]
        self._codes = _codes_of(traced.reads)

    @property
    def is_alive(self) -> bool:
        """Return True if all objects that are compared by identity are alive."""
        return all(refer() is not None for refer in (*self._arrays.values(), *self._lasting))

    def of(self, function: FunctionType, lasting: Sequence[Any]) -> tuple[Program, Traced] | None:
        """Return the program and the trace for an equal function, or None if tracing it would read different values.

        Args:
            function: The function.
            lasting: The objects in the function and its arguments that are compared by identity, in order.
        """
        if any(refer() is not one for refer, one in zip(self._lasting, lasting, strict=True)):
            return None
        arrays = {name: refer() for name, refer in self._arrays.items()}
        try:
            for array in arrays.values():
                if isinstance(array, Array):
                    array.check_alive()
            reads = self._roots.ask((function,), self._again)
        # Code of the program may raise anything. The trace that follows raises it again and shows its line.
        except Exception:
            return None
        if reads is None:
            return None
        return _renewed(self._program), replace(self._bare, arrays=arrays, reads=reads)

    def _again(self) -> tuple[Any, ...] | None:
        """Repeat the reads of the trace and return them; None if a guard fails or a function has got other code."""
        functions = [(refer(), code) for refer, code in self._codes]
        if not hold(self._guards) or any(one is not None and one.__code__ is not code for one, code in functions):
            return None
        return tuple([again() for again in self._repetitions])


def _codes_of(reads: Iterable[Read]) -> list[tuple[Reference, CodeType]]:
    """Return the functions that a trace found under names, with their code, which a reload of a module may replace."""
    found = [read.found.function if isinstance(read.found, Func) else read.found for read in reads]
    return [(reference(one), one.__code__) for one in found if isinstance(one, FunctionType)]


def _renewed(program: Program) -> Program:
    """Return a program with the same compiled code, but without records of the launches of the given program."""
    made = copy(program)
    made.draws, made.orderings, made.guards = KeptDraws(), {}, ()
    return made


def _weakly(array: object) -> Callable[[], Any]:
    """Return a weak reference to a field; the stand-in of an argument has no memory and is kept."""
    return (lambda: array) if isinstance(array, ArgumentArray) else reference(array)


class TracePlace:
    """Represent the position of one trace of a kernel in the store of traces that equal kernels share.

    Args:
        function: The function of the kernel.
        key: A key that differs for each trace of the function.
        owners: Objects whose identity is part of the key.
    """

    __slots__ = ("_function", "_owners", "_content", "_key")

    def __init__(self, function: FunctionType, key: Hashable, owners: Sequence[Any]) -> None:
        content = Content((function,), has_fields=True)
        self._function, self._owners = function, owners
        self._content = content if content.is_compared and all(map(_may_die, content.lasting)) else None
        self._key = content.key, key, policy_of("").name

    def find(self) -> tuple[Program, Traced] | None:
        """Return the program and the trace that an equal kernel stored at this position, or None if there are none."""
        shared = RUNTIME.traces.get(self._key)
        if shared is None or self._content is None:
            return None
        found: tuple[Program, Traced] | None = shared.of(self._function, (*self._content.lasting, *self._owners))
        return found

    def keep(self, program: Program, traced: Traced) -> None:
        """Store a new trace for equal kernels; if there are too many traces, drop the oldest."""
        if self._content is None:
            return
        made, traces = _SharedTrace(self._function, self._content, self._owners, program, traced), RUNTIME.traces
        for key in [key for key, one in traces.items() if not one.is_alive]:
            del traces[key]
        traces.pop(self._key, None)
        if made.is_whole:
            if len(traces) >= _MOST:
                del traces[next(iter(traces))]
            traces[self._key] = made


def _may_die(found: Any) -> bool:
    """Return True if a part that is compared by identity can be referred to weakly."""
    return isinstance(reference(found), weakref.ref)


Places = Callable[[Hashable, Sequence[Any]], TracePlace]
"""A function that finds the place of a trace, given its key and the objects that the key identifies."""


def places_of(function: Any, is_constant: bool, is_method: bool) -> Places | None:
    """Return a function that finds the position in the store of traces that this kernel shares with equal kernels.

    The result is None for a kernel that is not defined inside a function: a program defines it only once.

    Args:
        function: The function of the kernel.
        is_constant: True if launches of the kernel are constant to derivatives.
        is_method: True if the kernel is defined in a class.
    """
    if not isinstance(function, FunctionType) or "<locals>" not in function.__qualname__:
        return None
    return lambda key, owners: TracePlace(function, (is_constant, is_method, key), owners)
