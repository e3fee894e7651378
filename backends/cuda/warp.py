"""What threads of a warp and of a block do together, as helpers of the module with fixed names.

`sg.warp.*` and `sg.block.*` are the only code that knows of warps: whoever runs the module elsewhere replaces them by
their meaning for one thread, by name. Special registers are read through the intrinsics of NVPTX and nothing else.
"""
from __future__ import annotations

from ..llvm import ir
from ..llvm.builder import IRBuilder
from ..llvm.emit import ModuleState
from ..llvm.types import I32, I64


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
