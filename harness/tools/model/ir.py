"""Lower a program of the model to IR of stage `source` without the frontend, by tables of its node classes."""

from __future__ import annotations

from ....compiler.ir.kernels import Kernel, Param
from ....compiler.ir.types import ArrayType, i32

# Imported to fill the tables.
from . import lower_calls, lower_expressions, lower_functions, lower_statements, lower_structs, lower_vectors  # noqa: F401
from . import nodes as m
from .lowering import Lowerer


def render_ir(program: m.Program, in_memory: bool = False) -> Kernel:
    """Return the kernel of stage `source` that has the meaning of a program.

    The arrays and arguments of the kernel have the names of the program.

    Args:
        program: The program to lower.
        in_memory: If True, vectors declared inside loops are local arrays.
    """
    t = Lowerer(program, in_memory)
    t.run(program.kernel.body)
    t.flush()
    params = [Param(name, p.dtype) for p in program.arguments if p.dtype for name in p.entries]
    params += [Param(f"{v.name}.{part}", i32) for f in program.fields for v in f.views for part in ("offset", "size")]
    params += [Param(f.name, ArrayType(f.dtype, len(f.storage), f.grad)) for f in program.fields]
    if program.kernel.result is not None:
        params.append(Param(m.RESULT, ArrayType(program.kernel.result, 0, False)))
    return Kernel(program.kernel.name, tuple(params), tuple(t.tasks))
