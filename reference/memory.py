"""Bind the arrays and the zeroed temporaries of a launch to names, with the elements of each as one flat vector.

Binding checks names, dtypes, ranks and layout once, so that handlers need not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..backends.base import Arrays, Scalars
from ..compiler.errors import KernelTypeError
from ..compiler.ir.build import normal_constant
from ..compiler.ir.extents import CURE, NARROW, extent_problem, narrow_axes
from ..compiler.ir.kernels import Kernel
from ..compiler.ir.roles import ARRAY_USES, ARRAY_WRITES
from ..compiler.ir.types import ArrayType
from ..compiler.ir.walk import walk_kernel
from .frame import LaneVector


@dataclass(frozen=True)
class FlatArray:
    """Represent the memory of an array in C order as a flat vector together with the array's shape.

    Attributes:
        name: name of the parameter or temporary
        flat: elements, written in place
        shape: extents of all axes
    """

    name: str
    flat: LaneVector
    shape: tuple[int, ...]


def bind_arrays(kernel: Kernel, arrays: Arrays) -> dict[str, FlatArray]:
    """Return the memory of each array of a kernel, temporaries included. Raise KernelTypeError if one does not fit."""
    types = {p.name: p.type for p in kernel.params if isinstance(p.type, ArrayType)}
    types = {f"{name}.grad": type.adjoint for name, type in types.items() if type.grad} | types
    used = _arrays_used(kernel)
    temps = {t.name: FlatArray(t.name, np.zeros(1, t.dtype.dtype), ()) for t in kernel.temps}
    return temps | {
        name: _bind(kernel, name, type, arrays, name in used)
        for name, type in types.items()
        if name in arrays or name in used or "." not in name
    }


def _arrays_used(kernel: Kernel) -> dict[str, bool]:
    """Return, by name, each array that the kernel uses, with True if a statement writes to it."""
    used: dict[str, bool] = {}
    for stmt in walk_kernel(kernel):
        if isinstance(stmt, ARRAY_USES):
            used[stmt.array] = used.get(stmt.array, False) or isinstance(stmt, ARRAY_WRITES)
    return used


def _bind(kernel: Kernel, name: str, type: ArrayType, arrays: Arrays, used: bool) -> FlatArray:
    """Check that an array fits its parameter, and return its memory as a flat vector."""
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise KernelTypeError(f"kernel {kernel.name} needs the array `{name}`", f"pass a NumPy array for {type}")
    if array.dtype != type.dtype.dtype or array.ndim != type.ndim:
        raise KernelTypeError(
            f"kernel {kernel.name} takes `{name}` as {type.dtype}[{type.ndim}], not {array.dtype}[{array.ndim}]",
            f"convert it, e.g. with `.astype({str(type.dtype.dtype)!r})`",
        )
    reason = ""
    # An extent that i32 does not hold is an error if the kernel reads it as an i32.
    if max(array.shape, default=0) >= NARROW:
        reason = extent_problem(array.shape, narrow_axes(kernel).get(name.removesuffix(".grad"), ()))
    if reason:
        raise KernelTypeError(f"kernel {kernel.name}: array {name} is {reason}", CURE)
    if not array.flags.c_contiguous:
        raise KernelTypeError(f"array `{name}` is not C-contiguous", "pass `numpy.ascontiguousarray(...)`")
    if used and not array.flags.writeable and _arrays_used(kernel)[name]:
        raise KernelTypeError(f"kernel {kernel.name} writes to `{name}`, which is read-only", "pass a writeable array")
    return FlatArray(name, array.reshape(-1), array.shape)


def bind_scalars(kernel: Kernel, scalars: Scalars) -> Mapping[str, LaneVector]:
    """Return the scalar arguments by name, converted to the types of their parameters.

    Raises:
        KernelTypeError: for a missing scalar
    """
    bound: dict[str, LaneVector] = {}
    for name, dtype in kernel.scalar_types().items():
        if name not in scalars:
            raise KernelTypeError(f"kernel {kernel.name} needs the scalar `{name}`", f"pass a number for {dtype}")
        bound[name] = dtype.dtype.type(normal_constant(scalars[name], dtype))
    return bound
