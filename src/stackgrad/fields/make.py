"""Factories of fields.

Invariant: a field is either placed, with shape and memory, or waits for `place`; gradients that were asked for are
placed together with their primals.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..compiler.errors import Unsupported
from ..compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType, StructType
from ..compiler.frontend.refused import caller
from ..compiler.ir.types import Scalar
from ..dtypes import scalar_type
from ..session import RUNTIME
from ..usage import FieldError
from .array import Array
from .conversions import extents_of
from .kinds import Layout
from .matrix import MatrixField
from .scalar import ScalarField
from .struct import StructField

if TYPE_CHECKING:
    from ..types import MatrixSpec, StructSpec

Shape = int | Sequence[int]


def field(
    dtype: Scalar | type | MatrixSpec | StructSpec,
    shape: Shape | None = None,
    needs_grad: bool = False,
    name: str | None = None,
    *,
    needs_dual: bool = False,
    offset: Shape | None = None,
    order: str | None = None,
    layout: Layout | Sequence[int] | None = None,
) -> Any:
    """A new field of zeros.

    dtype: a scalar type (`sg.f32`), Python's float or int, which mean the defaults of `sg.init`, or a vector, matrix or
    struct type. shape: extents, an int for one axis, () for a single number `x[None]`; None for a field that
    `sg.root.dense(...).place(x)` places. needs_grad, needs_dual: make `x.grad`, `x.dual` too; real types only.
    order, layout: how the axes are nested in memory, a hint that changes no result; layout of vectors: `sg.Layout`.
    Raises FieldError, and Unsupported for an offset.
    """
    element = getattr(dtype, TYPE_ATTRIBUTE, dtype)
    common: dict[str, Any] = {"needs_grad": needs_grad, "needs_dual": needs_dual, "name": name, "offset": offset}
    if isinstance(element, StructType):
        return struct_field(element, shape, layout=_layout(layout), **common)
    if isinstance(element, MatrixType):
        return matrix_field(element.shape, element.dtype, shape, order=order, layout=_layout(layout), **common)
    made = new_array(ScalarField, scalar_type(dtype), needs_grad, needs_dual, name)
    made.layout = check_nesting(shape, order, layout)
    place_now(made, shape, offset)
    return made


def matrix_field(
    element: tuple[int, ...],
    dtype: Scalar | type | Sequence[Any],
    shape: Shape | None = None,
    needs_grad: bool = False,
    *,
    needs_dual: bool = False,
    name: str | None = None,
    offset: Shape | None = None,
    order: str | None = None,
    layout: Layout = Layout.AOS,
    ndim: int | None = None,
) -> MatrixField:
    """A new field of vectors (element shape (n,)) or matrices (n, m); see `field`. layout: AOS or SOA."""
    scalar = scalar_type(_one_of(dtype))
    _check_ndim(ndim, len(element))
    check_nesting(shape, order, None)
    storage = new_array(ScalarField, scalar, needs_grad, needs_dual, name)
    made = MatrixField(MatrixType(element, scalar), storage, _layout(layout) == Layout.SOA)
    place_now(made, shape, offset)
    return made


def struct_field(
    kind: StructType,
    shape: Shape | None = None,
    needs_grad: bool = False,
    *,
    needs_dual: bool = False,
    name: str | None = None,
    offset: Shape | None = None,
    layout: Layout = Layout.AOS,
) -> StructField:
    """A new field of structs: one field for each member. Members that are no reals have no gradient."""
    if not kind.members:
        raise FieldError("a struct without members has no field", "give it a member")
    options: dict[str, Any] = {"needs_grad": needs_grad, "needs_dual": needs_dual}
    members = {n: _member(k, f"{name}.{n}" if name else None, options, layout) for n, k in kind.members}
    made = StructField(kind, members, name, _layout(layout))
    place_now(made, shape, offset)
    return made


def _member(kind: Any, name: str | None, options: dict[str, Any], layout: Layout) -> Any:
    """A member's field, not placed."""
    if isinstance(kind, StructType):
        return struct_field(kind, None, name=name, layout=layout, **options)
    scalar = scalar_type(kind.dtype if isinstance(kind, MatrixType) else kind)
    wanted = options if scalar.is_real else dict.fromkeys(options, False)
    if isinstance(kind, MatrixType):
        return matrix_field(kind.shape, scalar, None, name=name, layout=layout, **wanted)
    return field(scalar, None, name=name, **wanted)


def new_array(maker: type[Array], dtype: Scalar, needs_grad: bool, needs_dual: bool, name: str | None) -> Any:
    """An array without memory, that knows which companions to place with it."""
    RUNTIME.ensure()
    wanted = [kind for kind, asked in (("grad", needs_grad), ("dual", needs_dual)) if asked]
    if wanted and not dtype.is_real:
        what = "a gradient" if needs_grad else "a dual"
        raise FieldError(f"a field of {dtype} cannot have {what}", "use sg.f16, sg.f32 or sg.f64")
    made = maker(dtype, None, name)
    made.wanted = tuple(wanted)
    return made


def place_now(made: Any, shape: Shape | None, offset: Shape | None = None) -> None:
    """Place a new field if it has a shape; otherwise prepare companions that can be placed by hand."""
    if offset is not None and any(extents_of_offset(offset)):
        raise Unsupported(
            "fields whose indices do not begin at 0 are not supported", "add the offset to the indices", caller()
        )
    arrays = made.arrays
    if shape is not None:
        made.allocate(extents_of(shape))
        for array in arrays:
            array.place_companions()
            RUNTIME.fields.add(array)
        return
    for array in arrays:
        for kind in ("grad", "dual") if array.dtype.is_real else ():
            array.companion(kind)


def extents_of_offset(offset: Any) -> tuple[int, ...]:
    """An offset as a tuple."""
    return tuple(offset) if isinstance(offset, (tuple, list)) else (int(offset),)


def check_nesting(shape: Shape | None, order: str | None, layout: Any) -> tuple[int, ...] | None:
    """The order of nesting that `order` ("ji") or `layout` ((1, 0)) asks for, None if it is the usual one."""
    if order is None and (layout is None or isinstance(layout, Layout)):
        return None
    if shape is None:
        raise FieldError("order and layout need a shape", "nest sg.root.dense(sg.j, m).dense(sg.i, n) instead")
    rank = len(extents_of(shape))
    given = tuple("ijklmnopqrst".find(axis) for axis in order) if order is not None else tuple(layout)
    if sorted(given) != list(range(rank)):
        raise FieldError(f"{order or layout!r} does not name each of {rank} axes once", f"permute {tuple(range(rank))}")
    return given


def _layout(layout: Any) -> Layout:
    if layout is None:
        return Layout.AOS
    if isinstance(layout, Layout):
        return layout
    raise FieldError(f"the layout {layout!r} of a field of vectors or structs", "use sg.Layout.AOS or sg.Layout.SOA")


def _one_of(dtype: Any) -> Any:
    """The one type of a list of entries' types."""
    if not isinstance(dtype, (list, tuple)):
        return dtype
    flat = [d for row in dtype for d in (row if isinstance(row, (list, tuple)) else [row])]
    if not flat or any(scalar_type(d) != scalar_type(flat[0]) for d in flat):
        raise FieldError("entries of different types in one matrix", "use a struct, or the widest type for all")
    return flat[0]


def _check_ndim(ndim: int | None, axes: int) -> None:
    if ndim is not None and ndim != axes:
        raise FieldError(f"ndim={ndim} of elements with {axes} axes", "leave ndim out")
