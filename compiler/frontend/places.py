"""What can be assigned: locals and elements of fields. Stores, atomics and read-modify-writes on them."""
from __future__ import annotations

import ast
from dataclasses import dataclass

from ..ir.nodes import Value
from ..ir.ops import atomic_fits
from ..ir.types import Scalar, promote
from . import infer
from .context import Tracer
from .diagnostics import mistyped, syntax
from .expressions import VECTOR_CURE, apply_binary, assign_name, element
from .operands import Operand, Static, describe, number
from .protocols import is_field
from .scope import Variable


@dataclass(frozen=True)
class Element:
    """An element of an array, its indices evaluated."""

    array: str
    dtype: Scalar
    indices: tuple[Value, ...]
    text: str


Place = Variable | Element


def place(t: Tracer, node: ast.expr) -> Place:
    """The memory that an expression on the left of an assignment names."""
    if isinstance(node, ast.Subscript):
        return _element(t, node)
    if isinstance(node, ast.Name):
        binding = t.scopes.find(node.id)
        if isinstance(binding, Variable):
            return binding
        operand = t.clean(node)
        if isinstance(operand, Static) and is_field(operand.value):
            raise whole_field(node.id, len(operand.value.shape), node)
        raise syntax(f"`{node.id}` cannot be assigned: it is {describe(operand)}", "copy it to a new local first", node)
    raise syntax(f"`{ast.unparse(node)}` cannot be assigned", "assign a local, or an element as in `x[i]`", node)


def whole_field(name: str, rank: int, node: ast.AST) -> Exception:
    """The mistake of assigning a field without an index."""
    index = ", ".join("ijklmnop"[:rank]) if rank else "None"
    return mistyped(f"the field `{name}` cannot be assigned as a whole", f"write `{name}[{index}] = ...`", node)


def _element(t: Tracer, node: ast.Subscript) -> Element:
    base = t.clean(node.value)
    if isinstance(base, Static) and is_field(base.value):
        array, indices = element(t, base.value, base.hint, node)
        return Element(array, base.value.dtype, indices, ast.unparse(node))
    raise mistyped(f"{describe(base)} has no elements that can be assigned", VECTOR_CURE, node)


def load(t: Tracer, target: Place) -> Value:
    """The content of a place."""
    if isinstance(target, Variable):
        return t.builder.get(target.name, target.dtype)
    return t.builder.load(target.array, target.indices, target.dtype)


def store(t: Tracer, target: Place, operand: Operand) -> None:
    """Overwrite a place, converting to its type."""
    name = target.text if isinstance(target, Element) else target.name.partition(".")[0]
    value = t.stored(operand, target.dtype, f"`{name}`")
    if isinstance(target, Variable):
        t.builder.set(target.name, value)
    else:
        t.builder.store(target.array, target.indices, value)


def assign(t: Tracer, node: ast.expr, operand: Operand) -> None:
    """Assign to a name, an element, or a tuple of them."""
    if isinstance(node, ast.Name):
        _assign_name(t, node, operand)
    elif isinstance(node, (ast.Tuple, ast.List)):
        _unpack(t, node, operand)
    elif isinstance(node, ast.Starred):
        raise syntax("a starred target collects a list, which kernels do not have", "name each value", node)
    else:
        store(t, place(t, node), operand)


def _assign_name(t: Tracer, node: ast.Name, operand: Operand) -> None:
    shadowed = t.active.function.__globals__.get(node.id)
    if t.scopes.find(node.id) is None and is_field(shadowed):
        raise whole_field(node.id, len(shadowed.shape), node)
    if isinstance(operand, Static) and number(operand) is None:
        cure = f"index it, or bind it with `{node.id} = sg.static(...)`"
        if operand.value is None:
            cure = "return a value from the function on every path"
        raise mistyped(f"a local holds a number, not {describe(operand)}", cure)
    if t.items(operand) is not None:
        raise mistyped("a local holds one number, not a tuple", "unpack it, as in `a, b = ...`")
    assign_name(t, node, operand)


def _unpack(t: Tracer, node: ast.Tuple | ast.List, operand: Operand) -> None:
    items = t.items(operand)
    if items is None:
        raise mistyped(f"{len(node.elts)} names are assigned from {describe(operand)}", "give one value for each name")
    if len(items) != len(node.elts):
        raise mistyped(f"{len(node.elts)} names are assigned from {len(items)} values", "give one value for each name")
    for target, item in zip(node.elts, items):
        assign(t, target, item)


# ---- read-modify-write --------------------------------------------------------------------------------------------

ATOMIC_FORMS = {
    "add": "add", "sub": "add", "mul": "mul", "bit_and": "bit_and", "bit_or": "bit_or", "bit_xor": "bit_xor",
    "min": "min", "max": "max",
}  # fmt: skip
"""Operations on elements that are atomic, and the atomic of each; `sub` adds the negated value."""


def is_atomic(target: Place, op: str) -> bool:
    """Whether `target op= value` is one atomic: on elements, for operations that have one."""
    return isinstance(target, Element) and op in ATOMIC_FORMS


def update(t: Tracer, target: Place, op: str, operand: Operand, row: infer.Binary | None) -> Value:
    """`target op= operand`; gives the old value. Elements are updated atomically where ATOMIC_FORMS says so."""
    if isinstance(target, Element) and is_atomic(target, op):
        return _atomic(t, target, op, operand, row)
    old = load(t, target)
    if row is None:
        dtype = promote(target.dtype, t.type_of(operand))
        store(t, target, t.builder.op(op, t.value(old, dtype), t.value(operand, dtype)))
    else:
        store(t, target, apply_binary(t, row, old, operand))
    return old


def _atomic(t: Tracer, target: Element, op: str, operand: Operand, row: infer.Binary | None) -> Value:
    dtype, source = target.dtype, t.type_of(operand)
    if row is not None:
        infer.operand_type(row, dtype, source, t.options)
    if not atomic_fits(ATOMIC_FORMS[op], dtype):
        raise mistyped(f"there is no atomic `{op}` on elements of type {dtype}", "use a field of another type")
    if op == "mul" and dtype.is_int and source.is_real:
        raise mistyped(f"`{target.text}` of type {dtype} cannot be multiplied in place by a real value",
                       f"write `{target.text} = ...` with `int(...)`")  # fmt: skip
    found = number(operand)
    if op == "sub" and found is not None and not isinstance(found, bool):
        op, operand = "add", Static(-found)
    value = t.stored(operand, dtype, f"`{target.text}`")
    if op == "sub":
        value = t.builder.op("neg", value)
    return t.builder.atomic(ATOMIC_FORMS[op], target.array, target.indices, value)
