"""Lower calls of the program's own functions by inlining, with arguments by value.

An early `return` sets the results and leaves a scope.
"""

from __future__ import annotations

import math
from functools import reduce

from ....compiler.ir import nodes as n
from ....compiler.ir.build import Builder
from ....compiler.ir.statement import Value
from ....compiler.ir.types import Scalar
from . import nodes as m
from .lowering import EXPRESSIONS, FunctionScope, LocalSlot, Lowerer, ModelOperand, common_type
from .tensors import TensorOperand, leaves, with_leaves
from .walk import walk


@EXPRESSIONS.row(m.Invoke)
def _invoke(t: Lowerer, e: m.Invoke) -> ModelOperand:
    function = t.functions[e.function]
    args = [t.expr(a) for a in e.args]
    active = FunctionScope([{}])
    _bind_arguments(t, active, function, args)
    made = _run_function(t, active, function)
    if function.result and not isinstance(made, tuple):
        return _converted(t, made, function)
    return made


def _bind_arguments(t: Lowerer, active: FunctionScope, function: m.Function, args: list[ModelOperand]) -> None:
    """Bind parameters to their arguments; a parameter that the function assigns becomes a local of the call."""
    assigned = _assigned(function.body)
    for param, operand in zip(function.params, args, strict=True):
        # A parameter without an annotation keeps the type of its argument.
        operand = _converted(t, operand, param) if param.dtype else operand
        if param.name in assigned:
            made = with_leaves(operand, [_local(t, param.name, t.value(leaf)) for leaf in leaves(operand)])
            active.scopes[0][param.name] = made
        else:
            active.scopes[0][param.name] = operand


def _converted(t: Lowerer, operand: ModelOperand, to: m.Param | m.Function) -> ModelOperand:
    """Convert an argument or result to its annotated type and shape; a scalar fills a whole vector."""
    dtype = to.dtype if isinstance(to, m.Param) else to.result
    if to.shape and not isinstance(operand, TensorOperand):
        operand = TensorOperand(to.shape, (operand,) * math.prod(to.shape))
    return with_leaves(operand, [t.value(leaf, dtype) for leaf in leaves(operand)])  # type: ignore[no-any-return]


def _local(t: Lowerer, name: str, value: Value) -> LocalSlot:
    return LocalSlot(t.builder.local(t.unique(name), value.type, value), value.type)


def _assigned(body: m.StmtBlock) -> set[str]:
    """Return the names of the locals that a block of statements assigns."""
    found: set[str] = set()
    for node in walk(body):
        if isinstance(node, m.Assign):
            found |= {target.name for target in map(m.root, node.targets) if isinstance(target, m.Name)}
        elif isinstance(node, m.Augment) and isinstance(m.root(node.target), m.Name):
            found.add(m.root(node.target).name)  # type: ignore[attr-defined]
        elif isinstance(node, (m.Declare, m.Walrus)):
            found.add(node.name)
    return found


def _run_function(t: Lowerer, active: FunctionScope, function: m.Function) -> ModelOperand:
    """Inline the body of a function and return the result of the call.

    The result is an empty tuple without a `return`, the operands of a `return` that stands only at the end, or else
    locals that each exit sets.
    """
    returns = [s for s in walk(function.body) if isinstance(s, m.Return)]
    t.stack.append(active)
    try:
        if not returns:
            t.run(function.body)
            return ()
        if len(returns) == 1 and function.body[-1] is returns[0]:
            return _run_to_the_end(t, function, returns[0])
        return _run_with_exits(t, active, function)
    finally:
        t.stack.pop()


def _run_to_the_end(t: Lowerer, function: m.Function, last: m.Return) -> ModelOperand:
    """Inline a call of a function that returns only at its end, and return the value of the call."""
    # The loops of a function with a result are serial, even if the call is at the top of the kernel.
    t.nesting += 1
    t.run(function.body[:-1])
    values = tuple(t.expr(v) for v in last.values)
    t.nesting -= 1
    return values[0] if len(values) == 1 else values


def _run_with_exits(t: Lowerer, active: FunctionScope, function: m.Function) -> ModelOperand:
    """Inline a call of a function with several returns, which all store to the same locals; return the result."""
    form, types = _measure(t, active, function)
    active.results = tuple(LocalSlot(t.builder.local(t.unique("result"), dtype), dtype) for dtype in types)
    # The scope around the body is one more frame, and `return` leaves this frame.
    active.return_frame = t.frames + 1
    with t.block(frames=1) as body:
        t.run(function.body)
    t.builder.emit(n.Scope(tuple(body)))
    values = with_leaves(form, [t.builder.get(r.var, r.dtype) for r in active.results])
    return values[0] if len(values) == 1 else values  # type: ignore[no-any-return]


def _measure(t: Lowerer, active: FunctionScope, function: m.Function) -> tuple[tuple[ModelOperand, ...], list[Scalar]]:
    """Return the result operands of a function and the common type of each result over all returns.

    The body is lowered once into a builder that is thrown away, because the types are known only after all returns are
    seen.
    """
    # The other builder starts from the same number, so the body gets valid values that are thrown away.
    kept, t.builder = t.builder, Builder(t.builder.next_id)
    dry = FunctionScope([dict(active.scopes[0])], returned=[])
    t.stack.append(dry)
    try:
        with t.block(frames=1):
            t.run(function.body)
    finally:
        t.stack.pop()
        t.builder = kept
    assert dry.returned
    types = [reduce(common_type, column) for column in zip(*(found for _, found in dry.returned), strict=True)]
    return dry.returned[0][0], types
