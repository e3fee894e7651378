"""Functions that take no part in a tape's gradient, or bring a gradient of their own.

Invariant: launches inside such a function are watched by all tapes, as they may destroy what a gradient reads, but not
recorded. Each decorator works on functions and, in classes, on methods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..classes import BoundKernel
from ..constant import CONSTANT, unrecorded, without_tangents
from ..kernels import Kernel
from ..usage import TapeError

F = TypeVar("F", bound=Callable[..., Any])


def no_grad(function: F) -> F:
    """Decorator: the launches of this function take no part in derivatives; to tapes and forward mode what it writes is
    constant.

    Of a kernel, above or below `@sg.kernel`, in classes too, it gives a kernel: launched natively where nothing takes
    derivatives, and with an empty gradient, `k.grad(...)`, which looks at its arguments and changes nothing. The kernel
    that is given keeps its gradient.
    """
    if isinstance(function, BoundKernel):
        return BoundKernel(function.__func__.constant(), function.__self__)  # type: ignore[return-value]
    if isinstance(function, Kernel):
        return function.constant()  # type: ignore[return-value]
    _check_callable(function, "no_grad")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with unrecorded(True) as tapes, without_tangents():
            result = function(*args, **kwargs)
        for tape in tapes:
            tape.add_custom(None, lambda: call(*args, **kwargs))
        return result

    setattr(call, CONSTANT, (call, function))
    return call  # type: ignore[return-value]


def grad_replaced(function: F) -> F:
    """Decorator: a tape records the call as a whole; its gradient is the function given by `grad_for`.

    `f.grad(...)` calls that gradient by hand.
    """
    _check_function(function, "grad_replaced")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with unrecorded(False) as tapes:
            result = function(*args, **kwargs)
        for tape in tapes:
            tape.add_custom(lambda: custom_gradient(call)(*args, **kwargs), lambda: call(*args, **kwargs))
        return result

    call.gradient = None  # type: ignore[attr-defined]
    call.grad = lambda *args, **kwargs: custom_gradient(call)(*args, **kwargs)  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def grad_for(primal: Callable[..., Any]) -> Callable[[F], F]:
    """Decorator: this function, called with the same arguments, is the gradient of `primal`.

    It sees the fields as they are when it runs and may write them, as to rebuild what it needs; the tape puts primals
    back. Raises TapeError unless `primal` is decorated with `grad_replaced`.
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
    """The gradient of a function that is `grad_replaced`. Raises TapeError if it has none."""
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
