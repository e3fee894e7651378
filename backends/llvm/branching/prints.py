"""This module emits prints for a GPU: a thread claims room in a buffer and writes a record (codegen/prints.py)."""

from __future__ import annotations

from collections.abc import Sequence

from ....compiler.ir import nodes as n
from ...codegen import ir
from ...codegen.emit import ArithEmitter
from ...codegen.prints import CAPACITY, HEAD, HEADER
from ...codegen.types import I8, I32, I64, const, pointer
from ..emit import Emitter


def record(e: Emitter, stmt: n.Print, arguments: Sequence[ir.LLVMValue]) -> None:
    """Emit, at the builder's position, the code that writes a record into the print buffer.

    Args:
        e: Emitter of the function.
        stmt: The print statement.
        arguments: Arguments in the form that they have in memory.
    """
    b, layout, place = e.b, e.m.layout, pointer(e.m.target.space)
    words = HEAD + len(arguments)
    claim = e.m.helper("sg.print", place, [place, place, I64, I64, I64], _claim, ("nounwind", "cold", "noinline"))
    buffer, first = e.slot_address(layout.print_at), e.temp(layout.first_print_at)
    head = words << 32 | e.m.site("print", e.task, stmt) + 1
    found = b.call(claim, [buffer, first, e.slot(layout.printer_at), const(I64, head), e.iteration])
    with b.if_then(b.icmp_unsigned("!=", b.ptrtoint(found, I64), const(I64, 0))):
        for at, value in enumerate(arguments, HEAD):
            b.store(value, b.gep(found, const(I64, 8 * at), I8, inbounds=True))


def _claim(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Define `sg.print`, which reserves space for a record and returns its address, or null if the buffer is full."""
    b, m, (buffer, first, printer, head, iteration) = e.b, e.m, function.args
    words = b.lshr(head, const(I64, 32))
    begin = b.atomic_rmw("add", buffer, words, "monotonic")
    full = b.icmp_unsigned(">", b.add(begin, words), const(I64, CAPACITY))
    with b.if_then(full):
        b.atomic_rmw("add", b.gep(buffer, const(I64, 8), I8, inbounds=True), const(I64, 1), "monotonic")
        b.ret(ir.LLVMValue(pointer(m.target.space), "null"))
    own = b.trunc(b.add(begin, const(I64, 1)), I32)
    # All records of a launch carry the place of its first record, which tells launches apart.
    known, is_first = b.cmpxchg(first, const(I32, 0), own, "monotonic", m.target.scope)
    launch = b.zext(b.select(is_first, own, known), I64)
    place = b.gep(buffer, b.add(begin, const(I64, HEADER)), I64, inbounds=True)
    for at, value in enumerate((printer, head, launch, iteration)):
        b.store(value, b.gep(place, const(I64, 8 * at), I8, inbounds=True))
    b.ret(place)
