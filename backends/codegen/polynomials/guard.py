"""This module lets libm compute the lanes whose arguments lie outside the range of inlined code, and only those lanes.

The inlined code runs on all lanes. A branch that is practically never taken leads to a loop over the lanes, in a
function of its own that is shared by vectors of all widths.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import ir
from ..builder import IRBuilder
from ..emit import ArithEmitter
from ..types import I64, PTR, VOID, const, element, suffix

Inside = Callable[..., ir.LLVMValue]
"""inside(e, *args): the condition that the inlined code covers the arguments; it must hold where one is NaN."""


def guard_range(
    e: ArithEmitter,
    name: str,
    scalar: ir.LLVMFunction,
    inside: Inside,
    fast: ir.LLVMValue,
    args: list[ir.LLVMValue],
    active: ir.LLVMValue,
) -> ir.LLVMValue:
    """Emit a range check, and return `fast` with the lanes that the inlined code does not cover computed by libm.

    Args:
        e: Arithmetic to emit into; its open block is the function's entry.
        name: Name of the operation.
        scalar: The library's function of one scalar.
        inside: Gives the condition that the inlined code covers the arguments.
        fast: Result of the inlined code.
        args: Operands.
        active: Mask of the active lanes; the others may hold anything, and are not repaired.
    """
    b, t = e.b, fast.type
    outside = _any(b, b.and_(active, b.xor(inside(e, *args), const(active.type, True))))
    places = [b.alloca(t) for _ in range(len(args) + 1)]
    before = b.block
    slow, done = (b.function.append_basic_block(part) for part in ("outside", "inside"))
    b.cbranch(outside, slow, done, unlikely=True)
    b.position_at_end(slow)
    repaired = _repaired(e, places, [*args, fast], _lane_loop(e, name, scalar, inside, element(t), len(args)))
    b.branch(done)
    b.position_at_end(done)
    out = b.phi(t)
    out.add_incoming(fast, before)
    out.add_incoming(repaired, slow)
    return out


def _repaired(
    e: ArithEmitter, places: list[ir.LLVMValue], values: list[ir.LLVMValue], loop: ir.LLVMFunction
) -> ir.LLVMValue:
    """Emit a call of `loop`, which computes the lanes that inlined code does not cover, and return all results."""
    # Arguments and results pass through memory: vectors in registers have no common calling convention.
    for value, place in zip(values, places):
        e.b.store(value, place)
    t = values[0].type
    e.b.call(loop, [*places, const(I64, t.count if isinstance(t, ir.VectorType) else 1)])
    return e.b.load(places[-1], t)


def _any(b: IRBuilder, condition: ir.LLVMValue) -> ir.LLVMValue:
    """Return a scalar condition: `condition` holds in at least one lane."""
    if not isinstance(condition.type, ir.VectorType):
        return condition
    # The bits of the lanes are compared as one integer.
    word = ir.IntType(condition.type.count)
    return b.icmp_unsigned("!=", b.bitcast(condition, word), const(word, 0))


def _lane_loop(
    e: ArithEmitter, name: str, scalar: ir.LLVMFunction, inside: Inside, t: ir.Type, arity: int
) -> ir.LLVMFunction:
    """Define the function that calls the math library for each lane whose arguments the inlined code does not cover.

    The function is sg.NAME.lanes(arguments..., results, count); it overwrites the results of these lanes.
    """

    def body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
        b, count, before = e.b, function.args[-1], e.b.block
        lane, outside, last, done = map(function.append_basic_block, ("lane", "outside", "next", "done"))
        b.branch(lane)
        b.position_at_end(lane)
        k = b.phi(I64)
        k.add_incoming(const(I64, 0), before)
        args = [b.load(b.gep(place, k, t), t) for place in function.args[:arity]]
        b.cbranch(inside(e, *args), last, outside)
        b.position_at_end(outside)
        b.store(b.call(scalar, args), b.gep(function.args[arity], k, t))
        b.branch(last)
        b.position_at_end(last)
        following = b.add(k, const(I64, 1))
        k.add_incoming(following, last)
        b.cbranch(b.icmp_unsigned("<", following, count), lane, done)
        b.position_at_end(done)
        b.ret_void()

    params = [*[PTR] * (arity + 1), I64]
    return e.m.helper(f"sg.{name}.lanes.{suffix(t)}", VOID, params, body, ("nounwind", "noinline", "cold"))
