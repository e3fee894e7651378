"""What threads of a warp and of a block do together, as helpers of the module with fixed names.

`sg.warp.*` and `sg.block.*` are the only code that knows of warps: whoever runs the module elsewhere replaces them by
their meaning for one thread, by name. Special registers are read through the intrinsics of NVPTX and nothing else.
"""
from __future__ import annotations

from ..llvm import ir
from ..llvm.builder import IRBuilder
from ..llvm.emit import Arith, ModuleState
from ..llvm.target import NVPTX
from ..llvm.types import I1, I32, I64, const, pointer


def special(m: ModuleState, b: IRBuilder, name: str) -> ir.Value:
    """A special register, as an i32."""
    return b.call(m.declare(f"llvm.nvvm.read.ptx.sreg.{name}", I32, []), [])


def _wide(m: ModuleState, b: IRBuilder, name: str) -> ir.Value:
    return b.zext(special(m, b, name), I64)


def thread(m: ModuleState, b: IRBuilder) -> ir.Value:
    """Number of this thread in the grid."""
    return b.add(b.mul(_wide(m, b, "ctaid.x"), _wide(m, b, "ntid.x")), _wide(m, b, "tid.x"))


def threads(m: ModuleState, b: IRBuilder) -> ir.Value:
    """Number of threads of the grid."""
    return b.mul(_wide(m, b, "nctaid.x"), _wide(m, b, "ntid.x"))


def claim(m: ModuleState, b: IRBuilder, cell: ir.Value) -> ir.Value:
    """The next number of a counter, by one atomic for all lanes that ask together. cell: address of an i64."""
    function = m.helper("sg.warp.claim", I64, [pointer(NVPTX.space)], _claim, ("nounwind", "convergent", "noinline"))
    return b.call(function, [cell])


def _claim(e: Arith, function: ir.Function) -> None:
    """Lanes number themselves below the first one, which adds their number to the counter and tells the sum before."""
    b, m, (cell,) = e.b, e.m, function.args
    active = b.call(m.declare("llvm.nvvm.activemask", I32, []), [])
    below = b.and_(active, special(m, b, "lanemask.lt"))
    rank = e.intrinsic("ctpop", below)
    first = b.call(m.declare("llvm.cttz.i32", I32, [I32, I1]), [active, const(I1, True)])
    before = b.block
    adds, all_know = function.append_basic_block("first"), function.append_basic_block("all")
    b.cbranch(b.icmp_unsigned("==", rank, const(I32, 0)), adds, all_know)
    b.position_at_end(adds)
    found = b.atomic_rmw("add", cell, b.zext(e.intrinsic("ctpop", active), I64), "monotonic")
    told = b.trunc(found, I32)
    b.branch(all_know)
    b.position_at_end(all_know)
    base = b.phi(I32)
    base.add_incoming(const(I32, 0), before)
    base.add_incoming(told, adds)
    shuffle = m.declare("llvm.nvvm.shfl.sync.idx.i32", I32, [I32] * 4)
    start = b.call(shuffle, [active, base, first, const(I32, 31)])
    b.ret(b.zext(b.add(start, rank), I64))
