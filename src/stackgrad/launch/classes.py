"""Let kernels be methods: `obj.k(...)` launches a specialization that was traced for this object.

Invariant: nothing in this module keeps the object alive longer than the expression that calls its method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from .kernels import Kernel

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class BoundKernel(Generic[P, R]):
    """Represent a kernel that is bound to an object as its first argument, like a bound method of Python."""

    __slots__ = ("__self__", "__func__")
    is_stackgrad_kernel = True

    def __init__(self, kernel: Kernel[..., R], instance: Any) -> None:
        self.__func__ = kernel
        self.__self__ = instance

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        """Launch the kernel once. Return its result, or None if the kernel returns nothing."""
        return self.__func__(self.__self__, *args, **keywords)

    def grad(self, *args: P.args, **keywords: P.kwargs) -> None:
        """Launch the gradient of the kernel; see `Kernel.grad`."""
        self.__func__.grad(self.__self__, *args, **keywords)

    @property
    def __name__(self) -> str:
        return self.__func__.__name__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__func__, name)

    def __repr__(self) -> str:
        return f"<sg.kernel {self.__func__.__name__} of {type(self.__self__).__name__}>"


def data_oriented(cls: C) -> C:
    """Mark a class so that its methods can be kernels that read the object's attributes; use it as a decorator.

    Fields of the object are captured, and its numbers are constants: when a number that a kernel used has changed, the
    kernel is traced again. Each object has its own specialization, which ends with the object.
    """
    cls.is_stackgrad_data_oriented = True  # type: ignore[attr-defined]
    return cls


def pyfunc(function: F) -> F:
    """Mark a function as callable from both kernels and Python; use it as a decorator.

    Kernels inline the function, like any `sg.func`.
    """
    from ..compiler.frontend.functions import func

    return func(function)
