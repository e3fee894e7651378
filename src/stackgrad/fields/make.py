"""Factories of fields.

Invariant: a field is either placed, with shape and memory, or waits for `place`; gradients that were asked for are
placed together with their primals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from ..compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType, StructType
from ..compiler.ir.types import Scalar
from ..dtypes import scalar_type
from ..session import RUNTIME
from ..usage import FieldError
from .array import Array
from .conversions import extents_of
from .kinds import Layout, Shape
from .matrix import MatrixField
from .offsets import checked_offset, set_offset
from .scalar import ScalarField
from .struct import StructField

if TYPE_CHECKING:
    from ..types import MatrixSpec, StructSpec

DType = Scalar | type
Number = Scalar | type[float] | type[int]


@overload
def field(
    dtype: Number,
    shape: Shape | None = None,
    needs_grad: bool = False,
    name: str | None = None,
    *,
    needs_dual: bool = False,
    offset: Shape | None = None,
    order: str | None = None,
    layout: Sequence[int] | None = None,
) -> ScalarField: ...


@overload
def field(
    dtype: MatrixSpec,
    shape: Shape | None = None,
    needs_grad: bool = False,
    name: str | None = None,
    *,
    needs_dual: bool = False,
    offset: Shape | None = None,
    order: str | None = None,
    layout: Layout | None = None,
) -> MatrixField: ...


@overload
def field(
    dtype: StructSpec | type[Any],
    shape: Shape | None = None,
    needs_grad: bool = False,
    name: str | None = None,
    *,
    needs_dual: bool = False,
    offset: Shape | None = None,
    layout: Layout | None = None,
) -> StructField: ...


def field(
    dtype: DType | MatrixSpec | StructSpec,
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
    offset: the first index of each axis, if not 0: indices run from offset to offset + shape. Raises FieldError.
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
    kind = MatrixType(element, scalar_type(_one_of(dtype)))
    _check_ndim(ndim, len(element))
    check_nesting(shape, order, None)
    made = _matrix(kind, _layout(layout), needs_grad, needs_dual, name)
    place_now(made, shape, offset)
    return made


def _matrix(kind: MatrixType, layout: Layout, needs_grad: bool, needs_dual: bool, name: str | None) -> MatrixField:
    """A field of vectors or matrices without memory."""
    storage = new_array(ScalarField, kind.dtype, needs_grad, needs_dual, name)
    return MatrixField(kind, storage, layout == Layout.SOA)


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
    made = _struct(kind, _layout(layout), needs_grad, needs_dual, name)
    place_now(made, shape, offset)
    return made


def _struct(kind: StructType, layout: Layout, needs_grad: bool, needs_dual: bool, name: str | None) -> StructField:
    """A field of structs without memory."""
    if not kind.members:
        raise FieldError("a struct without members has no field", "give it a member")
    members = {n: _member(k, layout, needs_grad, needs_dual, f"{name}.{n}" if name else None) for n, k in kind.members}
    return StructField(kind, members, name, layout)


def _member(kind: Any, layout: Layout, needs_grad: bool, needs_dual: bool, name: str | None) -> Any:
    """A member's field, without memory; those that are no reals have no companions."""
    if isinstance(kind, StructType):
        return _struct(kind, layout, needs_grad, needs_dual, name)
    scalar = scalar_type(kind.dtype if isinstance(kind, MatrixType) else kind)
    needs_grad, needs_dual = needs_grad and scalar.is_real, needs_dual and scalar.is_real
    if isinstance(kind, MatrixType):
        return _matrix(MatrixType(kind.shape, scalar), layout, needs_grad, needs_dual, name)
    return new_array(ScalarField, scalar, needs_grad, needs_dual, name)


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
    arrays = made.arrays
    if shape is None and offset is not None:
        raise FieldError("an offset needs a shape", "give it to place: sg.root.dense(axes, shape).place(x, offset=...)")
    if shape is not None:
        extents = extents_of(shape)
        set_offset(arrays, checked_offset(offset, len(extents)))
        made.allocate(extents)
        for array in arrays:
            array.place_companions()
            RUNTIME.fields.add(array)
        return
    for array in arrays:
        for kind in ("grad", "dual") if array.dtype.is_real else ():
            array.companion(kind)


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
