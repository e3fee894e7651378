"""This module emits a loop over the lanes of a mask, for operations that a machine does one lane at a time.

Vectors whose lanes are wanted by number are copied to stack memory first, because a register cannot be indexed.
"""

from __future__ import annotations

from collections.abc import Callable

from ..codegen import ir
from ..codegen.emit import ArithEmitter
from ..codegen.types import I1, I64, const


def each_lane(a: ArithEmitter, mask: ir.LLVMValue, visit: Callable[[ir.LLVMValue], None]) -> None:
    """Emit a loop that runs `visit(lane)` for each set lane of the mask in order."""
    b, function = a.b, a.b.function
    assert isinstance(mask.type, ir.VectorType)
    count = mask.type.count
    bits = b.bitcast(mask, ir.IntType(count))
    if count < 64:
        bits = b.zext(bits, I64)
    head, body, done = (function.append_basic_block(f"lanes.{part}") for part in ("head", "body", "exit"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    rest = b.phi(bits.type)
    rest.add_incoming(bits, before)
    b.cbranch(b.icmp_unsigned("!=", rest, const(rest.type, 0)), body, done)
    b.position_at_end(body)
    lane = a.intrinsic("cttz", rest, const(I1, True))
    visit(b.trunc(lane, I64) if count > 64 else lane)
    following = b.and_(rest, b.sub(rest, const(rest.type, 1)))
    rest.add_incoming(following, b.block)
    b.branch(head)
    b.position_at_end(done)


def spilled(a: ArithEmitter, vector: ir.LLVMValue) -> ir.LLVMValue:
    """Store a vector to stack memory and return the address, so that single lanes can be read.

    The copy must be made at the head of a function.
    """
    place = a.b.alloca(vector.type)
    a.b.store(vector, place)
    return place
