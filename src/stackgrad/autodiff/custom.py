"""Define decorators for functions that a tape ignores, or whose gradient the user writes.

Invariant: launches inside such a function are watched by all tapes, because they may destroy what a gradient reads, but
they are not recorded. Each decorator works on functions and, in classes, on methods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..launch.classes import BoundKernel
from ..launch.constant_launches import CONSTANT, without_recording, without_tangents
from ..launch.kernels import Kernel
from ..runtime.usage_errors import TapeError

F = TypeVar("F", bound=Callable[..., Any])


def no_grad(function: F) -> F:
    """Exclude the launches of a function or kernel from derivatives; use it as a decorator.

    What the function writes is constant to tapes and to forward mode. Applied to a kernel, above or below `@sg.kernel`
    and also in classes, it returns a kernel with an empty gradient: `k.grad(...)` checks its arguments and changes
    nothing. The original kernel keeps its gradient.
    """
    if isinstance(function, BoundKernel):
        return BoundKernel(function.__func__.constant(), function.__self__)  # type: ignore[return-value]
    if isinstance(function, Kernel):
        return function.constant()  # type: ignore[return-value]
    _check_callable(function, "no_grad")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with without_recording(True) as tapes, without_tangents():
            result = function(*args, **kwargs)
        for tape in tapes:
            tape.add_custom(None, lambda: call(*args, **kwargs))
        return result

    setattr(call, CONSTANT, (call, function))
    return call  # type: ignore[return-value]


def grad_replaced(function: F) -> F:
    """Return a function whose calls a tape records as a whole; `grad_for` sets its gradient. Use it as a decorator.

    `f.grad(...)` calls that gradient by hand.

        @sg.ad.grad_replaced
        def solve(x): ...

        @sg.ad.grad_for(solve)
        def solve_gradient(x): ...
    """
    _check_function(function, "grad_replaced")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with without_recording(False) as tapes:
            result = function(*args, **kwargs)
        for tape in tapes:
            tape.add_custom(lambda: custom_gradient(call)(*args, **kwargs), lambda: call(*args, **kwargs))
        return result

    call.gradient = None  # type: ignore[attr-defined]
    call.grad = lambda *args, **kwargs: custom_gradient(call)(*args, **kwargs)  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def grad_for(primal: Callable[..., Any]) -> Callable[[F], F]:
    """Register a function as the gradient of `primal`; use it as a decorator.

    The gradient sees the fields as they are when it runs. It may write to them, for example to compute contents that
    it needs again; the tape restores the primals afterwards.

    Args:
        primal: A function decorated with `grad_replaced`.

    Raises:
        TapeError: `primal` is not decorated with `grad_replaced`, or has a gradient already.
    """
    if not hasattr(primal, "gradient"):
        name = getattr(primal, "__name__", primal)
        cure = "decorate it, or drop grad_for: kernels have .grad"
        raise TapeError(f"{name} is not decorated with sg.ad.grad_replaced", cure)
    if primal.gradient is not None:
        cure = "keep one of the functions decorated with grad_for"
        raise TapeError(f"{getattr(primal, '__name__', primal)} has a gradient already", cure)

    def attach(function: F) -> F:
        primal.gradient = function
        return function

    return attach


def custom_gradient(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the gradient function of a function decorated with `grad_replaced`. Raise TapeError if it has none."""
    gradient: Callable[..., Any] | None = call.gradient  # type: ignore[attr-defined]
    if gradient is None:
        name = getattr(call, "__name__", call)
        raise TapeError(f"{name} is grad_replaced, but has no gradient", f"decorate one with @sg.ad.grad_for({name})")
    return gradient


def _check_function(function: object, decorator: str) -> None:
    if isinstance(function, (Kernel, BoundKernel)):
        name = function.__name__
        cure = f"write a Python function that calls {name}, and decorate that"
        raise TapeError(f"{decorator} decorates Python functions, and {name} is a kernel", cure)
    _check_callable(function, decorator)


def _check_callable(function: object, decorator: str) -> None:
    if not callable(function):
        raise TapeError(f"{decorator} decorates functions, not {type(function).__name__}", "put it above a `def`")
