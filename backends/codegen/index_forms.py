"""This module emits the values of affine forms of indices in terms of arguments, extents and IR values.

The table entries of both generators call these functions with their own emitters; all emitters have the methods that
are used.
"""

from __future__ import annotations

from typing import Any

from ...compiler.analysis.affine import Affine
from ...compiler.analysis.index_checks import shape_array
from ...compiler.ir.statement import Value
from . import ir
from .types import I64, const, memory_type


def value_of(e: Any, form: Affine) -> ir.LLVMValue:
    """Emit the value of an affine form as a 64-bit integer, or as a vector if one of its symbols is a vector."""
    total: ir.LLVMValue = const(I64, form.constant)
    for symbol, factor in form.terms:
        number = e.index(symbol) if isinstance(symbol, Value) else _fixed(e, symbol)
        term = number if factor == 1 else e.b.mul(number, e.const(number, factor))
        total = sum_of(e, total, term)
    return total


def sum_of(e: Any, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the sum of two numbers of 64 bits; a scalar is added to every lane of a vector."""
    if x.type != y.type:
        x, y = e.splat(x), e.splat(y)
    total: ir.LLVMValue = e.b.add(x, y)
    return total


def extent_of(e: Any, array: str, axis: int) -> ir.LLVMValue:
    """Return the extent of an array along an axis."""
    arrays = e.m.layout.arrays
    # An array that the kernel does not have has the extents of its adjoint or primal.
    known = array if array in arrays else next(name for name in arrays if shape_array(name) == shape_array(array))
    extent: ir.LLVMValue = e.slot(arrays[known].shape_at + 8 * axis)
    return extent


def _fixed(e: Any, symbol: Any) -> ir.LLVMValue:
    """Return a scalar argument or the extent of an array, which `symbol` names, as a 64-bit integer."""
    kind, name, *axis = symbol
    if kind == "shape":
        return extent_of(e, name, int(*axis))
    at, t = e.m.layout.scalars[name]
    number: ir.LLVMValue = e.to_i64(e.slot(at, memory_type(t)), t)
    return number
