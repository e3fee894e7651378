"""This module defines the built-in functions of the kernel language, which plain Python can call, too.

FUNCTIONS says what each function does outside a kernel; inside a kernel, the entry of `calls.LOWERINGS` under the same
name applies. ALIASES are functions of Python, `math` and NumPy with the same meaning.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import math
import random as _random
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import KernelSyntaxError, KernelTypeError
from ..ir.documented import documented
from ..ir.types import Scalar
from .refused_names import exported_names
from .simt_names import Simt

if TYPE_CHECKING:
    from .manual import Entry

F = TypeVar("F", bound=Callable[..., Any])
_PACKAGE = __name__.partition(".")[0]


def _manual(name: str) -> Entry:
    """Return the manual's entry on the function `name`. The manual is imported at the first use."""
    from .manual import MANUAL

    return MANUAL[name]


class _Signature:
    """This descriptor computes `__signature__` of a built-in function of the kernel language from the manual."""

    def __get__(self, function: LanguageFunction | None, owner: type | None = None) -> inspect.Signature:
        if function is None:
            raise AttributeError("__signature__")
        return _manual(function.name).signature


@documented(lambda function: _manual(function.name).text)
class LanguageFunction:
    """A `LanguageFunction` is a built-in function of the kernel language; the manual holds its documentation.

    Attributes:
        name: name of the function.
        python: its meaning outside kernels, or None if the function works only in kernels.
    """

    __signature__ = _Signature()

    def __init__(self, name: str, python: Callable[..., Any] | None) -> None:
        self.name = self.__name__ = self.__qualname__ = name
        self.__module__ = _PACKAGE
        self.python = python

    def __get__(self, instance: Any, owner: type | None = None) -> LanguageFunction:
        # `help` shows the signature of objects with this method, which it takes for functions.
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the function for Python arguments, in a call outside of kernels.

        Raises:
            KernelSyntaxError: the function works only in kernels.
        """
        if self.python is None:
            raise KernelSyntaxError(f"`{self.name}` works inside kernels only", "call it from a kernel")
        return self.python(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<stackgrad function {self.name}>"


class Func:
    """A `Func` is the result of `@sg.func`: kernels inline the function, and plain Python calls it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the plain Python function."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunc(self, instance)

    def __repr__(self) -> str:
        return f"<stackgrad func {getattr(self.function, '__qualname__', self.function)}>"


class BoundFunc:
    """A `BoundFunc` is a func of a class together with the object that is its first argument."""

    __slots__ = ("func", "receiver")

    def __init__(self, func: Func, receiver: Any) -> None:
        self.func = func
        self.receiver = receiver

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the plain Python function, with the object as its first argument."""
        return self.func.function(self.receiver, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.func!r} of {type(self.receiver).__name__}"


def func(function: F) -> F:
    """Decorate a function so that kernels can call it; it is inlined there and its arguments are passed by value.

    The result is a `Func`, which is called like the function. The annotation keeps the signature for type checkers.
    """
    return Func(function)  # type: ignore[return-value]


class NDRange:
    """An `NDRange` is a box whose points are visited in row-major order.

    Args:
        spans: for each axis, an extent or a pair (begin, end).
        axes: number of the axis of each nested loop, outermost first; None for the order of the spans.
    """

    def __init__(self, *spans: int | tuple[int, int], axes: Iterable[int] | None = None) -> None:
        self.axes = tuple((0, a) if not isinstance(a, (tuple, list)) else (a[0], a[1]) for a in spans)
        self.order = tuple(range(len(spans)) if axes is None else axes)
        if sorted(self.order) != list(range(len(spans))):
            cure = f"write the numbers 0 to {len(spans) - 1} once each"
            raise KernelTypeError(f"`axes` of this `ndrange` is no order of {len(spans)} axes", cure)

    def points(self) -> Iterator[tuple[int, ...]]:
        """Yield the indices of each point of the box, in row-major order or in the order that `axes` gives."""
        for point in itertools.product(*(range(*self.axes[k]) for k in self.order)):
            yield tuple(point[self.order.index(k)] for k in range(len(point)))

    def __iter__(self) -> Iterator[Any]:
        return (p[0] for p in self.points()) if len(self.axes) == 1 else self.points()


class IndexVector(tuple[int, ...]):
    """An `IndexVector` holds the indices of one point of `grouped(...)` in plain Python, and acts as a vector."""

    is_stackgrad_matrix = True
    dtype = None

    def to_numpy(self) -> np.ndarray:
        """Return the indices as an array."""
        return np.array(self)

    def __add__(self, other: Any) -> IndexVector:
        return IndexVector(a + b for a, b in zip(self, self._entries(other)))

    def __sub__(self, other: Any) -> IndexVector:
        return IndexVector(a - b for a, b in zip(self, self._entries(other)))

    def __mul__(self, other: Any) -> IndexVector:
        return IndexVector(a * b for a, b in zip(self, self._entries(other)))

    def _entries(self, other: Any) -> list[int]:
        """Return the other operand of an operator as a list with one entry per index; a number is repeated."""
        given = other.to_numpy() if hasattr(other, "to_numpy") else other
        found: list[int] = np.broadcast_to(given, len(self)).tolist()
        return found


def _grouped(domain: Any) -> Iterator[IndexVector]:
    """Return an iterator over the points of an `ndrange`, or over the indices of all elements of a field."""
    shape = getattr(domain, "shape", None)
    box = domain if isinstance(domain, NDRange) else NDRange(*_spans(domain, shape or ()))
    return map(IndexVector, box.points())


def _spans(field: Any, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    offset = getattr(field, "offset", ()) or (0,) * len(shape)
    return [(first, first + extent) for first, extent in zip(offset, shape)]


# ---- meaning outside kernels ------------------------------------------------------------------------------------


def _numeric(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the NumPy function wrapped so that scalar results are Python numbers and no NumPy warnings occur."""

    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            made = function(*args)
        return made.item() if isinstance(made, np.generic) else made

    return call


def _extremum(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def call(first: Any, *rest: Any) -> Any:
        for other in rest:
            first = _numeric(function)(first, other)
        return first

    return call


def _rounding(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(x: Any, dtype: Any = None) -> Any:
        made = x if isinstance(x, int) else _numeric(function)(x)
        return made if dtype is None else _cast(made, dtype)

    return call


def _bit_cast(x: Any, dtype: Scalar) -> Any:
    source = np.float64(x) if isinstance(x, float) and dtype.bits == 64 else np.float32(x)
    whole = np.int64 if dtype.bits == 64 else np.int32
    return (source if isinstance(x, float) else whole(x)).view(dtype.dtype).item()


def _cast(x: Any, dtype: Any) -> Any:
    return x.cast(dtype) if getattr(x, "is_stackgrad_matrix", False) else dtype(x)


def _raw_div(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def _draw(dtype: Any = float) -> Any:
    if dtype is int or (isinstance(dtype, Scalar) and not dtype.is_real):
        return _random.getrandbits(31)
    return _random.random()


def _static(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def _static_assert(condition: Any, message: str = "static assertion failed") -> None:
    if not condition:
        raise AssertionError(message)


_REAL: dict[str, Callable[..., Any]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.float64(1.0) / np.sqrt(x),
    "inv": lambda x: np.float64(1.0) / x,
    "rcp": lambda x: np.float64(1.0) / x,
}
_ATOMICS = ("add", "sub", "min", "max", "mul", "and", "or", "xor", "exchange", "cas")

FUNCTIONS: dict[str, Callable[..., Any] | None] = {
    **{name: _numeric(function) for name, function in _REAL.items()},
    "atan2": _numeric(np.arctan2),
    "abs": builtins.abs,
    "sgn": _numeric(np.sign),
    "floor": _rounding(np.floor),
    "ceil": _rounding(np.ceil),
    "round": _rounding(np.rint),
    "pow": lambda x, y: x**y,
    "min": _extremum(np.minimum),
    "max": _extremum(np.maximum),
    "select": lambda condition, a, b: a if condition else b,
    "cast": _cast,
    "bit_cast": _bit_cast,
    "popcnt": lambda x: (x & 0xFFFFFFFF).bit_count(),
    "clz": lambda x: 32 - (x & 0xFFFFFFFF).bit_length(),
    "ffs": lambda x: (x & -x).bit_length(),
    "bit_shr": lambda x, count: (x & 0xFFFFFFFF) >> (count % 32),
    "raw_div": _raw_div,
    "raw_mod": lambda a, b: a - b * _raw_div(a, b) if isinstance(a, int) and isinstance(b, int) else math.fmod(a, b),
    "frexp": math.frexp,
    "isnan": lambda x: x != x,
    "isinf": lambda x: builtins.abs(x) == math.inf,
    "random": _draw,
    "randn": lambda dtype=float: _random.gauss(0.0, 1.0),
    "stop_grad": lambda x: x,
    "assume_unique": lambda *indices: indices[0] if len(indices) == 1 else indices,
    **{f"atomic_{name}": None for name in _ATOMICS},
    "volatile_load": lambda x: x,
    "zero": lambda x: type(x)(0) if isinstance(x, (bool, int, float)) else x * 0 + 0,
    "one": lambda x: type(x)(1) if isinstance(x, (bool, int, float)) else x * 0 + 1,
    "static": _static,
    "static_assert": _static_assert,
    "static_print": print,
    "ndrange": NDRange,
    "grouped": _grouped,
    "loop_config": lambda **options: None,
    "loop_unique": lambda val, covers=None: val,
    "assume_in_range": lambda val, base, low, high: val,
    "block_local": lambda *args: None,
    "cache_read_only": lambda *args: None,
    "stream_parallel": nullcontext,
    "graph_parallel": nullcontext,
    "graph_parallel_context": nullcontext,
    "graph_do_while": None,
}


class DialectGraph:
    """This class is the type of `sg.graph`, whose `do_while` repeats a loop and whose `parallel` has no effect."""

    do_while = LanguageFunction("graph_do_while", None)
    parallel = LanguageFunction("graph_parallel", nullcontext)
    parallel_context = LanguageFunction("graph_parallel_context", nullcontext)


EXPORTS: dict[str, object] = {
    **exported_names(),
    **{name: LanguageFunction(name, python) for name, python in FUNCTIONS.items()},
    **{level: level.lower() for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "CRITICAL")},
    "func": func,
    "graph": DialectGraph(),
    "simt": Simt(),
}
"""These are the public names of the kernel language.

They are its functions, the names that are refused, and levels of a log that is not kept.
"""

ALIASES: dict[Any, str] = {
    builtins.abs: "abs",
    builtins.min: "min",
    builtins.max: "max",
    builtins.round: "round",
    builtins.pow: "pow",
    math.sin: "sin",
    math.cos: "cos",
    math.tan: "tan",
    math.asin: "asin",
    math.acos: "acos",
    math.atan2: "atan2",
    math.tanh: "tanh",
    math.exp: "exp",
    math.log: "log",
    math.sqrt: "sqrt",
    math.fabs: "abs",
    math.pow: "pow",
    math.isnan: "isnan",
    math.isinf: "isinf",
    math.frexp: "frexp",
    math.fmod: "raw_mod",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan2: "atan2",
    np.tanh: "tanh",
    np.exp: "exp",
    np.log: "log",
    np.sqrt: "sqrt",
    np.abs: "abs",
    np.fabs: "abs",
    np.sign: "sgn",
    np.floor: "floor",
    np.ceil: "ceil",
    np.rint: "round",
    np.round: "round",
    np.minimum: "min",
    np.maximum: "max",
    np.power: "pow",
    np.where: "select",
    np.isnan: "isnan",
    np.isinf: "isinf",
    np.frexp: "frexp",
    np.fmod: "raw_mod",
}
"""These functions of Python and NumPy mean a function of the language.

`math.floor` and `math.ceil` give integers and have rows of their own in `calls`.
"""


def function_name(target: Any) -> str | None:
    """Return the name of the built-in function of the kernel language that an object denotes, or None if it is none."""
    if isinstance(target, LanguageFunction):
        return target.name
    try:
        return ALIASES.get(target)
    except TypeError:
        return None
