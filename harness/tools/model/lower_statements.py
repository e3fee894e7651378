"""Lower the statements of the program model to IR: assignments, branches, exits and loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Task
from ....compiler.ir.statement import Block, Value
from ....compiler.ir.types import i32, i64
from ....compiler.ir.walk import walk as walk_ir
from . import nodes as m
from .lower_expressions import ATOMICS, binary
from .lower_places import axes_of, in_array, lower_place, read, update, write
from .lower_strides import lower_range
from .lowering import EXPRESSIONS, STATEMENTS, LocalSlot, LoopTargets, Lowerer, ModelOperand, index_type
from .single_loops import is_single
from .tensors import StructOperand, TensorOperand, leaves

# ---- assignment -------------------------------------------------------------------------------------------------


def assign_name(t: Lowerer, name: str, operand: ModelOperand) -> None:
    """Store to a local; the first assignment declares the local with the type of its value."""
    found = t.find(name)
    if isinstance(found, (LocalSlot, TensorOperand, StructOperand)):
        write(t, found, operand)
    else:
        t.declare(name, operand)


@EXPRESSIONS.row(m.Walrus)
def _walrus(t: Lowerer, e: m.Walrus) -> ModelOperand:
    assign_name(t, e.name, t.expr(e.value))
    return t.expr(m.Name(e.name))


@STATEMENTS.row(m.Assign)
def _assign(t: Lowerer, s: m.Assign) -> None:
    """Evaluate all values first, then write the targets from left to right, each with its indices."""
    operands: tuple[ModelOperand, ...] = tuple(t.expr(v) for v in s.values)
    if len(operands) == 1 and isinstance(operands[0], tuple):
        operands = operands[0]
    for target, operand in zip(s.targets, operands, strict=True):
        if isinstance(target, m.Name):
            assign_name(t, target.name, operand)
        else:
            write(t, lower_place(t, target), operand)


@STATEMENTS.row(m.Declare)
def _declare(t: Lowerer, s: m.Declare) -> None:
    assign_name(t, s.name, t.value(t.expr(s.value), s.dtype))


@STATEMENTS.row(m.Augment)
def _augment(t: Lowerer, s: m.Augment) -> None:
    if isinstance(s.target, m.Name):
        old = t.expr(s.target)
        assign_name(t, s.target.name, binary(t, s.op, old, t.expr(s.value)))
        return
    place = lower_place(t, s.target)
    if s.op in ATOMICS and in_array(place):
        update(t, ATOMICS[s.op], place, t.expr(s.value))
        return
    old = read(t, place)
    write(t, place, binary(t, s.op, old, t.expr(s.value)))


@STATEMENTS.row(m.Evaluate)
def _evaluate(t: Lowerer, s: m.Evaluate) -> None:
    t.expr(s.value)


@STATEMENTS.row(m.Pass)
def _pass(t: Lowerer, s: m.Pass) -> None:
    return None


# ---- branches and exits -----------------------------------------------------------------------------------------


@STATEMENTS.row(m.If)
def _if(t: Lowerer, s: m.If) -> None:
    condition = t.condition(t.expr(s.condition))
    with t.block() as then:
        t.run(s.then)
    with t.block() as orelse:
        t.run(s.orelse)
    t.builder.if_(condition, then, orelse)


@STATEMENTS.row(m.Assert)
def _assert(t: Lowerer, s: m.Assert) -> None:
    t.builder.emit(n.Assert(t.condition(t.expr(s.condition)), s.message))


@STATEMENTS.row(m.Break)
def _break(t: Lowerer, s: m.Break) -> None:
    t.leave(t.active.loops[-1].break_to)


@STATEMENTS.row(m.Continue)
def _continue(t: Lowerer, s: m.Continue) -> None:
    loop = t.active.loops[-1]
    # In a parallel loop, `continue` ends the iteration.
    if loop.continue_to is None:
        t.builder.emit(n.Return())
    elif loop.unrolled:
        t.leave(loop.continue_to)
    else:
        # The depth counts the frames from the innermost one out to that of the loop.
        t.builder.emit(n.Continue(t.frames - loop.continue_to + 1))


@STATEMENTS.row(m.Return)
def _return(t: Lowerer, s: m.Return) -> None:
    active = t.active
    if len(t.stack) == 1:
        if t.program.kernel.result is not None:
            t.builder.store(m.RESULT, (), t.value(t.expr(s.values[0]), t.program.kernel.result))
        if t.nesting:
            t.builder.emit(n.Return())
        return
    found = tuple(t.expr(v) for v in s.values)
    values = [t.value(leaf) for leaf in leaves(found)]
    if active.returned is not None:
        # `_measure` only collects the operands and their types.
        active.returned.append((found, tuple(v.type for v in values)))
        return
    for result, value in zip(active.results, values, strict=True):
        t.builder.set(result.var, t.value(value, result.dtype))
    t.leave(active.return_frame)


# ---- loops ------------------------------------------------------------------------------------------------------


@STATEMENTS.row(m.While)
def _while(t: Lowerer, s: m.While) -> None:
    with t.block() as condition:
        test = t.condition(t.expr(s.condition))
    with t.block(frames=1) as body:
        _loop_body(t, s.body, LoopTargets(t.frames, t.frames))
    t.builder.emit(n.While(tuple(condition), test, tuple(body)))


@STATEMENTS.row(m.For)
def _for(t: Lowerer, s: m.For) -> None:
    if isinstance(s.domain, m.Unrolled):
        _unrolled(t, s, s.domain)
    elif isinstance(s.domain, m.Range) and s.domain.stride:
        (_serial_strides if t.nesting or s.serialize else _parallel_strides)(t, s, s.domain)
    elif t.nesting or s.serialize:
        _serial(t, s)
    elif isinstance(s.domain, m.Range) and s.domain.step != 1:
        _parallel_steps(t, s, s.domain)
    else:
        _parallel(t, s)


def _loop_body(t: Lowerer, body: m.StmtBlock, loop: LoopTargets) -> None:
    t.active.loops.append(loop)
    t.run(body)
    t.active.loops.pop()


Axis = tuple[Value, Value]


def _axes(t: Lowerer, domain: m.Domain) -> list[Axis]:
    """Return the begin and the end of each axis of a loop domain, both in the type of the axis's index."""
    if isinstance(domain, m.Grouped):
        return _axes(t, domain.domain)
    if isinstance(domain, m.Over):
        # A field without axes has one element, so a loop over it makes one trip.
        return axes_of(t, domain.field) or [(t.builder.const(0, i32), t.builder.const(1, i32))]
    ends = domain.axes if isinstance(domain, m.Box) else ((domain.begin, domain.end),)  # type: ignore[attr-defined]
    axes = [_axis(t, begin, end) for begin, end in [(_bound(t, b), t.expr(e)) for b, e in ends]]
    order = _order(domain)
    return [axes[k] for k in order] if order else axes


def _order(domain: m.Domain) -> tuple[int, ...]:
    """Return the axis of each nested loop over a box, outermost first; () if this is the order of the text."""
    if isinstance(domain, m.Grouped):
        return _order(domain.domain)
    return domain.order if isinstance(domain, m.Box) else ()


def _bound(t: Lowerer, begin: m.Expr | None) -> ModelOperand:
    return 0 if begin is None else t.expr(begin)


def _axis(t: Lowerer, begin: ModelOperand, end: ModelOperand) -> Axis:
    wide = i64 in (index_type(t.type_of(begin)), index_type(t.type_of(end)))
    dtype = i64 if wide else i32
    return t.value(begin, dtype), t.value(end, dtype)


def _serial_strides(t: Lowerer, s: m.For, domain: m.Range) -> None:
    """Emit a serial loop over a range whose step is known only at launch."""
    count, index_of = lower_range(t, domain)
    k, zero = t.builder.fresh(i64), t.builder.const(0, i64)
    with t.block(frames=1) as body:
        t.bind(s.indices[0], index_of(k))
        _loop_body(t, s.body, LoopTargets(t.frames, t.frames))
    t.builder.emit(n.For(k, zero, count, tuple(body), 1, domain.reverse))


def _parallel_strides(t: Lowerer, s: m.For, domain: m.Range) -> None:
    """Add a task for a parallel loop over a range whose step is known only at launch."""
    count, index_of = lower_range(t, domain)
    k, zero = t.builder.fresh(i64), t.builder.const(0, i64)
    t.flush()
    with t.block() as body:
        t.bind(s.indices[0], index_of(k))
        _loop_body(t, s.body, LoopTargets())
    t.tasks.append(Task(tuple(body), (k,), (), (zero,), (count,)))


def _serial(t: Lowerer, s: m.For) -> None:
    """Emit nested serial loops; `break` leaves all of them, and `continue` begins the innermost loop's next trip."""
    axes = _axes(t, s.domain)
    indices = [t.builder.fresh(begin.type) for begin, _ in axes]
    with t.block(frames=len(axes)) as body:
        for name, meaning in _named(t, s, indices).items():
            t.bind(name, meaning)
        _loop_body(t, s.body, LoopTargets(t.frames - len(axes) + 1, t.frames))
    step, reverse = (s.domain.step, s.domain.reverse) if isinstance(s.domain, m.Range) else (1, False)
    for index, (begin, end) in reversed(list(zip(indices, axes))):
        body = [n.For(index, begin, end, tuple(body), step, reverse)]
    t.builder.emit(body[0])


_NOT_IN_BOUNDS = (n.Store, n.Atomic, n.Random)


def _parallel(t: Lowerer, s: m.For) -> None:
    """Add a task for a parallel loop; bounds that have an effect run in the serial task before it."""
    with t.block() as bounds:
        axes = _axes(t, s.domain)
    # The bounds of a task must have no effect, so such bounds join the serial task before the loop.
    if any(isinstance(stmt, _NOT_IN_BOUNDS) for stmt in walk_ir(tuple(bounds))):
        for stmt in bounds:
            t.builder.emit(stmt)
        bounds = []
    indices = tuple(t.builder.fresh(begin.type) for begin, _ in axes)
    body = _task_body(t, s, _named(t, s, indices))
    begin, end = zip(*axes)
    t.tasks.append(Task(body, indices, tuple(bounds), begin, end))


def _named(t: Lowerer, s: m.For, indices: Sequence[Value]) -> dict[str, ModelOperand]:
    """Return the operand of each index name of a loop; a sole name for several axes gets the index vector."""
    if is_single(t.program, s.domain):
        return {s.indices[0]: ()}
    order = _order(s.domain)
    if order:
        indices = [indices[order.index(k)] for k in range(len(order))]
    if isinstance(s.domain, m.Grouped) or len(s.indices) < len(indices):
        return {s.indices[0]: TensorOperand((len(indices),), tuple(indices))}
    return dict(zip(s.indices, indices, strict=True))


def _task_body(t: Lowerer, s: m.For, indices: Mapping[str, ModelOperand]) -> Block:
    t.flush()
    with t.block() as body:
        for name, index in indices.items():
            t.bind(name, index)
        _loop_body(t, s.body, LoopTargets())
    return tuple(body)


def _parallel_steps(t: Lowerer, s: m.For, domain: m.Range) -> None:
    """Add a task for a parallel loop with a constant step, over trip numbers 0 .. ceil((end - begin)/step).

    The index begin + k·step is computed in 64 bits.
    """
    ends = _bound(t, domain.begin), t.expr(domain.end)
    # A bound that is a number of the text gets its type where it is used.
    dtype = i64 if i64 in (index_type(t.type_of(e)) for e in ends) else i32
    begin, end = (t.value(e, dtype) if isinstance(e, Value) else e for e in ends)
    b = t.builder
    with t.block() as bounds:
        size = b.const(abs(domain.step), i64)
        first, last = (t.value(e, i64) for e in ((begin, end) if domain.step > 0 else (end, begin)))
        count = b.op("floordiv", b.op("sub", b.op("add", b.op("sub", last, first), size), b.const(1, i64)), size)
        zero = b.const(0, i64)
        count = b.op("max", zero, count)
    k = b.fresh(i64)
    t.flush()
    with b.block() as head:
        index = b.cast(b.op("add", t.value(begin, i64), b.op("mul", k, b.const(domain.step, i64))), dtype)
    body = tuple(head) + _task_body(t, s, {s.indices[0]: index})
    t.tasks.append(Task(body, (k,), tuple(bounds), (zero,), (count,)))


def _unrolled(t: Lowerer, s: m.For, domain: m.Unrolled) -> None:
    """Emit one copy of the loop body for each index of an unrolled range.

    A copy has a scope of its own if it may leave early.
    """
    numbers = range(domain.begin, domain.end, domain.step)
    # Without exits the copies need no scopes, and the index stays a number of the text.
    if not _exits(s.body):
        for number in numbers:
            t.active.scopes.append({s.indices[0]: number})
            t.run(s.body)
            t.active.scopes.pop()
        return
    with t.block(frames=1) as whole:
        outer = t.frames
        for number in numbers:
            with t.block(frames=1) as one:
                t.bind(s.indices[0], number)
                _loop_body(t, s.body, LoopTargets(outer, t.frames, unrolled=True))
            t.builder.emit(n.Scope(tuple(one)))
    t.builder.emit(n.Scope(tuple(whole)))


def _exits(body: m.StmtBlock) -> bool:
    """Return True if a block contains a `break` or `continue` that belongs to the loop directly around the block."""
    for stmt in body:
        if isinstance(stmt, (m.Break, m.Continue)):
            return True
        if isinstance(stmt, m.If) and (_exits(stmt.then) or _exits(stmt.orelse)):
            return True
    return False
