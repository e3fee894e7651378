"""This module traces assignments to locals and elements of fields: stores, atomics and read-modify-writes."""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

from ..ir.ops import atomic_fits
from ..ir.statement import Value
from ..ir.types import promote
from . import type_inference
from .aggregates import MatrixType, PackType, StructType
from .broadcasts import shape_mismatch
from .context import Tracer
from .conversions import as_matrix, sequence
from .diagnostics import syntax_problem, type_problem
from .expressions import apply_binary, assign_name
from .memory import PLACES, ElementPlace, Place, entries, in_array, is_argument, kind_at, load, resolve, store
from .operands import MatrixValue, Operand, Static, StructValue, describe, number_of
from .outer_names import unknown_name_error, warn_if_unread
from .protocols import AnyField, index_text, is_any_field
from .scope import CompoundVariable, FixedName, ReferenceName
from .shared_memory import SharedMemory, SharedPlace, bind_shared
from .trees import leaves
from .views import is_view, rename_view

__all__ = ["ElementPlace", "Place", "assign", "assignable", "is_atomic", "load", "place", "store", "update"]


def place(t: Tracer, node: ast.expr) -> Place:
    """Return the memory that an expression on the left of an assignment names.

    Raises:
        ProblemError: the expression cannot be assigned.
    """
    if isinstance(node, ast.Name):
        return _named(t, node)
    if not isinstance(node, (ast.Subscript, ast.Attribute)):
        raise syntax_problem(
            f"`{ast.unparse(node)}` cannot be assigned", "assign a local, or an element as in `x[i]`", node
        )
    return assignable(t, node, resolve(t, node))


def assignable(t: Tracer, node: ast.expr, found: Place | Operand) -> Place:
    """Return what an expression names, `found`, as a place that can be assigned; raise ProblemError if it is none."""
    if not isinstance(found, PLACES):
        assert isinstance(node, (ast.Subscript, ast.Attribute))
        raise _no_place(t, node, found)
    if is_argument(found):
        raise syntax_problem(
            f"`{ast.unparse(node)}` belongs to an argument of the kernel and cannot be assigned",
            "copy the argument to a new local first",
            node,
        )
    _refuse_twice(t, node, found)
    return found


def _named(t: Tracer, node: ast.Name) -> Place:
    binding = t.scopes.find(node.id)
    if isinstance(binding, ReferenceName):
        return binding.place  # type: ignore[no-any-return]
    if isinstance(binding, PLACES) and not is_argument(binding):
        return binding
    if binding is None and isinstance(node.ctx, ast.Store):
        raise unknown_name_error(t, node)
    operand = t.clean(node)
    if isinstance(operand, Static) and is_any_field(operand.value):
        raise _whole_field(node.id, operand.value, node)
    if is_view(operand):
        raise type_problem(f"the view `{node.id}` cannot be assigned as a whole", f"write `{node.id}[i] = ...`", node)
    raise syntax_problem(
        f"`{node.id}` cannot be assigned: it is {describe(operand)}", "copy it to a new local first", node
    )


def _no_place(t: Tracer, node: ast.Subscript | ast.Attribute, found: Operand) -> Exception:
    """Return the error for an assignment to a part of a value that is in no memory, such as `(a + b)[0] = 1`."""
    base = resolve(t, node.value)
    what = describe(base) if not isinstance(base, PLACES) else f"`{ast.unparse(node)}`"
    if isinstance(base, (MatrixValue, StructValue)):
        name = ast.unparse(node.value)
        return syntax_problem(
            f"`{name}` is a value here, and its parts cannot be assigned",
            f"copy it to a new local first, as in `w = {name}`",
            node,
        )
    return type_problem(
        f"{what} has no elements that can be assigned", "assign a local, or an element of a field", node
    )


def _refuse_twice(t: Tracer, node: ast.expr, found: Place) -> None:
    if (
        isinstance(found, CompoundVariable)
        and isinstance(found.kind, MatrixType)
        and len(set(found.parts)) < len(found.parts)
    ):
        raise syntax_problem(
            f"`{ast.unparse(node)}` names an entry twice and cannot be assigned", "name each entry once", node
        )


def _whole_field(name: str, field: AnyField, node: ast.AST) -> Exception:
    """Return the error for an assignment to a field without an index."""
    cure = f"assign an element, `{name}[{index_text(field)}]`"
    return type_problem(f"the field `{name}` cannot be assigned as a whole", cure, node)


def assign(t: Tracer, node: ast.expr, operand: Operand) -> None:
    """Assign an operand to a name, an element, or a tuple of targets."""
    if isinstance(node, ast.Name):
        _assign_name(t, node, operand)
    elif isinstance(node, (ast.Tuple, ast.List)):
        _unpack(t, node, operand)
    elif isinstance(node, ast.Starred):
        raise syntax_problem("a starred target collects a list, which kernels do not have", "name each value", node)
    else:
        store(t, place(t, node), operand)


def _assign_name(t: Tracer, node: ast.Name, operand: Operand) -> None:
    operand = sequence(t, operand)
    if isinstance(operand, Static) and isinstance(operand.value, SharedMemory):
        bind_shared(t, node, operand.value)
        return
    if is_view(operand):
        _bind_view(t, node, operand)
        return
    _refuse_objects(node, operand)
    if t.scopes.find(node.id) is None:
        warn_if_unread(t, node.id)
    assign_name(t, node, operand)


def _bind_view(t: Tracer, node: ast.Name, view: Static) -> None:
    """Bind a new name to a view; raise ProblemError if the name has a value already."""
    binding = t.scopes.find(node.id)
    if binding is None:
        t.scopes.declare(node.id, FixedName(rename_view(view, node.id), "view"), node.lineno)
    elif not (isinstance(binding, FixedName) and binding.kind == "faulty"):
        raise syntax_problem(
            f"`{node.id}` has a value already, and views are not stored", "give the view another name", node
        )


def _refuse_objects(node: ast.Name, operand: Operand) -> None:
    """Raise ProblemError if the operand contains an object that no local can hold."""
    for leaf in leaves(operand):
        if not isinstance(leaf, Static) or number_of(leaf) is not None:
            continue
        cure = f"index it, or bind it with `{node.id} = sg.static(...)`"
        if leaf.value is None:
            cure = "return a value from the function on every path"
        raise type_problem(f"a local holds numbers, vectors, matrices and structs, not {describe(leaf)}", cure)


def _unpack(t: Tracer, node: ast.Tuple | ast.List, operand: Operand) -> None:
    items = t.items(operand)
    if items is None:
        raise type_problem(
            f"{len(node.elts)} names are assigned from {describe(operand)}", "give one value for each name"
        )
    if len(items) != len(node.elts):
        raise type_problem(
            f"{len(node.elts)} names are assigned from {len(items)} values", "give one value for each name"
        )
    for target, item in zip(node.elts, items):
        assign(t, target, item)


# ---- read-modify-write --------------------------------------------------------------------------------------------

ATOMIC_FORMS = {
    "add": "add",
    "sub": "add",
    "mul": "mul",
    "bit_and": "bit_and",
    "bit_or": "bit_or",
    "bit_xor": "bit_xor",
    "min": "min",
    "max": "max",
}
"""For each operation that is atomic on elements, this table names the atomic; `sub` adds the negated value."""


def is_atomic(target: Place, op: str) -> bool:
    """Return True if `target op= value` is emitted as atomics: `target` is in a field and `op` has an atomic form."""
    return in_array(target) and op in ATOMIC_FORMS


def update(t: Tracer, target: Place, op: str, operand: Operand, row: type_inference.BinaryOperator | None) -> Operand:
    """Emit the update `target op= operand` of a memory location, and return the old value.

    Elements are updated atomically if ATOMIC_FORMS contains the operation.

    Args:
        t: the tracer.
        target: the place.
        op: operation of the IR.
        operand: the right operand.
        row: operator of Python, or None for `min` and `max`.
    """
    kind = kind_at(target)
    if isinstance(kind, (StructType, PackType)):
        raise type_problem(f"`{op}` works on numbers and vectors, not on {kind}", "update its parts one by one")
    if isinstance(kind, MatrixType):
        return _update_entries(t, target, kind, partial(update, t, op=op, row=row), operand, row)
    if isinstance(target, (ElementPlace, SharedPlace)) and is_atomic(target, op):
        return _atomic(t, target, op, operand, row)
    old = load(t, target)
    if row is None:
        dtype = promote(kind, t.type_of(operand))
        store(t, target, t.builder.op(op, t.value(old, dtype), t.value(operand, dtype)))
    else:
        store(t, target, apply_binary(t, row, old, operand))
    return old


def _update_entries(
    t: Tracer, target: Place, kind: MatrixType, one: Any, operand: Operand, row: type_inference.BinaryOperator | None
) -> MatrixValue:
    """Emit an update of each entry of a vector or matrix by calls of `one`, and return the old entries.

    `one` takes the place and the operand of one entry, by keyword. A number as operand is used for every entry.
    """
    given = as_matrix(t, operand)
    if given is not None and given.shape != kind.shape:
        raise shape_mismatch(f"{row.symbol}=" if row else "an update", [kind.shape, given.shape])
    items = given.items if given is not None else (operand,) * kind.size
    places = entries(t, target)
    return MatrixValue(kind.shape, tuple(one(target=p, operand=o) for p, o in zip(places, items)))


def _atomic(
    t: Tracer, target: ElementPlace | SharedPlace, op: str, operand: Operand, row: type_inference.BinaryOperator | None
) -> Value:
    dtype, source = target.dtype, t.type_of(operand)
    if row is not None:
        type_inference.operand_type(row, dtype, source, t.options)
    if not atomic_fits(ATOMIC_FORMS[op], dtype):
        raise type_problem(f"there is no atomic `{op}` on elements of type {dtype}", "use a field of another type")
    if op == "mul" and dtype.is_int and source.is_real:
        raise type_problem(
            f"`{target.text}` of type {dtype} cannot be multiplied in place by a real value",
            f"write `{target.text} = ...` with `int(...)`",
        )
    found = number_of(operand)
    # A constant is negated at compile time, because an atomic subtraction is an addition.
    if op == "sub" and found is not None and not isinstance(found, bool):
        op, operand = "add", Static(-found)
    value = t.stored(operand, dtype, f"`{target.text}`")
    if op == "sub":
        value = t.builder.op("neg", value)
    if isinstance(target, SharedPlace):
        return t.builder.update_element(ATOMIC_FORMS[op], target.name, target.index, value)
    return t.builder.atomic(ATOMIC_FORMS[op], target.array, target.indices, value)
