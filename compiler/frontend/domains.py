"""This module recognizes the iteration domain of a `for` loop: a range, a box, or the elements of a field.

The step of a domain is evaluated at once. Its bounds are evaluated later, in the block where the loop needs them.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..ir.nodes import Assert
from ..ir.statement import Value
from . import views
from .arguments import positional
from .context import Tracer
from .diagnostics import syntax_problem, type_problem
from .functions import NDRange, function_name
from .operands import MatrixValue, Operand, Pack, ShapeOf, Static, describe, integer_of, known_object
from .protocols import AnyField, is_any_field, offset_of


@dataclass(frozen=True)
class AxisBounds:
    """An `AxisBounds` holds the first and the end index of one axis of a loop domain.

    Attributes:
        begin: first index.
        end: exclusive end.
        node: place where the bounds are written.
    """

    begin: Operand
    end: Operand
    node: ast.expr


@dataclass(frozen=True)
class LoopDomain:
    """A `LoopDomain` describes the set of indices that a loop iterates over, and their order.

    Attributes:
        bounds: function that evaluates the bounds of all axes.
        rank: number of axes.
        step: step of a range, if it is known at compile time.
        stride: step of a range that only the launch knows; `step` is 1 then.
        descending: True to visit the indices from last to first.
        grouped: True if one name stands for all indices.
        order: for each axis of `bounds`, outermost first, the number of the index name that it sets; None if names and
            axes have the same order. It is empty for a 0-d field: the loop runs once and sets no index.
        assignable: True if the indices are locals of the body, which it may assign, as those of `ndrange` are.
    """

    bounds: Callable[[Tracer], list[AxisBounds]]
    rank: int
    step: int = 1
    stride: Value | None = None
    descending: bool = False
    grouped: bool = False
    order: tuple[int, ...] | None = None
    assignable: bool = False


def target_names(node: ast.For) -> list[ast.Name]:
    """Return the syntax nodes of the index names of a `for` loop.

    Raises:
        ProblemError: the target of the loop is no name.
    """
    targets = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]
    for target in targets:
        if not isinstance(target, ast.Name):
            raise syntax_problem("the index of a loop is a name", "assign other places inside the loop", target)
    return [target for target in targets if isinstance(target, ast.Name)]


def domain_of(t: Tracer, node: ast.For) -> LoopDomain:
    """Return the iteration domain of a `for` loop: a range, a box, or the elements of a field.

    Raises:
        ProblemError: the expression is no domain, or the number of indices is wrong.
    """
    domain = _recognize(t, node.iter)
    names = target_names(node)
    # A single name for several axes stands for the vector of all indices.
    if isinstance(node.target, ast.Name) and (domain.grouped or domain.rank != 1):
        return replace(domain, grouped=True)
    if len(names) != domain.rank:
        axes = "axis" if domain.rank == 1 else "axes"
        raise type_problem(
            f"this loop has {domain.rank} {axes} and {len(names)} indices", "give one index for each axis", node.target
        )
    return replace(domain, grouped=False)


def chosen(t: Tracer, node: ast.expr) -> ast.expr:
    """Return what a loop or a comprehension runs over: of `a if condition else b`, the one that the condition selects.

    Raises:
        ProblemError: only the launch knows the condition, but what it selects decides what kind of loop is compiled.
    """
    while isinstance(node, ast.IfExp):
        condition = t.truth(t.clean(node.test))
        if not isinstance(condition, Static):
            raise type_problem(
                "only the launch knows which of the two this loop runs over",
                "write `if` with a loop in each branch, or choose between bounds: `range(n if c else m)`",
                node.test,
            )
        node = node.body if condition.value else node.orelse
    return node


def declared(node: ast.For, domain: LoopDomain, indices: Sequence[Value]) -> Iterator[tuple[ast.Name, Operand]]:
    """Yield each index name of a `for` loop with the operand that it denotes: one index, or a vector of them all."""
    names = target_names(node)
    if domain.order is not None:
        indices = [indices[domain.order.index(k)] for k in range(len(domain.order))]
    if domain.grouped and not indices:
        yield names[0], Pack(())
    elif domain.grouped:
        yield names[0], MatrixValue((len(indices),), tuple(indices))
    else:
        yield from zip(names, indices)


def _recognize(t: Tracer, node: ast.expr) -> LoopDomain:
    """Return the iteration domain that the expression after `in` of a `for` loop denotes."""
    node = chosen(t, node)
    if isinstance(node, ast.Call):
        callee = t.clean(node.func)
        target = callee.value if isinstance(callee, Static) else None
        if target is builtins.range:
            return _range(t, node)
        if target is builtins.reversed and len(node.args) == 1:
            inner = _recognize(t, node.args[0])
            # `reversed` twice restores the order.
            return replace(inner, descending=not inner.descending)
        if function_name(target) == "ndrange":
            return _ndrange(t, node)
        if function_name(target) == "grouped":
            return _grouped(t, node)
    operand = t.clean(node)
    if isinstance(operand, Static) and is_any_field(operand.value):
        return _field(operand.value, operand.hint, node)
    if views.is_view(operand):
        return LoopDomain(lambda t: [AxisBounds(Static(0), views.size_of(t, operand.value), node)], 1)
    if isinstance(operand, Static) and isinstance(operand.value, range):
        begin, end = Static(operand.value.start), Static(operand.value.stop)
        return LoopDomain(lambda t: [AxisBounds(begin, end, node)], 1, operand.value.step)
    if isinstance(operand, Static) and isinstance(operand.value, NDRange):
        box = operand.value
        axes = [AxisBounds(Static(box.axes[k][0]), Static(box.axes[k][1]), node) for k in box.order]
        return LoopDomain(lambda t: axes, len(axes), order=box.order, assignable=True)
    cure = "loop over `range(n)`"
    if isinstance(operand, Value):
        cure = f"write `range({ast.unparse(node)})`"
    elif isinstance(operand, (Static, Pack)):
        cure = f"loop over `range(...)`, `sg.ndrange(...)`, a field, or `sg.static({ast.unparse(node)})` to unroll"
    raise type_problem(f"{describe(operand)} is nothing that a kernel can loop over", cure)


def _grouped(t: Tracer, node: ast.Call) -> LoopDomain:
    if len(node.args) != 1 or node.keywords:
        raise syntax_problem("`grouped` takes one loop domain", "write `for I in sg.grouped(x)`")
    argument = chosen(t, node.args[0])
    inner = _single(t, argument) or _recognize(t, argument)
    if inner.step != 1 or inner.stride is not None:
        raise type_problem(
            "`grouped` takes a field or an `ndrange`, not a range with a step", "loop over the range itself", argument
        )
    return replace(inner, grouped=True)


def _single(t: Tracer, node: ast.expr) -> LoopDomain | None:
    """Return the domain of one iteration if the expression is a 0-d field, whose only index is the empty one."""
    if isinstance(node, ast.Call):
        return None
    operand = t.clean(node)
    if not isinstance(operand, Static) or not is_any_field(operand.value) or operand.value.shape:
        return None
    axis = AxisBounds(Static(0), Static(1), node)
    return LoopDomain(lambda t: [axis], 1, order=())


def _range(t: Tracer, node: ast.Call) -> LoopDomain:
    for keyword in node.keywords:
        raise syntax_problem("`range` takes no keywords", "write `range(begin, end, step)`", keyword.value)
    if not 1 <= len(node.args) <= 3 or any(isinstance(a, ast.Starred) for a in node.args):
        raise syntax_problem("`range` takes 1 to 3 values", "write `range(begin, end, step)`")
    step = 1 if len(node.args) < 3 else _step(t, node.args[2])
    stride, step = (step, 1) if isinstance(step, Value) else (None, step)
    ends = node.args[:2]

    def bounds(t: Tracer) -> list[AxisBounds]:
        begin = t.expr(ends[0]) if len(ends) == 2 else Static(0)
        return [AxisBounds(begin, t.expr(ends[-1]), ends[-1])]

    return LoopDomain(bounds, 1, step, stride)


def _step(t: Tracer, node: ast.expr) -> int | Value:
    """Return the step of a range as a number if it is known at compile time, else as a value.

    An assertion checks at launch, under debug, that the value is not 0.
    """
    operand = t.clean(node)
    step = integer_of(operand)
    if step == 0:
        raise type_problem("the step of a range is zero", "use a step other than zero", node)
    if step is not None:
        return step
    dtype = t.type_of(operand)
    if not dtype.is_int:
        raise type_problem(f"the step of a range is an integer, not {dtype}", "convert it with `int(...)`", node)
    value = t.value(operand, dtype)
    nonzero = t.builder.op("cmp_ne", value, t.builder.const(0, dtype))
    t.builder.emit(Assert(nonzero, f"the step of a range is zero: {ast.unparse(node)}", loc=t.locate(node)))
    return value


def _ndrange(t: Tracer, node: ast.Call) -> LoopDomain:
    rank = sum(_length(t, a.value) if isinstance(a, ast.Starred) else 1 for a in node.args)
    order = _axis_order(t, node, rank)

    def bounds(t: Tracer) -> list[AxisBounds]:
        found: list[AxisBounds] = []
        for argument in node.args:
            operands = positional(t, [argument])
            found.extend(_axis(t, operand, argument) for operand in operands)
        return found if order is None else [found[k] for k in order]

    if rank == 0:
        raise syntax_problem("`ndrange` needs an axis", "give an extent or a pair for each axis")
    return LoopDomain(bounds, rank, order=order, assignable=True)


def _axis_order(t: Tracer, node: ast.Call, rank: int) -> tuple[int, ...] | None:
    """Return the keyword `axes` of `ndrange`: the number of the axis of each nested loop, outermost first, or None."""
    for keyword in node.keywords:
        if keyword.arg != "axes":
            raise syntax_problem(
                f"`ndrange` has no keyword `{keyword.arg}`", "its only keyword is `axes`", keyword.value
            )
    if not node.keywords:
        return None
    given = node.keywords[0].value
    found = known_object(t.clean(given))
    order = tuple(integer_of(Static(k)) for k in found) if isinstance(found, (tuple, list)) else ()
    if any(k is None for k in order) or sorted(order) != list(range(rank)):  # type: ignore[type-var]
        raise type_problem(
            f"`axes` of this `ndrange` is no order of {rank} axes",
            f"write the numbers 0 to {rank - 1} once each",
            given,
        )
    return order  # type: ignore[return-value]


def _length(t: Tracer, node: ast.expr) -> int:
    """Return the number of items of the tuple that `*node` unpacks, without emitting statements."""
    with t.block():
        items = t.items(t.clean(node))
    if items is None:
        raise syntax_problem("`*` is taken only before a tuple of known length", "write the axes one by one", node)
    return len(items)


def _axis(t: Tracer, operand: Operand, node: ast.expr) -> AxisBounds:
    """Return the bounds of one axis of `ndrange`, which the program writes as an extent or as (begin, end)."""
    items = t.items(operand)
    if items is None:
        return AxisBounds(Static(0), operand, node)
    if len(items) != 2:
        raise type_problem(
            f"an axis of `ndrange` is an extent or a pair, not {len(items)} values", "write `(begin, end)`", node
        )
    return AxisBounds(items[0], items[1], node)


def _elements(t: Tracer, first: int, extent: Value, node: ast.expr) -> AxisBounds:
    """Return the bounds of an axis whose indices run from `first` to `first + extent`, exclusive."""
    end = t.builder.op("add", extent, t.builder.const(first, extent.type)) if first else extent
    return AxisBounds(Static(first), end, node)


def _field(field: AnyField, hint: str, node: ast.expr) -> LoopDomain:
    if not field.shape:
        raise type_problem(f"the 0-d field `{hint}` has no indices", f"use `{hint}[None]` without a loop", node)

    def bounds(t: Tracer) -> list[AxisBounds]:
        shape = ShapeOf(field, hint)
        return [_elements(t, first, t.extent(shape, axis), node) for axis, first in enumerate(offset_of(field))]

    return LoopDomain(bounds, len(field.shape))
