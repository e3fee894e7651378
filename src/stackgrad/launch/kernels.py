"""Define kernels, which are Python functions that are traced and compiled at their first call.

Invariant: a call launches only a program that was traced under the present settings, on fields that still exist.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ..compiler.errors import warn
from ..compiler.ir.kernels import Kernel as KernelIR
from ..runtime.session import RUNTIME
from ..runtime.tracing import definition_span, frontend_options, trace_function
from ..runtime.usage_errors import ArgumentError, KernelWarning, OptionError
from .call_cache import CallCache
from .calls import Call
from .callsites import CallSite
from .classes import BoundKernel
from .constant_launches import CONSTANT
from .shared_traces import places_of
from .specializations import TRACING
from .statistics import KernelStats, stats_of
from .text_kernels import TextKernel, kernel_from_text

if TYPE_CHECKING:
    from ..backends.launching.launcher import LoweringLike
    from ..compiler.frontend.reads import Read
    from ..compiler.frontend.trace import Traced
    from .call_cache import Entry
    from .program import Binding, Program
    from .specializations import Specialization

__all__ = [
    "TRACING",
    "Kernel",
    "KernelStats",
    "KernelWarning",
    "TextKernel",
    "definition_span",
    "kernel",
    "kernel_from_text",
    "trace_function",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)


_CALLS = ("__call__", "grad")
"""Slots that stand for methods of a kernel; type checkers see the methods."""


class Kernel(Generic[P, R]):
    """Represent a kernel made of a Python function: `k(*args)` launches it, and `k.grad(*args)` its gradient.

    The function is traced at the first call after `init`, and again for each other kind of arguments: arrays of another
    type or rank, other templates. Then the located errors of the compiler are raised. Arguments that do not fit raise a
    CallError at the `def` of the function. In a class the kernel is a method: `obj.k(...)`, `obj.k.grad(...)`.

    If `is_constant` is True, its launches are constant to derivatives, and its gradient is empty; see `sg.ad.no_grad`.

    Invariant: `__call__` and `grad` are attributes that hold a function: a call runs no other Python code before it.
    """

    __slots__ = (
        "__wrapped__",
        "__name__",
        "_method",
        "_cache",
        "_unfinished",
        "_forward",
        "_reverse",
        "is_constant",
        *_CALLS,
    )
    is_stackgrad_kernel = True

    def __init__(self, function: Callable[P, R], is_constant: bool = False) -> None:
        self.__wrapped__ = function
        self.is_constant = is_constant
        self.__name__ = getattr(function, "__name__", "kernel")
        self._method = False
        self._cache: CallCache | None = None
        self._unfinished: CallCache | None = None
        self._forward, self._reverse = CallSite(self, False), CallSite(self, True)
        self.direct(False, self._forward.first)
        self.direct(True, self._reverse.check if is_constant else self._reverse.first)

    def constant(self) -> Kernel[P, R]:
        """Return a kernel of the same function whose results are constants for derivatives."""
        made = Kernel(self.__wrapped__, is_constant=True)
        made._method = self._method
        return made

    @staticmethod
    def from_text(text: str) -> TextKernel:
        """Return a kernel made of IR text, as `kernel_from_text` does."""
        return kernel_from_text(text)

    def __repr__(self) -> str:
        return f"<sg.kernel {self.__name__}>"

    def __set_name__(self, owner: type, name: str) -> None:
        self._method = True

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Kernel[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> BoundKernel[Q, R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundKernel(self, instance)

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
            """Launch the kernel once. Return its result, or None if it returns nothing."""

        def grad(self, *args: P.args, **keywords: P.kwargs) -> None:
            """Launch the gradient with the present contents of all fields.

            On entry `y.grad`, of each array y that the kernel writes, holds the cotangents. The gradient adds the
            derivative to `x.grad` of each array x that the kernel reads, and sets `y.grad` of elements that it
            overwrites to 0. Raises NotDifferentiable and Unsupported, located.
            """

    def direct(self, is_grad: bool, function: Callable[..., Any]) -> None:
        """Make `function` the implementation of all further calls of the kernel, or of its gradient if `is_grad`."""
        object.__setattr__(self, _CALLS[is_grad], function)

    def bind(self, args: tuple[Any, ...]) -> tuple[Specialization, Binding, dict[str, Any]] | None:
        """Return the specialization, binding and scalar arguments of a call without launching it.

        The result is None if the kernel takes only numbers.

        Returns:
            The specialization, the binding of its program to the arrays of the call, and the scalar arguments by name.
        """
        cache = self.cache()
        if cache.takes_numbers:
            return None
        entry, call, binding = self._forward.bind(cache, args)
        return entry.special, binding, dict(zip(entry.special.scalars, call.scalars))

    # -- what the compiler made -----------------------------------------------------------------------------

    def ir(self) -> KernelIR:
        """Return the source IR of the kernel, traced on demand."""
        return self.program().kernel

    def lowered(self) -> LoweringLike:
        """Return the lowering of the kernel for forward launches."""
        return self.program().forward().lowered

    def lowered_grad(self) -> LoweringLike:
        """Return the lowering of the kernel's gradient."""
        return self.program().reverse().lowered

    def program(self) -> Program:
        """Return the program of the kernel, traced on demand; if it depends on arguments, that of the last launch."""
        cache = self.cache()
        if cache.takes_numbers:
            return cache.entry((), Call()).special.program
        if cache.last is None:
            raise ArgumentError(
                f"kernel {self.__name__} is traced for its arguments, and was not launched", "launch it before"
            )
        return cache.last.program

    @property
    def programs(self) -> tuple[Program, ...]:
        """Return all programs traced under the present settings, one for each combination of argument types."""
        return tuple(entry.special.program for entry in self._entries(lambda cache: cache.entries.values()))

    def stats(self) -> KernelStats:
        """Return the counts of launches and countings and the compile time, summed over all specializations."""
        return stats_of(entry.special.program for entry in self._entries(lambda cache: cache.all))

    def _entries(self, take: Callable[[CallCache], Iterable[Entry]]) -> Iterable[Entry]:
        """Return the entries that `take` selects from the call cache; none if no launch has used these settings."""
        cache = self._cache
        return take(cache) if cache is not None and cache.generation == RUNTIME.generation else ()

    # -- tracing --------------------------------------------------------------------------------------------

    def cache(self) -> CallCache:
        """Return the cache of specializations and calls under the present settings."""
        cache = self._cache
        return cache if cache is not None and cache.generation == RUNTIME.generation else self._begin()

    def _begin(self) -> CallCache:
        """Return the call cache for the present settings; create it if there is none, under a lock.

        A kernel whose parameters are all numbers is traced now; other kernels are traced for the arguments of a call.
        """
        RUNTIME.ensure()
        with TRACING:
            old = self._cache
            if old is not None and old.generation == RUNTIME.generation:
                return old
            made = self._unfinished
            if made is None or made.generation != RUNTIME.generation:
                made = self._new_cache()
            if made.takes_numbers or made.is_faulty:
                # A cache that remembers why its trace failed is used again, unless an annotation may be why.
                self._unfinished = None if made.is_faulty else made
                made.entry((), Call())
            if old is not None:
                old.clear()
            self._forward.begin()
            self._reverse.begin()
            self._cache, self._unfinished = made, None
            return made

    def _new_cache(self) -> CallCache:
        """Return a call cache for the present settings, without an entry."""
        from ..compiler.frontend.parameters import parameters_of
        from ..compiler.frontend.returns import returns_value
        from ..compiler.frontend.source import read_source

        function: Any = self.__wrapped__
        span, options = definition_span(function), frontend_options()
        read_source(function)
        parameters = parameters_of(function, options, self._method)
        takes_numbers = {p.kind for p in parameters} <= {"scalar"} and not returns_value(function)
        place = places_of(function, self.is_constant, self._method)
        return CallCache(self.__name__, parameters, options, span, self._traced, self.is_constant, takes_numbers, place)

    def _traced(self, given: Mapping[str, Any], reads: list[Read]) -> Traced:
        """Trace the kernel with the given stand-ins for parameters, issue the warnings, and return the trace."""
        traced = trace_function(self.__wrapped__, given, reads)
        for warning in traced.warnings:
            warn(warning.render(), KernelWarning)
        return traced


@overload
def kernel(function: Callable[P, R], /) -> Kernel[P, R]: ...
@overload
def kernel(
    *, pure: bool = ..., fastcache: bool = ..., graph: bool = ...
) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
# Users see the overloads; an option may be anything, because it is ignored.
def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Turn a Python function into a kernel; use it as a decorator, also for methods of a class.

    The options pure, fastcache and graph are accepted without effect: every compiled kernel is kept on disk, and a
    launch means the same whether or not a device records it. Another option raises OptionError.
    """
    for name in options:
        if name not in ("pure", "fastcache", "graph"):
            raise OptionError(f"sg.kernel has no option {name!r}", "its options are pure, fastcache and graph")
    frame = sys._getframe(1)
    if function is None:
        return lambda found: _made(found, frame)
    return _made(function, frame)


def _made(function: Callable[..., Any], frame: FrameType | None) -> Kernel[..., Any]:
    """Return the kernel of a function; it is constant to derivatives if `sg.ad.no_grad` decorates the function."""
    call, inner = getattr(function, CONSTANT, (None, function))
    is_constant = call is function
    return Kernel(_resolved(inner if is_constant else function, frame), is_constant)


def _resolved(function: Callable[..., Any], frame: FrameType | None) -> Callable[..., Any]:
    """Return a function whose annotations that are strings were evaluated in the scope of its definition.

    In a module that keeps annotations as text, the names of local classes and types could not be found later.
    """
    texts = {name: text for name, text in getattr(function, "__annotations__", {}).items() if isinstance(text, str)}
    while texts and frame is not None and frame.f_locals is not frame.f_globals:
        for name, text in list(texts.items()):
            with suppress(Exception):
                function.__annotations__[name] = eval(text, frame.f_globals, frame.f_locals)
                del texts[name]
        frame = (
            frame.f_back if "__qualname__" in frame.f_locals else None
        )  # A class body also sees the names around it.
    return function
