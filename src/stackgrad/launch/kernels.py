"""Define kernels: Python functions that are traced at their first call.

Invariant: what a call launches was traced under the present settings, on live fields.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ..compiler.errors import StackgradError, warn
from ..compiler.ir.nodes import Kernel as KernelIR
from ..compiler.ir.nodes import Param
from ..data.leaves import Misfit
from ..runtime.guards import hold
from ..runtime.session import RUNTIME
from ..runtime.streams import KEYWORD, on, without_stream
from ..runtime.tracing import definition_span, frontend_options, trace_function
from ..runtime.usage import ArgumentError, KernelWarning, OptionError
from .arguments import Signature
from .classes import BoundKernel
from .constant import CONSTANT
from .native import Native, Situation
from .program import Binding, Program
from .specialise import TRACING, Specialisation, Specialisations
from .statistics import KernelStats, stats_of
from .text_kernels import TextKernel, kernel_from_text

if TYPE_CHECKING:
    from ..backends.base import Arrays, Scalars
    from ..backends.launching.launcher import Lowered
    from ..compiler.frontend.trace import Traced

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
    """A kernel made of a Python function: `k(*args)` launches it, `k.grad(*args)` launches its gradient.

    The function is traced at the first call after `init`, and again for each other kind of arguments: arrays of another
    type or rank, other templates. Then the located errors of the compiler are raised. Arguments that do not fit raise a
    KernelTypeError at the `def` of the function. In a class the kernel is a method: `obj.k(...)`, `obj.k.grad(...)`.

    is_constant: derivatives take its launches for constant, and its gradient is empty; see `sg.ad.no_grad`.

    Invariant: `__call__` and `grad` are slots: a call runs no Python code before the function that stands there.
    """

    __slots__ = (
        "__wrapped__",
        "__name__",
        "_method",
        "_generation",
        "_signature",
        "_special",
        "_binding",
        "_table",
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
        self._generation = -1
        self._signature: Signature | None = None
        self._special: Specialisation | None = None
        self._binding: Binding | None = None
        self._table: Specialisations | None = None
        self._forward, self._reverse = Native(), Native()
        self._set("__call__", self._first_call)
        self._set("grad", self._launch_nothing if is_constant else self._first_call_grad)

    def constant(self) -> Kernel[P, R]:
        """Return a kernel of the same function that is constant to derivatives."""
        made = Kernel(self.__wrapped__, is_constant=True)
        made._method = self._method
        return made

    @staticmethod
    def from_text(text: str) -> TextKernel:
        """Return a kernel made of IR text; see `kernel_from_text`."""
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
            """Launch the gradient at the present content of all fields.

            Before, `y.grad` of what the kernel writes holds the cotangents. Afterwards `x.grad` of what it reads has
            grown by its share, and `y.grad` of what it overwrites is 0. Raises NotDifferentiable and Unsupported,
            located.
            """

    def _set(self, slot: str, function: Callable[..., Any] | None) -> None:
        """Send calls through a slot of `_CALLS` to this function from now on; None changes nothing."""
        if function is not None:
            object.__setattr__(self, slot, function)

    def _first_call(self, *args: Any, **keywords: Any) -> R:
        """Run a call, perhaps through the function that stood in the slot before a trampoline did."""
        return self._call(*args, **keywords) if self._forward.is_new else self(*args, **keywords)

    def _first_call_grad(self, *args: Any, **keywords: Any) -> None:
        """Run a call of the gradient, perhaps through what stood in the slot before a trampoline did."""
        (self._call_grad if self._reverse.is_new else self.grad)(*args, **keywords)

    def _launch_nothing(self, *args: Any, **keywords: Any) -> None:
        """Run the gradient of a constant kernel: check the arguments as a launch would, and do nothing else."""
        given = without_stream(keywords, is_gradient=True) if KEYWORD in keywords else keywords
        if self._ready() is None:
            self._table.check(args, given)  # type: ignore[union-attr]
        else:
            signature: Signature = self._signature  # type: ignore[assignment]
            signature.scalars(signature.positional(args, given) if given else args)

    def _call(self, *args: Any, **keywords: Any) -> R:
        """Run a call that nothing stands ready for, unless a standing launch with guards fits it."""
        guarded = self._forward.guarded
        if guarded is None or keywords or not guarded.holds(args):
            return self._call_slowly(*args, **keywords)
        return guarded.function(*args)  # type: ignore[misc]

    def _call_grad(self, *args: Any, **keywords: Any) -> None:
        """Run a call of the gradient that nothing stands ready for, unless a standing launch with guards fits it."""
        guarded = self._reverse.guarded
        if guarded is None or keywords or not guarded.holds(args):
            self._call_grad_slowly(*args, **keywords)
        else:
            guarded.function(*args)  # type: ignore[misc]

    def _call_slowly(self, *args: Any, **keywords: Any) -> R:
        """Launch from Python, after which calls like this one may be launched by machine code."""
        result = self._launch(args, keywords)
        if not keywords and self._forward.is_due():
            self._stand(self._forward, args, False)
        return result

    def _call_grad_slowly(self, *args: Any, **keywords: Any) -> None:
        """Launch the gradient from Python, after which calls like this one may be launched by machine code."""
        self._launch_grad(args, keywords)
        if not keywords and self._reverse.is_due():
            self._stand(self._reverse, args, True)

    def _stand(self, native: Native, args: tuple[Any, ...], is_grad: bool) -> None:
        """Let calls like this one be launched by machine code, if that is possible."""
        slowly = self._call_grad_slowly if is_grad else self._call_slowly
        if native.is_new:
            made = native.builtin(self._call_grad if is_grad else self._call, partial(self._fail, native, is_grad))
            self._set(_CALLS[is_grad], made)
        with suppress(StackgradError, Misfit):  # The call itself has succeeded, so no error may appear now.
            native.settle(self._situation(args, is_grad), slowly, lambda one: partial(self._fail, one, is_grad))

    def _fail(self, native: Native, is_grad: bool, *args: Any) -> None:
        """Raise the error of the standing launch that has just failed."""
        native.fail(lambda: self._memory(args, is_grad))

    def _launch(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> R:
        """Launch the kernel from Python. Return its result."""
        if KEYWORD in keywords:
            with on(keywords[KEYWORD]):
                return self(*args, **without_stream(keywords))  # type: ignore[call-arg, arg-type]
        binding = self._ready()
        if binding is None:
            return self._table.launch(args, keywords)  # type: ignore[union-attr,no-any-return]
        signature: Signature = self._signature  # type: ignore[assignment]
        self._special.check_alive()  # type: ignore[union-attr]
        binding.launch(signature.scalars(signature.positional(args, keywords) if keywords else args))
        return None  # type: ignore[return-value]

    def _launch_grad(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Launch the gradient from Python."""
        if KEYWORD in keywords:
            self.grad(*args, **without_stream(keywords, is_gradient=True))  # type: ignore[call-arg, arg-type]
            return
        binding = self._ready()
        if binding is None:
            self._table.launch_grad(args, keywords)  # type: ignore[union-attr]
            return
        signature: Signature = self._signature  # type: ignore[assignment]
        self._special.check_alive()  # type: ignore[union-attr]
        binding.launch_grad(signature.scalars(signature.positional(args, keywords) if keywords else args))

    def _bound(self, args: tuple[Any, ...]) -> tuple[Specialisation, Binding, dict[str, Any]]:
        """Return what a call launches; the call has no keywords and was launched before."""
        if self._special is not None and self._binding is not None:
            return self._special, self._binding, self._signature.scalars(args)  # type: ignore[union-attr]
        return self._table.bind(args)  # type: ignore[union-attr]

    def _situation(self, args: tuple[Any, ...], is_grad: bool) -> Situation | None:
        """Return the situation in which machine code can launch calls like this one, or None if it cannot."""
        from .situations import situation_of

        assert self._table is not None
        if len(args) != len(self._table.matchers):
            return None
        special, binding, _ = self._bound(args)
        side = special.program.reverse_side if is_grad else special.program.forward_side
        return situation_of(self._table.matchers, args, special, side, binding)

    def _memory(self, args: tuple[Any, ...], is_grad: bool) -> tuple[Arrays, Scalars]:
        """Return the arrays and the scalars of a call that was launched before."""
        special, binding, scalars = self._bound(args)
        return binding.prepare_grad().memory if is_grad else binding.memory, scalars

    def bind(self, args: tuple[Any, ...]) -> tuple[Specialisation, Binding, dict[str, Any]] | None:
        """Return what a call with arrays would launch, see `Specialisations.bind`; None if it takes numbers alone."""
        return None if self._ready() is not None else self._table.bind(args)  # type: ignore[union-attr]

    # -- what the compiler made -----------------------------------------------------------------------------

    def ir(self) -> KernelIR:
        """Return the kernel as traced."""
        return self.program.kernel

    def lowered(self) -> Lowered:
        """Return the lowering that a launch executes."""
        return self.program.forward.lowered

    def lowered_grad(self) -> Lowered:
        """Return the lowering that a launch of the gradient executes."""
        return self.program.reverse.lowered

    @property
    def program(self) -> Program:
        """Return the program of the kernel, traced if need be; with arrays or templates, the one launched last."""
        binding = self._ready()
        if binding is not None:
            return binding.program
        assert self._table is not None
        if self._table.last is None:
            raise ArgumentError(
                f"kernel {self.__name__} is traced for its arguments, and was not launched", "launch it before"
            )
        return self._table.last.program

    @property
    def programs(self) -> tuple[Program, ...]:
        """Return all programs traced under the present settings, one for each kind of arguments."""
        if self._generation != RUNTIME.generation:
            return ()
        if self._binding is not None:
            return (self._binding.program,)
        assert self._table is not None
        return tuple(special.program for special in self._table.found.values())

    def stats(self) -> KernelStats:
        """Return the counters of launches, countings and compilation, of all kinds of arguments together."""
        return stats_of(self.programs)

    # -- tracing --------------------------------------------------------------------------------------------

    def _ready(self) -> Binding | None:
        """Return the binding of a kernel of numbers alone, traced again if what it read from Python has changed."""
        if self._generation != RUNTIME.generation:
            self._prepare()
        elif self._special is not None and not hold(self._special.guards):
            self._generation = -1
            self._prepare()
        return self._binding

    def _prepare(self) -> None:
        """Trace under the present settings, in one thread at a time; a failure leaves the kernel untraced.

        A kernel of numbers alone is traced now, any other kernel for the arguments of each call.
        """
        RUNTIME.ensure()
        with TRACING:
            if self._generation == RUNTIME.generation:
                return
            from ..compiler.frontend.parameters import parameters_of
            from ..compiler.frontend.returns import returns_value
            from ..compiler.frontend.source import read_source

            function: Any = self.__wrapped__
            span, options = definition_span(function), frontend_options()
            read_source(function)
            parameters = parameters_of(function, options, self._method)
            kinds = {p.kind for p in parameters}
            table = Specialisations(self.__name__, parameters, options, span, self._traced, self.is_constant)
            self._forward.clear()
            self._reverse.clear()
            self._special, self._binding, self._table = None, None, table
            if "faulty" in kinds or kinds <= {"scalar"} and not returns_value(function):
                traced = self._traced({})
                params = [Param(a.name, a.type) for a in traced.arguments]
                self._signature = Signature(self.__name__, params, span, table.defaults)
                self._special = Specialisation(Program(traced.kernel, span, self.is_constant), traced)
                self._binding = self._special.binding([])
            self._generation = RUNTIME.generation

    def _traced(self, given: Mapping[str, Any]) -> Traced:
        """Return the trace of the kernel for what its parameters stand for, and show the warnings."""
        traced = trace_function(self.__wrapped__, given)
        for warning in traced.warnings:
            warn(warning.render(), KernelWarning)
        return traced


@overload
def kernel(function: Callable[P, R], /) -> Kernel[P, R]: ...
@overload
def kernel(
    *, pure: bool = ..., fastcache: bool = ..., graph: bool = ...
) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a Python function a kernel; use it as a decorator. In a class the kernel is a method.

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
    """Return the kernel of a function; it is constant if `sg.ad.no_grad` made the function."""
    call, inner = getattr(function, CONSTANT, (None, function))
    is_constant = call is function
    return Kernel(_resolved(inner if is_constant else function, frame), is_constant)


def _resolved(function: Callable[..., Any], frame: FrameType | None) -> Callable[..., Any]:
    """Return the function after evaluating annotations that are text where the function is defined.

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
