"""Check the arguments of a kernel call against the parameters, and return them by name.

Invariant: the arguments that this module returns fit their parameters: Python numbers that the scalar parameters can
hold, and fields or C-contiguous NumPy arrays of the parameter's dtype and rank. A mistake of the caller raises a
CallError located at the `def` of the kernel.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..compiler.errors import CallError, Span, short_repr
from ..compiler.frontend.aggregates import ElementType, MatrixType, StructType
from ..compiler.frontend.protocols import is_host_matrix, is_host_struct
from ..compiler.ir.kernels import Param
from ..compiler.ir.types import ArrayType, Scalar
from ..data.fields.array import Array
from ..data.leaves import ArgumentMismatch

NO_SCALARS: dict[str, Any] = {}
REQUIRED: Any = inspect.Parameter.empty
"""The default of a parameter that has no default."""


class CallSignature:
    """Represent the parameters of a kernel, and check the arguments of calls against them.

    Attributes:
        kernel: The name of the kernel, for messages.
        span: The `def` of the kernel, or None.
        params: The parameters.
        names: The names of the parameters.
        arrays: The names of the parameters that take a field or an array.
        defaults: The default values by name.
    """

    __slots__ = ("kernel", "span", "params", "names", "arrays", "defaults", "_checks")

    def __init__(
        self, kernel: str, params: Sequence[Param], span: Span | None, defaults: Mapping[str, Any] | None = None
    ) -> None:
        self.kernel = kernel
        self.span = span
        self.params = tuple(params)
        self.names = tuple(p.name for p in params)
        self.arrays = tuple(p.name for p in params if isinstance(p.type, ArrayType))
        self.defaults = defaults or {}
        self._checks = tuple((p.name, checker_of(p.type)) for p in params if isinstance(p.type, Scalar))

    def error(self, reason: str, cure: str) -> CallError:
        """Return a CallError for a wrong call of this kernel, with reason and cure."""
        return CallError(f"kernel {self.kernel}: {reason}", cure, self.span)

    def positional(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments in the order of the parameters, with defaults filled in."""
        return arrange_arguments(self.names, self.defaults, args, keywords, self.error, self._count)

    def scalars(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the scalar arguments of a call by name.

        Raises:
            CallError: The number of arguments is wrong, or a scalar does not fit its parameter.
        """
        if len(args) != len(self.params):
            args = self.positional(args, {})
        if not args:
            return NO_SCALARS
        found = {}
        try:
            if len(self._checks) == len(args):
                for (name, check), value in zip(self._checks, args):
                    found[name] = check(value)
            else:
                given = dict(zip(self.names, args))
                for name, check in self._checks:
                    found[name] = check(given[name])
        except ArgumentMismatch as misfit:
            raise self._misfit(name, misfit) from None
        return found

    def bound(self, args: tuple[Any, ...]) -> dict[str, Array | np.ndarray]:
        """Return the array arguments by name; `scalars` must have checked the number of arguments before."""
        return {
            p.name: self.array(p.name, p.type, value)
            for p, value in zip(self.params, args)
            if isinstance(p.type, ArrayType)
        }

    def _count(self, given: int) -> CallError:
        """Return a CallError that says how many arguments a call gave, and which parameters the kernel has."""
        wanted = ", ".join(f"{p.name}: {p.type}" for p in self.params) or "none"
        return self.error(f"takes {len(self.params)} arguments, got {given}", f"its parameters: {wanted}")

    def _misfit(self, name: str, misfit: ArgumentMismatch) -> CallError:
        """Return a CallError for an argument that does not fit its parameter."""
        dtype = next(p.type for p in self.params if p.name == name)
        return self.error(f"the parameter {name}: {dtype} {misfit.reason}", misfit.cure)

    def array(self, name: str, wanted: ArrayType, value: Any) -> Array | np.ndarray:
        """Return an array argument, or raise an error if it does not fit its parameter.

        Args:
            name: The name of the parameter.
            wanted: The type of the parameter.
            value: The argument.

        Raises:
            CallError: The argument is no array of this dtype and rank, or is not C-contiguous and writable.
        """
        if not isinstance(value, (Array, np.ndarray)):
            raise self._misfit(name, cannot_take(value))
        found: Array | np.ndarray = value
        if isinstance(found, Array):
            found.check_alive()
            memory = found.buffer
        else:
            memory = found
        if memory.dtype != wanted.dtype.dtype or memory.ndim != wanted.ndim:
            raise self.error(
                f"the parameter {name}: {wanted} cannot take an array of {memory.dtype} with {memory.ndim} axes",
                f"give a field or NumPy array of {wanted.dtype.dtype} with {wanted.ndim} axes",
            )
        if not memory.flags.c_contiguous or not memory.flags.writeable:
            raise self.error(
                f"the array given for {name} is not C-contiguous and writable", "give numpy.ascontiguousarray(...)"
            )
        return found


def arrange_arguments(
    names: Sequence[str],
    defaults: Mapping[str, Any],
    args: tuple[Any, ...],
    keywords: Mapping[str, Any],
    error: Callable[[str, str], CallError],
    count: Callable[[int], CallError],
) -> tuple[Any, ...]:
    """Return the arguments of a call in the order of the parameters.

    Args:
        names: The names of the parameters.
        defaults: The default values by name.
        args: The arguments that are given by position.
        keywords: The arguments that are given by name.
        error: A function of reason and cure that returns the exception for an unknown or repeated name.
        count: A function that takes a wrong number of arguments and returns the exception to raise.
    """
    given = dict(zip(names, args))
    for name, value in keywords.items():
        if name not in names:
            raise error(f"there is no parameter {name!r}", f"parameters: {', '.join(names) or 'none'}")
        if name in given:
            raise error(f"the parameter {name!r} is given twice", "give it by position or by name")
        given[name] = value
    if len(args) > len(names) or any(name not in given and name not in defaults for name in names):
        raise count(len(args) + len(keywords))
    return tuple(given[name] if name in given else defaults[name] for name in names)


# ---- numbers --------------------------------------------------------------------------------------------------------

CURE = "annotate the parameter with another type, or convert the argument"


def cannot_take(value: Any) -> ArgumentMismatch:
    """Return an ArgumentMismatch for a value of the wrong type."""
    return ArgumentMismatch(f"cannot take {type(value).__name__} {short_repr(value)}"[:100], CURE)


def checker_of(dtype: Scalar) -> Callable[[Any], Any]:
    """Return a function that converts an argument to a number of this type, or raises ArgumentMismatch."""
    if dtype.is_real:
        return _real
    if not dtype.is_int:
        return _boolean
    low, high = dtype.limits

    def integer(value: Any) -> int:
        if type(value) is not int:
            value = _integer(value)
        if low <= value <= high:
            return value  # type: ignore[no-any-return]
        raise ArgumentMismatch(f"cannot take {short_repr(value)}: it does not fit", "annotate it with a wider type")

    return integer


def _real(value: Any) -> float:
    """Return an argument as a float. Raise ArgumentMismatch if it is no real number."""
    if type(value) is float:
        return value
    if isinstance(value, (bool, int, float, np.number, np.bool_)) and not isinstance(value, np.complexfloating):
        try:
            return float(value)
        except OverflowError:
            raise ArgumentMismatch(
                f"cannot take {short_repr(value, 40)}...: it does not fit", "give a real number"
            ) from None
        except TypeError:  # NumPy's timedelta64 is a number that has no float.
            pass
    raise cannot_take(value)


def _boolean(value: Any) -> bool:
    """Return an argument as a bool. Raise ArgumentMismatch if it is neither a bool nor an integer."""
    if isinstance(value, (bool, int, np.bool_, np.integer)):
        return bool(value)
    raise cannot_take(value)


def _integer(value: Any) -> int:
    """Return an argument as an int. Raise ArgumentMismatch if it is no integer."""
    if isinstance(value, np.bool_):
        return int(value)
    try:
        return int(operator.index(value))
    except TypeError:
        raise cannot_take(value) from None


# ---- vectors, matrices and structs ----------------------------------------------------------------------------------

Flattener = Callable[[Any, list[Any]], None]
"""A function that appends the numbers of a value to a list after checking them, or raises Misfit."""


def flattener_of(kind: ElementType) -> Flattener:
    """Return a function that appends the numbers in a value of this type to a list."""
    if isinstance(kind, MatrixType):
        return _matrix_flattener(kind)
    if isinstance(kind, StructType):
        return _struct_flattener(kind)
    check = checker_of(kind)
    return lambda value, found: found.append(check(value))


def _matrix_flattener(kind: MatrixType) -> Flattener:
    """Return a function that appends the entries of vectors or matrices of this type to a list."""
    check = checker_of(kind.dtype)

    def flatten(value: Any, found: list[Any]) -> None:
        # NumPy refuses a ragged sequence with a ValueError; an empty array then gives the error about shapes below.
        entries = value.to_numpy() if is_host_matrix(value) else value
        try:
            entries = np.asarray(entries)
        except ValueError:
            entries = np.empty(0)
        if entries.shape != kind.shape:
            shape = (
                f"shape {entries.shape}"
                if is_host_matrix(value)
                else f"{type(value).__name__} {short_repr(value)}"[:80]
            )
            raise ArgumentMismatch(
                f"cannot take {shape}: it is {kind}", f"give sg.Vector or a sequence of shape {kind.shape}"
            )
        found.extend([check(entry) for entry in entries.ravel().tolist()])

    return flatten


def _struct_flattener(kind: StructType) -> Flattener:
    """Return a function that appends the numbers in structs of this type to a list."""
    parts = [(name, flattener_of(member)) for name, member in kind.members]

    def flatten(value: Any, found: list[Any]) -> None:
        members = value.members if is_host_struct(value) else value
        if not isinstance(members, Mapping) or set(members) != set(kind.names):
            raise ArgumentMismatch(cannot_take(value).reason, f"give {kind}, as its type makes it")
        for name, part in parts:
            try:
                part(members[name], found)
            except ArgumentMismatch as misfit:
                raise ArgumentMismatch(f"{misfit.reason}, in its member {name}", misfit.cure) from None

    return flatten
