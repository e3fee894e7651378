"""This module emits `print`: a thread reserves room in the print buffer and writes a record there.

The counters have 32 bits, so room is claimed only where some is left; otherwise a counter could wrap. Invariant: a
counter is below CAPACITY and what all threads that run at once claim.
"""

from __future__ import annotations

from ...compiler.ir import nodes as n
from ..codegen import ir
from ..codegen.prints import CAPACITY, HEAD, HEADER
from . import access
from .bindings import BLOCK
from .code import I32, I64, ArithmeticWriter
from .emit import ArithEmitter, Emitter
from .statements import LOWER, to_memory


@LOWER.row(n.Print)
def _print(e: Emitter, stmt: n.Print) -> None:
    """Emit a print, which writes a record with the arguments if the print buffer has room."""
    b, layout = e.b, e.m.layout
    words = HEAD + len(stmt.args)
    claim = e.m.helper("sg.print", I64, [I64] * 5, _claim)
    head = e.word(words << 32 | e.m.site("print", e.task, stmt) + 1)
    first = e.slot_address(layout.first_print_at)
    place: ir.LLVMValue = b.call(claim, [e.slot(layout.print_at), first, e.slot(layout.printer_at), head, e.iteration])
    with b.if_then(b.icmp_unsigned("!=", place, e.word(0))):
        place = access.rooted(place, _root(e))
        for at, value in enumerate(stmt.args, HEAD):
            content = to_memory(e, e.operand(value), value.type.is_bool)
            access.store(b, _widened(e, content), b.add(place, e.word(8 * at)))


def _root(e: ArithEmitter) -> int | None:
    """Return the binding of the print buffer, or None on devices with buffer addresses."""
    return None if e.m.bindings is None else e.m.bindings.prints


def _widened(e: Emitter, value: ir.LLVMValue) -> ir.LLVMValue:
    """Return an integer widened to at least 32 bits, because not every device stores smaller words."""
    t = value.type
    return e.b.zext(value, I32) if isinstance(t, ir.IntType) and t.width < 32 else value


def _claim(e: ArithEmitter, b: ArithmeticWriter) -> None:
    """Write the function sg.print, which reserves room for a record in the print buffer.

    The function returns the address of a record, or 0 if there is no room.
    """
    buffer, first = access.rooted(b.args[0], _root(e)), access.rooted(b.args[1], BLOCK if e.m.bindings else None)
    printer, head, iteration = b.args[2:]
    words, most = b.trunc(b.lshr(head, e.word(32)), I32), b.const(I32, CAPACITY)
    # An atomic or with 0 is an atomic load of the counter.
    claimed = access.atomic(b, "AtomicOr", buffer, b.const(I32, 0))
    with b.if_then(b.icmp_unsigned("<", claimed, most)):
        begin = access.atomic(b, "AtomicIAdd", buffer, words)
        with b.if_then(b.icmp_unsigned("<=", b.add(begin, words), most)):
            launch = _launch(b, first, b.add(begin, b.const(I32, 1)))
            place = b.add(buffer, b.shl(b.add(b.zext(begin, I64), e.word(HEADER)), e.word(3)))
            for at, value in enumerate((printer, head, b.zext(launch, I64), iteration)):
                access.store(b, value, b.add(place, e.word(8 * at)))
            b.ret(place)
    access.atomic(b, "AtomicIAdd", b.add(buffer, e.word(8)), b.const(I32, 1))
    b.ret(e.word(0))


def _launch(b: ArithmeticWriter, first: ir.LLVMValue, own: ir.LLVMValue) -> ir.LLVMValue:
    """Return the number of the launch, which is the position of its first print record in the buffer."""
    known = access.compare_exchange(b, first, b.const(I32, 0), own)
    return b.select(b.icmp_unsigned("==", known, b.const(I32, 0)), own, known)
