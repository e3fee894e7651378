"""This module traces loops: parallel at the top level of a kernel, serial inside blocks, unrolled under `sg.static`.

A parallel range with a step counts its iterations k = 0, 1, ...; its index is begin + k·step. The same holds for every
range whose step only the launch knows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.statement import Stmt, Value
from ..ir.types import i64, u1
from ..ir.walk import walk
from .activation import LoopFrame
from .assigned_names import assigned_in_body
from .block_sizes import block_size
from .context import STATEMENTS, BlockUse, Tracer
from .diagnostics import PoisonError, ProblemError, syntax_problem, type_problem
from .domains import LoopDomain, chosen, declared, domain_of, target_names
from .limits import check_size, static_items
from .loop_bounds import as_value, bound_value, index_type, strided, trip_count
from .loop_dependence import append_loop
from .memory import declare
from .operands import Operand, Static, integer_of, static_operand
from .protocols import is_field
from .scope import FixedName
from .statements import bind_static, guarded_condition
from .static import evaluate_static, static_call

_NOT_IN_BOUNDS = (n.Store, n.Atomic, n.Random, n.Return)
"""Bounds only read and compute; a statement with an effect runs in the serial task before."""


@STATEMENTS.row(ast.For)
def _for(t: Tracer, node: ast.For) -> bool:
    if node.orelse:
        t.report(_no_else(), node.orelse[0])
    # `loop_config(serialize=True)` affects only the next loop.
    serial, t.serialize_next = t.serialize_next or t.nesting > 0, False
    segment, t.segment_next = t.segment_next, 0
    if not t.nesting:
        t.block_use, t.block_dim = BlockUse(t.block_dim), None
    try:
        node = _with_chosen(t, node)
        call = static_call(t, node.iter)
        if call is not None:
            return _unrolled(t, node, _static_items(t, call))
        domain = domain_of(t, node)
    except ProblemError as problem:
        t.report(problem, node.iter)
    except PoisonError:
        pass
    else:
        if serial:
            _serial(t, node, domain, segment)
        else:
            _parallel(t, node, domain)
        return False
    # The body of a faulty loop is traced too, so that its mistakes are reported.
    with _body(t, "faulty"):
        t.poison_targets(node.target)
        t.run(node.body)
    return False


def _with_chosen(t: Tracer, node: ast.For) -> ast.For:
    """Return the loop with `a if condition else b` after `in` replaced by the one that the condition selects."""
    found = chosen(t, node.iter)
    if found is node.iter:
        return node
    return ast.copy_location(ast.For(node.target, found, node.body, node.orelse, node.type_comment), node)


def _no_else() -> ProblemError:
    return syntax_problem(
        "`else` after a loop is not part of the kernel language", "set a flag in the loop and test it"
    )


@contextmanager
def _body(t: Tracer, kind: str, frames: int = 1) -> Iterator[list[Stmt]]:
    """Open the block of a loop's body, so that `break` and `continue` in it refer to this loop.

    Args:
        t: the tracer.
        kind: kind of the loop, such as serial or unrolled, for messages.
        frames: number of IR loops and scopes that the loop consists of.
    """
    with t.frame(frames) as innermost, t.block() as body:
        t.active.loops.append(LoopFrame(kind, innermost - frames + 1, innermost))
        try:
            yield body
        finally:
            t.active.loops.pop()


def _declare_indices(t: Tracer, node: ast.For, domain: LoopDomain, indices: Sequence[Value]) -> None:
    """Bind the index names of a loop; a name that the body assigns becomes a local if the domain allows it."""
    assigned = assigned_in_body(node) if domain.assignable else frozenset()
    for target, operand in declared(node, domain, indices):
        _declare(t, target, operand, is_local=target.id in assigned)


def _declare(t: Tracer, target: ast.Name, operand: Operand, is_local: bool = False) -> None:
    """Bind the index name of a loop until the end of the loop. Refuse a name that a visible variable has."""
    binding = t.scopes.find(target.id)
    if target.id != "_" and binding is not None and not (isinstance(binding, FixedName) and binding.kind == "faulty"):
        t.report(_taken(target), target)
    binding = declare(t, target.id, operand) if is_local else FixedName(operand, "loop index")
    t.scopes.declare(target.id, binding, target.lineno)


# ---- serial -------------------------------------------------------------------------------------------------------


def _serial(t: Tracer, node: ast.For, domain: LoopDomain, segment: int) -> None:
    if domain.stride is not None:
        _serial_stride(t, node, domain, domain.stride, segment)
        return
    bounds = domain.bounds(t)
    types = [index_type(t, b) for b in bounds]
    ends = [(bound_value(t, b.begin, dtype), bound_value(t, b.end, dtype)) for b, dtype in zip(bounds, types)]
    indices = [t.builder.fresh(dtype) for dtype in types]
    with _body(t, "serial", frames=len(indices)) as body:
        _declare_indices(t, node, domain, indices)
        t.run(node.body)
    for index, (begin, end) in reversed(list(zip(indices, ends))):
        loop = n.For(index, begin, end, tuple(body), domain.step, domain.descending, loc=t.builder.loc)
        body = [loop]
    if segment and isinstance(body[0], n.For):
        body = [replace(body[0], segment=segment)]
    t.splice(body)


def _serial_stride(t: Tracer, node: ast.For, domain: LoopDomain, stride: Value, segment: int) -> None:
    count, index_of = strided(t, domain, stride)
    k, zero = t.builder.fresh(i64), t.builder.const(0, i64)
    with _body(t, "serial") as body:
        _declare(t, target_names(node)[0], index_of(k))
        t.run(node.body)
    t.builder.emit(n.For(k, zero, count, tuple(body), 1, domain.descending, segment=segment, loc=t.builder.loc))


@STATEMENTS.row(ast.While)
def _while(t: Tracer, node: ast.While) -> bool:
    if node.orelse:
        t.report(_no_else(), node.orelse[0])
    again = _do_while(t, node.test)
    if again is not None:
        _repeat(t, node, again)
        return False
    with t.block() as condition:
        test = guarded_condition(t, node.test)
    with _body(t, "serial") as body:
        loop = t.active.loops[-1]
        t.run(node.body)
    t.builder.emit(n.While(tuple(condition), test, tuple(body), loc=t.builder.loc))
    # The end of `while True` without `break` is never passed.
    constant = condition[-1] if condition else None
    return isinstance(constant, n.Const) and bool(constant.value) and len(condition) == 1 and not loop.broken


def _do_while(t: Tracer, test: ast.expr) -> ast.expr | None:
    """Return the flag of `graph.do_while(flag)`, or None for any other test."""
    for name in ("do_while", "graph_do_while"):
        call = static_call(t, test, name, "graph_do_while")
        if call is not None:
            if len(call.args) != 1 or call.keywords:
                raise syntax_problem("`do_while` takes one flag", "write `while sg.graph.do_while(flag):`", test)
            return call.args[0]
    return None


def _repeat(t: Tracer, node: ast.While, flag: ast.expr) -> None:
    """Emit a loop that runs the body once and repeats it while `flag`, a 0-d field or a number, is not 0."""
    first = t.builder.local(t.namer.unique("first"), u1, t.builder.const(True, u1))
    with t.block() as condition:
        found = t.clean(flag)
        if isinstance(found, Static) and is_field(found.value) and not found.value.shape:
            array = t.captures.array(found.value, found.hint)
            found = t.builder.load(array, (), found.value.dtype)
        test = t.builder.op("logical_or", t.builder.get(first, u1), t.condition(found))
    with _body(t, "serial") as body:
        t.builder.set(first, t.builder.const(False, u1))
        t.run(node.body)
    t.builder.emit(n.While(tuple(condition), test, tuple(body), loc=t.builder.loc))


# ---- parallel -----------------------------------------------------------------------------------------------------


def _parallel(t: Tracer, node: ast.For, domain: LoopDomain) -> None:
    """Add a parallel task for a `for` loop; statements emitted before the loop become a serial task."""
    if domain.stride is not None:
        _parallel_stride(t, node, domain, domain.stride)
        return
    if domain.step != 1:
        _parallel_steps(t, node, domain)
        return
    with t.block() as block:
        bounds = domain.bounds(t)
        types = [index_type(t, b) for b in bounds]
        begin = tuple(bound_value(t, b.begin, dtype) for b, dtype in zip(bounds, types))
        end = tuple(bound_value(t, b.end, dtype) for b, dtype in zip(bounds, types))
    # Bounds with effects move into the serial task before the loop.
    if any(isinstance(s, _NOT_IN_BOUNDS) for s in walk(tuple(block))):
        t.splice(block)
        block = []
    indices = tuple(t.builder.fresh(dtype) for dtype in types)
    with _task_body(t) as body:
        _declare_indices(t, node, domain, indices)
        t.run(node.body)
    _append(t, Task(tuple(body), indices, tuple(block), begin, end, t.builder.loc))


def _append(t: Tracer, task: Task) -> None:
    append_loop(t, replace(task, block=block_size(t)) if t.block_use.is_used else task)


@contextmanager
def _task_body(t: Tracer) -> Iterator[list[Stmt]]:
    flush(t)
    t.in_parallel = True
    t.active.loops.append(LoopFrame("parallel"))
    try:
        with t.block() as body:
            yield body
    finally:
        t.active.loops.pop()
        t.in_parallel = False


def flush(t: Tracer) -> None:
    """Turn the statements emitted since the last task, outside of all loops, into a serial task, if there are any."""
    body = t.builder.take()
    if body:
        t.tasks.append(Task(body, loc=body[0].loc))


def _parallel_steps(t: Tracer, node: ast.For, domain: LoopDomain) -> None:
    """Add a parallel task over the trips k = 0 .. ceil((end - begin)/step) - 1 of a range with a step.

    begin + k·step wraps in the index's type, so it is exact wherever the index itself fits. k is i64 where a step of -1
    could count more iterations than i32 holds.
    """
    (bounds,) = domain.bounds(t)
    dtype = index_type(t, bounds)
    ends = integer_of(bounds.begin), integer_of(bounds.end)
    begin, end = (e if e is not None else bound_value(t, o, dtype) for e, o in zip(ends, (bounds.begin, bounds.end)))
    count_type = i64 if domain.step == -1 and None in ends else dtype
    with t.block() as block:
        zero = t.builder.const(0, count_type)
        if isinstance(begin, int) and isinstance(end, int):
            count = t.builder.const(len(range(begin, end, domain.step)), count_type)
        else:
            count = t.builder.cast(
                trip_count(t, as_value(t, begin, i64), as_value(t, end, i64), domain.step), count_type
            )
    k = t.builder.fresh(count_type)
    with _task_body(t) as body:
        offset = t.builder.op("mul", t.builder.cast(k, dtype), t.builder.const(domain.step, dtype))
        _declare(t, target_names(node)[0], t.builder.op("add", as_value(t, begin, dtype), offset))
        t.run(node.body)
    _append(t, Task(tuple(body), (k,), tuple(block), (zero,), (count,), t.builder.loc))


def _parallel_stride(t: Tracer, node: ast.For, domain: LoopDomain, stride: Value) -> None:
    count, index_of = strided(t, domain, stride)
    with t.block() as block:
        zero = t.builder.const(0, i64)
    k = t.builder.fresh(i64)
    with _task_body(t) as body:
        _declare(t, target_names(node)[0], index_of(k))
        t.run(node.body)
    _append(t, Task(tuple(body), (k,), tuple(block), (zero,), (count,), t.builder.loc))


# ---- unrolled -----------------------------------------------------------------------------------------------------


def _static_items(t: Tracer, call: ast.Call) -> list[Any]:
    values = evaluate_static(t, call, is_sequence=True).value
    try:
        return static_items(values)
    except TypeError:
        raise type_problem(f"a {type(values).__name__} cannot be looped over", "write `sg.static(range(n))`") from None


def _unrolled(t: Tracer, node: ast.For, items: list[Any]) -> bool:
    """Emit the body of an unrolled loop once for each item. Return True if control cannot continue after the loop."""
    if _exits(node.body):
        _unrolled_in_scopes(t, node, items)
        return False
    with t.scopes.iterations() as begin:
        for item in items:
            # The number of values is a good measure of the size of the kernel.
            check_size(t.builder.next_id)
            begin()
            with t.scopes.inner(dynamic=False):
                _bind_item(t, node, item)
                if t.run(node.body):
                    return True
    return False


def _unrolled_in_scopes(t: Tracer, node: ast.For, items: list[Any]) -> None:
    with t.frame() as whole, t.block() as body, t.scopes.iterations() as begin:
        for item in items:
            check_size(t.builder.next_id)
            begin()
            with t.frame() as one, t.block() as iteration:
                t.active.loops.append(LoopFrame("unrolled", whole, one))
                try:
                    _bind_item(t, node, item)
                    t.run(node.body)
                finally:
                    t.active.loops.pop()
            t.builder.emit(n.Scope(tuple(iteration), loc=t.builder.loc))
    t.builder.emit(n.Scope(tuple(body), loc=t.builder.loc))


def _bind_item(t: Tracer, node: ast.For, item: Any) -> None:
    """Bind the target names of an unrolled loop to an item for one iteration. Refuse names that exist already."""
    for target in ast.walk(node.target):
        if isinstance(target, ast.Name) and target.id != "_" and t.scopes.find(target.id) is not None:
            raise _taken(target)
    bind_static(
        t, node.target, static_operand(item, ast.unparse(node.target) if isinstance(node.target, ast.Name) else "")
    )


def _taken(target: ast.Name) -> ProblemError:
    return syntax_problem(
        f"`{target.id}` has a meaning here already and cannot be the index of this loop",
        "choose another name for the index",
        target,
    )


def _exits(body: list[ast.stmt]) -> bool:
    """Return True if the loop body contains a `break` or `continue` that belongs to this loop."""
    for stmt in body:
        if isinstance(stmt, (ast.Break, ast.Continue)):
            return True
        if isinstance(stmt, (ast.For, ast.While)):
            continue
        inner = [getattr(stmt, name, []) for name in ("body", "orelse")]
        if any(_exits(block) for block in inner if isinstance(block, list)):
            return True
    return False
