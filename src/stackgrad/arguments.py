"""Arguments of a call, checked against the parameters of a kernel and named for the launch.

Invariant: what leaves here fits: Python numbers that their scalar parameters can hold, and fields or C-contiguous
NumPy arrays of the parameter's dtype and rank. A mistake of the caller is a KernelTypeError at the kernel's `def`.
"""
from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .compiler.errors import KernelTypeError, Span
from .compiler.ir.nodes import Param
from .compiler.ir.types import ArrayType, Scalar
from .fields import Field

NO_SCALARS: dict[str, Any] = {}


class Signature:
    """The parameters that a call fills, in order. `arrays`: names of those that take a field or an array."""

    __slots__ = ("kernel", "span", "params", "names", "arrays")

    def __init__(self, kernel: str, params: Sequence[Param], span: Span | None) -> None:
        self.kernel = kernel
        self.span = span
        self.params = tuple(params)
        self.names = tuple(p.name for p in params)
        self.arrays = tuple(p.name for p in params if isinstance(p.type, ArrayType))

    def error(self, reason: str, cure: str) -> KernelTypeError:
        """A mistake in a call of this kernel."""
        return KernelTypeError(f"kernel {self.kernel}: {reason}", cure, self.span)

    def positional(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Arguments in order of the parameters."""
        given = dict(zip(self.names, args))
        for name, value in keywords.items():
            if name not in self.names:
                raise self.error(f"there is no parameter {name!r}", f"parameters: {', '.join(self.names) or 'none'}")
            if name in given:
                raise self.error(f"the parameter {name!r} is given twice", "give it by position or by name")
            given[name] = value
        missing = [name for name in self.names if name not in given]
        if missing or len(args) > len(self.names):
            raise self._count(len(args) + len(keywords))
        return tuple(given[name] for name in self.names)

    def scalars(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """The scalar arguments by name. Raises KernelTypeError for a wrong number or type of arguments."""
        if len(args) != len(self.params):
            raise self._count(len(args))
        if not args:
            return NO_SCALARS
        found = {}
        for param, value in zip(self.params, args):
            if isinstance(param.type, Scalar):
                found[param.name] = self._scalar(param.name, param.type, value)
        return found

    def bound(self, args: tuple[Any, ...]) -> dict[str, Field | np.ndarray]:
        """The array arguments by name; called after `scalars`, which has counted them."""
        return {
            p.name: self.array(p.name, p.type, value)
            for p, value in zip(self.params, args)
            if isinstance(p.type, ArrayType)
        }

    def _count(self, given: int) -> KernelTypeError:
        wanted = ", ".join(f"{p.name}: {p.type}" for p in self.params) or "none"
        return self.error(f"takes {len(self.params)} arguments, got {given}", f"its parameters: {wanted}")

    def _scalar(self, name: str, dtype: Scalar, value: Any) -> Any:
        kind = type(value)
        if dtype.is_int:
            if kind is not int:
                value = self._integer(name, dtype, value)
            low, high = (-(1 << dtype.bits - 1), 1 << dtype.bits - 1) if dtype.is_signed else (0, 1 << dtype.bits)
            if low <= value < high:
                return value
            raise self.error(f"{value} does not fit the parameter {name}: {dtype}", "annotate it with a wider type")
        if dtype.is_real:
            if kind is float:
                return value
            if isinstance(value, (bool, int, float, np.number, np.bool_)) and not isinstance(value, np.complexfloating):
                return float(value)
        elif isinstance(value, (bool, int, np.bool_, np.integer)):
            return bool(value)
        raise self._misfit(name, dtype, value)

    def _integer(self, name: str, dtype: Scalar, value: Any) -> int:
        if isinstance(value, np.bool_):
            return int(value)
        try:
            return int(operator.index(value))
        except TypeError:
            raise self._misfit(name, dtype, value) from None

    def _misfit(self, name: str, dtype: Scalar | ArrayType, value: Any) -> KernelTypeError:
        what = f"{type(value).__name__} {value!r}"[:80]
        cure = "annotate the parameter with another type, or convert the argument"
        return self.error(f"the parameter {name}: {dtype} cannot take {what}", cure)

    def array(self, name: str, wanted: ArrayType, value: Any) -> Field | np.ndarray:
        """An array argument, checked. Raises KernelTypeError."""
        if not isinstance(value, (Field, np.ndarray)):
            raise self._misfit(name, wanted, value)
        found: Field | np.ndarray = value
        if isinstance(found, Field):
            found.check_alive()
            memory = found.memory
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
