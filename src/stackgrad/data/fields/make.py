"""Make fields of scalars, vectors, matrices and structs.

Invariant: a field is either placed, with shape and memory, or waits for `place`. Gradients that were asked for are
placed together with their primals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from ...compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType, StructType
from ...compiler.ir.types import Scalar
from ...runtime.session import RUNTIME
from ...runtime.usage_errors import FieldError
from ..dtypes import scalar_type
from .array import Array
from .conversions import extents_of
from .kinds import Layout, Ndarray, ShapeLike
from .matrix import MatrixField
from .offsets import checked_offset, set_offset
from .scalar import ScalarField
from .struct import StructField

if TYPE_CHECKING:
    from ..compound_types import MatrixSpec, StructSpec

DType = Scalar | type
NumberType = Scalar | type[float] | type[int]


@overload
def field(
    dtype: NumberType,
    shape: ShapeLike | None = None,
    needs_grad: bool = False,
    name: str | None = None,
    *,
    needs_dual: bool = False,
    offset: ShapeLike | None = None,
    order: str | None = None,
    layout: Sequence[int] | None = None,
) -> ScalarField: ...


@overload
def field(
    dtype: MatrixSpec,
    shape: ShapeLike | None = None,
    needs_grad: bool = False,
    name: str | None = None,
    *,
    needs_dual: bool = False,
    offset: ShapeLike | None = None,
    order: str | None = None,
    layout: Layout | None = None,
) -> MatrixField: ...


@overload
def field(
    dtype: StructSpec | type[Any],
    shape: ShapeLike | None = None,
    needs_grad: bool = False,
    name: str | None = None,
    *,
    needs_dual: bool = False,
    offset: ShapeLike | None = None,
    layout: Layout | None = None,
) -> StructField: ...


def field(  # Users see the overloads.
    dtype: DType | MatrixSpec | StructSpec,
    shape: ShapeLike | None = None,
    needs_grad: bool = False,
    name: str | None = None,
    *,
    needs_dual: bool = False,
    offset: ShapeLike | None = None,
    order: str | None = None,
    layout: Layout | Sequence[int] | None = None,
) -> Any:
    """Return a new field filled with zeros.

        x = sg.field(sg.f32, shape=(64, 64), needs_grad=True)

    Args:
        dtype: A scalar type, Python's float or int for the defaults of `sg.init`, or a vector, matrix or struct type.
        shape: An extent or a tuple of extents; () for a number `x[None]`; None if `sg.root.dense(...).place(x)` places
            x.
        needs_grad: True to make the adjoint `x.grad` too; real types only.
        name: The name for messages.
        needs_dual: True to make the tangent `x.dual` too; real types only.
        offset: The first index of each axis; indices run from offset to offset + shape. None for 0.
        order: How the axes are nested in memory, as "ij"; a hint that changes no result.
        layout: The same as a permutation; for vectors, matrices and structs a `sg.Layout`.

    Raises:
        FieldError: An argument does not fit.
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
    shape: ShapeLike | None = None,
    needs_grad: bool = False,
    *,
    needs_dual: bool = False,
    name: str | None = None,
    offset: ShapeLike | None = None,
    order: str | None = None,
    layout: Layout = Layout.AOS,
    ndim: int | None = None,
) -> MatrixField:
    """Return a new field of vectors or matrices, filled with zeros.

    The arguments that `field` has too mean the same, and the errors are the same. `element` is the shape of an element,
    (n,) for vectors and (n, m) for matrices; `dtype` is the scalar type of the entries, or nested lists of it; `layout`
    is `sg.Layout.AOS` or `sg.Layout.SOA`; `ndim` is the number of axes of an element, checked if given.
    """
    kind = MatrixType(element, scalar_type(_one_of(dtype)))
    _check_ndim(ndim, len(element))
    check_nesting(shape, order, None)
    made = _matrix(kind, _layout(layout), needs_grad, needs_dual, name)
    place_now(made, shape, offset)
    return made


def _matrix(kind: MatrixType, layout: Layout, needs_grad: bool, needs_dual: bool, name: str | None) -> MatrixField:
    """Return a new field of vectors or matrices whose memory is not allocated yet."""
    storage = new_array(ScalarField, kind.dtype, needs_grad, needs_dual, name)
    return MatrixField(kind, storage, layout == Layout.SOA)


def struct_field(
    kind: StructType,
    shape: ShapeLike | None = None,
    needs_grad: bool = False,
    *,
    needs_dual: bool = False,
    name: str | None = None,
    offset: ShapeLike | None = None,
    layout: Layout = Layout.AOS,
) -> StructField:
    """Return a new field of structs, stored as one field per member; only members of real type have gradients.

    The arguments, and the errors, are those of `field`.
    """
    made = _struct(kind, _layout(layout), needs_grad, needs_dual, name)
    place_now(made, shape, offset)
    return made


def _struct(kind: StructType, layout: Layout, needs_grad: bool, needs_dual: bool, name: str | None) -> StructField:
    """Return a new field of structs whose memory is not allocated yet."""
    if not kind.members:
        raise FieldError("a struct without members has no field", "give it a member")
    members = {n: _member(k, layout, needs_grad, needs_dual, f"{name}.{n}" if name else None) for n, k in kind.members}
    return StructField(kind, members, name, layout)


def _member(kind: Any, layout: Layout, needs_grad: bool, needs_dual: bool, name: str | None) -> Any:
    """Return a new field for one struct member, without memory; only members of real type get gradients."""
    if isinstance(kind, StructType):
        return _struct(kind, layout, needs_grad, needs_dual, name)
    scalar = scalar_type(kind.dtype if isinstance(kind, MatrixType) else kind)
    needs_grad, needs_dual = needs_grad and scalar.is_real, needs_dual and scalar.is_real
    if isinstance(kind, MatrixType):
        return _matrix(MatrixType(kind.shape, scalar), layout, needs_grad, needs_dual, name)
    return new_array(ScalarField, scalar, needs_grad, needs_dual, name)


def new_array(maker: type[Array], dtype: Scalar, needs_grad: bool, needs_dual: bool, name: str | None) -> Any:
    """Return a new array without memory, and record if an adjoint or a tangent is to be allocated with it.

    Args:
        maker: The class of the array.
        dtype: The scalar type.
        needs_grad: True to place an adjoint with it.
        needs_dual: True to place a tangent with it.
        name: The name for messages.

    Raises:
        FieldError: An adjoint or a tangent is asked for, and the type is not real.
    """
    RUNTIME.ensure()
    wanted = [kind for kind, asked in (("grad", needs_grad), ("dual", needs_dual)) if asked]
    if wanted and not dtype.is_real:
        arrays = "ndarrays" if issubclass(maker, Ndarray) else "fields"
        what = "a gradient" if needs_grad else "a dual"
        raise FieldError(f"{dtype} is not supported for {arrays} with {what}", "use sg.f16, sg.f32 or sg.f64")
    made = maker(dtype, None, name)
    made.wanted = tuple(wanted)
    return made


def place_now(made: Any, shape: ShapeLike | None, offset: ShapeLike | None = None) -> None:
    """Allocate a new field if `shape` is given; else create the adjoint and tangent of a real field, without memory."""
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


def check_nesting(shape: ShapeLike | None, order: str | None, layout: Any) -> tuple[int, ...] | None:
    """Return the order of axes in memory that `order` ("ji") or `layout` ((1, 0)) sets, or None for the default.

    Raises:
        FieldError: The field has no shape, or `order` or `layout` does not name each axis exactly once.
    """
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
    """Return the option `layout` as a `Layout`. Raise FieldError if it is no layout."""
    if layout is None:
        return Layout.AOS
    if isinstance(layout, Layout):
        return layout
    raise FieldError(f"the layout {layout!r} of a field of vectors or structs", "use sg.Layout.AOS or sg.Layout.SOA")


def _one_of(dtype: Any) -> Any:
    """Return the one scalar type in nested lists of scalar types. Raise FieldError if they contain different types."""
    if not isinstance(dtype, (list, tuple)):
        return dtype
    flat = [d for row in dtype for d in (row if isinstance(row, (list, tuple)) else [row])]
    if not flat or any(scalar_type(d) != scalar_type(flat[0]) for d in flat):
        raise FieldError("entries of different types in one matrix", "use a struct, or the widest type for all")
    return flat[0]


def _check_ndim(ndim: int | None, axes: int) -> None:
    if ndim is not None and ndim != axes:
        raise FieldError(f"ndim={ndim} of elements with {axes} axes", "leave ndim out")
