"""Lower expressions on vectors and matrices to IR: constructors, reads of parts, and methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from ....compiler.ir.statement import Value
from ....compiler.ir.types import u1
from . import nodes as m
from .lower_calls import FUNCTIONS
from .lower_expressions import PRODUCTS, binary
from .lower_places import lower_place, pick_entries, position, positions, read, select_item
from .lowering import EXPRESSIONS, LocalArraySlot, Lowerer, ModelOperand
from .tensors import TensorOperand, map_entries, unify

# ---- constructors -------------------------------------------------------------------------------------------------


@EXPRESSIONS.row(m.Vector)
def _vector(t: Lowerer, e: m.Vector) -> ModelOperand:
    made = unify(t, (len(e.items),), [t.expr(item) for item in e.items])
    return made if e.dtype is None else TensorOperand(made.shape, tuple(t.value(item, e.dtype) for item in made.items))


@EXPRESSIONS.row(m.Matrix)
def _matrix(t: Lowerer, e: m.Matrix) -> ModelOperand:
    return unify(t, (len(e.rows), len(e.rows[0])), [t.expr(item) for row in e.rows for item in row])


@EXPRESSIONS.row(m.Comprehension)
def _comprehension(t: Lowerer, e: m.Comprehension) -> ModelOperand:
    items: list[ModelOperand] = []
    for k in range(e.count):
        t.active.scopes.append({e.name: k})
        items.append(t.expr(e.item))
        t.active.scopes.pop()
    made = unify(t, (e.count,), items)
    return made if e.form == "Vector" else total(t, made.items)


@EXPRESSIONS.row(m.Filled)
def _filled(t: Lowerer, e: m.Filled) -> ModelOperand:
    size = e.shape[0] * (e.shape[1] if len(e.shape) == 2 else 1)
    ones = {"zero": [], "one": range(size), "identity": range(0, size, e.shape[0] + 1)}[e.function]
    return TensorOperand(e.shape, tuple(t.value(int(k in ones), e.dtype) for k in range(size)))


# ---- parts --------------------------------------------------------------------------------------------------------


@EXPRESSIONS.row(m.Part)
def _part(t: Lowerer, e: m.Part) -> ModelOperand:
    # Only the entry is loaded, and not the whole vector.
    if isinstance(e.base, (m.Element, m.Member)) and isinstance(m.root(e), m.Element):
        return read(t, lower_place(t, e))
    if _in_local_array(t, e.base):
        return read(t, lower_place(t, e))
    base = tensor(t, e.base)
    return select_item(t, base.items, position(t, e.indices, base.shape))


def _in_local_array(t: Lowerer, base: m.Expr) -> bool:
    """Return True if the expression is a name of a local array, whose entries can be read by index.

    The entries of a vector of scalars are all read, and then one of them is chosen.
    """
    found = t.find(base.name) if isinstance(base, m.Name) else None
    return isinstance(found, TensorOperand) and isinstance(found.items[0], LocalArraySlot)


@EXPRESSIONS.row(m.Swizzle)
@EXPRESSIONS.row(m.Slice)
def _parts(t: Lowerer, e: m.Swizzle | m.Slice) -> ModelOperand:
    base = tensor(t, e.base)
    return pick_entries(base, positions(e, base.shape))  # type: ignore[return-value]


def tensor(t: Lowerer, node: m.Expr) -> TensorOperand:
    """Return the value of an expression that is a vector or matrix."""
    found = t.expr(node)
    assert isinstance(found, TensorOperand), f"{node} is none"
    return found


# ---- methods ------------------------------------------------------------------------------------------------------


@EXPRESSIONS.row(m.Convert)
def _convert(t: Lowerer, e: m.Convert) -> ModelOperand:
    return map_entries(t, lambda x: t.value(x, e.dtype), t.expr(e.base))  # type: ignore[no-any-return]


@EXPRESSIONS.row(m.Method)
def _method(t: Lowerer, e: m.Method) -> ModelOperand:
    base = tensor(t, e.base)
    return METHODS[e.name](t, base, *(t.expr(a) for a in e.args))


def total(t: Lowerer, items: Sequence[ModelOperand]) -> ModelOperand:
    """Return the sum of all items, added from the first to the last."""
    return reduce(partial(binary, t, "+"), items)


def inner(t: Lowerer, a: Sequence[ModelOperand], b: Sequence[ModelOperand]) -> ModelOperand:
    """Return Σ a[k]·b[k]."""
    return total(t, [binary(t, "*", x, y) for x, y in zip(a, b, strict=True)])


def multiply(t: Lowerer, a: TensorOperand, b: TensorOperand) -> ModelOperand:
    """Return `a @ b`: the product of a matrix with a matrix or vector, or the dot product of two vectors."""
    if len(a.shape) == 1:
        return inner(t, a.items, b.items)
    n, k = a.shape
    width = b.shape[1] if len(b.shape) == 2 else 1
    made = [inner(t, a.items[i * k : (i + 1) * k], b.items[j::width]) for i in range(n) for j in range(width)]
    return unify(t, (n, *b.shape[1:]), made)


PRODUCTS["@"] = multiply


def _norm(t: Lowerer, a: TensorOperand, eps: ModelOperand = 0) -> ModelOperand:
    """Return √(Σ a² + eps), whose value and derivative are 0 where the sum is 0."""
    square = inner(t, a.items, a.items)
    return _root(t, square if eps == 0 else binary(t, "+", square, eps))


def _root(t: Lowerer, square: ModelOperand) -> Value:
    """Return √square; where `square` is 0, the result and its derivative are 0."""
    b, dtype = t.builder, t.type_of(square)
    x = t.value(square, dtype if dtype.is_real else t.program.default_fp)
    # The root is computed behind a branch because its derivative at 0 is infinite.
    found = b.local(t.unique("norm"), x.type, b.const(0.0, x.type))
    with b.block() as body:
        b.set(found, b.op("sqrt", x))
    b.if_(b.op("cmp_ne", x, b.const(0.0, x.type)), body)
    return b.get(found, x.type)


def _normalized(t: Lowerer, a: TensorOperand, eps: ModelOperand = 0) -> ModelOperand:
    """Return a/(|a| + eps)."""
    size: ModelOperand = _root(t, inner(t, a.items, a.items))
    return map_entries(t, partial(binary, t, "/"), a, size if eps == 0 else binary(t, "+", size, eps))  # type: ignore[no-any-return]


def _cross(t: Lowerer, a: TensorOperand, b: ModelOperand) -> ModelOperand:
    """Return a × b; for vectors of the plane, only the third component."""
    assert isinstance(b, TensorOperand)
    # The components of a cross product are minors of these pairs of rows.
    turns = ((1, 2), (2, 0), (0, 1)) if a.shape == (3,) else ((0, 1),)
    made = [_minor(t, a.items, b.items, i, j) for i, j in turns]
    return made[0] if len(made) == 1 else unify(t, (3,), made)


def _minor(t: Lowerer, x: Sequence[ModelOperand], y: Sequence[ModelOperand], i: int, j: int) -> ModelOperand:
    """Return x[i]·y[j] - x[j]·y[i]."""
    return binary(t, "-", binary(t, "*", x[i], y[j]), binary(t, "*", x[j], y[i]))


def _determinant(t: Lowerer, a: TensorOperand) -> ModelOperand:
    assert a.shape == (2, 2)
    return _minor(t, a.items[:2], a.items[2:], 0, 1)


def _inverse(t: Lowerer, a: TensorOperand) -> ModelOperand:
    """Return the inverse of [[p, q], [r, s]]: the matrix [[s, 0 - q], [0 - r, p]] times 1/det."""
    p, q, r, s = a.items
    scale = binary(t, "/", 1.0, _determinant(t, a))
    entries = (s, binary(t, "-", 0.0, q), binary(t, "-", 0.0, r), p)
    return unify(t, (2, 2), [binary(t, "*", entry, scale) for entry in entries])


def _transpose(t: Lowerer, a: TensorOperand) -> ModelOperand:
    n, width = a.shape
    return TensorOperand((width, n), tuple(a.items[i * width + j] for j in range(width) for i in range(n)))


def _outer(t: Lowerer, a: TensorOperand, b: ModelOperand) -> ModelOperand:
    assert isinstance(b, TensorOperand)
    return unify(t, a.shape + b.shape, [binary(t, "*", x, y) for x in a.items for y in b.items])


def _extremum(name: str) -> Callable[..., ModelOperand]:
    return lambda t, a: reduce(lambda x, y: FUNCTIONS[name](t, (x, y)), a.items)


def _truth(name: str) -> Callable[..., ModelOperand]:
    return lambda t, a: reduce(lambda x, y: t.builder.op(name, x, y), [t.value(item, u1) for item in a.items])


METHODS: dict[str, Callable[..., ModelOperand]] = {
    "dot": lambda t, a, b: inner(t, a.items, b.items),
    "norm_sqr": lambda t, a: inner(t, a.items, a.items),
    "norm": _norm,
    "norm_inv": lambda t, a, *eps: binary(t, "/", 1.0, _norm(t, a, *eps)),
    "normalized": _normalized,
    "cross": _cross,
    "outer_product": _outer,
    "transpose": _transpose,
    "trace": lambda t, a: total(t, a.items[:: a.shape[1] + 1]),
    "determinant": _determinant,
    "inverse": _inverse,
    "sum": lambda t, a: total(t, a.items),
    "min": _extremum("min"),
    "max": _extremum("max"),
    "all": _truth("logical_and"),
    "any": _truth("logical_or"),
}
"""Functions that apply a method to its receiver and its arguments, by the method's name."""
