"""This pass converts a kernel to double precision: every real value, local, temporary, array and adstack is f64.

    %1: f32 = load x[%0]; %2: f32 = sin %1      →      %1: f64 = load x[%0]; %2: f64 = sin %1

The widened kernel separates rounding from meaning: its results differ from those of the original kernel by rounding
alone. A cast between real types disappears. The bits of a real have no counterpart in f64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import Unsupported
from ..ir import nodes as n
from ..ir.kernels import Kernel, Task
from ..ir.nodes import ROLES
from ..ir.roles import LOCAL_DECLARATIONS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import ArrayType, Scalar, f64
from ..ir.walk import rename, walk_kernel


def widen(kernel: Kernel) -> Kernel:
    """Return a kernel of any stage in double precision; the stage stays the same.

    Raises:
        Unsupported: the kernel reads or makes the bits of a real.
    """
    for stmt in walk_kernel(kernel):
        if isinstance(stmt, n.BitCast) and _reads_bits(stmt):
            reason = "the bits of a real have no meaning in double precision"
            raise Unsupported(reason, "compare this kernel in its own precision", kernel.span(stmt.loc))
    params = tuple(replace(p, type=_wide_param(p.type)) for p in kernel.params)
    temps = tuple(replace(t, dtype=_wide(t.dtype)) for t in kernel.temps)
    return replace(kernel, params=params, temps=temps, tasks=tuple(_task(t) for t in kernel.tasks))


def _reads_bits(stmt: n.BitCast) -> bool:
    """Return True if a bit cast converts between a real type and another type."""
    return stmt.arg.type != stmt.result.type and (stmt.arg.type.is_real or stmt.result.type.is_real)


def _wide(dtype: Scalar) -> Scalar:
    return f64 if dtype.is_real else dtype


def _wide_param(dtype: Scalar | ArrayType) -> Scalar | ArrayType:
    return replace(dtype, dtype=_wide(dtype.dtype)) if isinstance(dtype, ArrayType) else _wide(dtype)


def _value(value: Value | None) -> Value | None:
    return None if value is None else Value(value.id, _wide(value.type))


def _values(content: Any) -> Any:
    return tuple(_value(v) for v in content) if isinstance(content, tuple) else _value(content)


def _task(task: Task) -> Task:
    ends = {k: _values(getattr(task, k)) for k in ("indices", "begin", "end")}
    return replace(task, bounds=_block(task.bounds, {}), body=_block(task.body, {}), **ends)


def _block(block: Block, same: dict[Value, Value]) -> Block:
    """Return the block in double precision. `same` maps the result of each removed cast to its operand."""
    out: list[Stmt] = []
    for stmt in block:
        made = rename(_statement(stmt, same), same) if same else _statement(stmt, same)
        if isinstance(made, n.Cast) and made.arg.type == made.result.type:
            same[made.result] = made.arg
        else:
            out.append(made)
    return tuple(out)


def _statement(stmt: Stmt, same: dict[Value, Value]) -> Stmt:
    changes: dict[str, Any] = {}
    for name, role in ROLES[type(stmt)]:
        old = getattr(stmt, name)
        changes[name] = _block(old, same) if role == "block" else _values(old)
    if isinstance(stmt, (*LOCAL_DECLARATIONS, n.StackAlloca)):
        changes["dtype"] = _wide(stmt.dtype)
    return replace(stmt, **changes)
