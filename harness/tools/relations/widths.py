"""Check the relation that a kernel with wider types gives the same integers, and reals that differ by rounding only.

Kernels whose integers overflow are not judged, nor are kernels that read the bits of widened values or draw these at
random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ....compiler.errors import Unsupported
from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel, Task
from ....compiler.ir.nodes import ROLES
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.types import ArrayType, Scalar, i32, i64
from ....compiler.ir.walk import results, walk_kernel
from ....compiler.passes.widen import widen
from ....reference.traps import TRAPS
from ...testing.outcome import Arrays
from ..fuzz.instrument import WHOLE, boxes, trace_values
from ..fuzz.result import JudgedComparison
from .chain import DRAWS, LaunchChain, RelationExecutor
from .pairs import ChainPair

_OF_BITS = frozenset({"bit_shl", "bit_shr", "bit_sar", "popcnt", "clz", "ffs", "pow", "frexp_exponent"})
"""Operations whose result depends on the number of bits of an integer, or is an i32 for every operand."""
_KINDS = frozenset(kind.__name__ for kind in TRAPS)


def check(chain: LaunchChain, on: RelationExecutor, draw: int, forward: bool) -> Iterator[JudgedComparison]:
    """Yield the verdicts on a kernel against the same kernel with wider reals or wider integers.

    Args:
        chain: A chain of the kernel.
        on: The executor that is checked.
        draw: Number that selects reals or integers if the kernel has both.
        forward: True to compare values too.
    """
    reals, whole = _wide_reals(chain), _wide_integers(chain)
    other = reals if whole is None or draw % 2 else whole
    if other is None:
        return
    for judged in ChainPair("widened", chain, other, _KINDS).compare(on, forward):
        if other is reals or judged.verdict != "disagree" or fits(other):
            yield judged


# ---- reals ----------------------------------------------------------------------------------------------------


def _wide_reals(chain: LaunchChain) -> LaunchChain | None:
    drawn = (s for s in walk_kernel(chain.kernel) if isinstance(s, n.Random))
    if chain.made[0].is_wide or any(s.result.type.is_real for s in drawn):
        return None
    try:
        kernel = widen(chain.kernel)
    except Unsupported:
        return None
    types = chain.kernel.scalar_types()
    # Arguments are rounded to the narrow type first, so both launches start from the same numbers.
    rounded = {k: types[k](v) if k in types and types[k].is_real else v for k, v in chain.scalars.items()}
    made = chain.of(kernel, initial=_wide(chain.initial), seeds=_wide(chain.seeds))
    return replace(made, scalars=rounded)  # type: ignore[arg-type]


def _wide(arrays: Arrays) -> Arrays:
    return {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in arrays.items()}


# ---- integers -------------------------------------------------------------------------------------------------


def _wide_integers(chain: LaunchChain) -> LaunchChain | None:
    kernel = widen_integers(chain.kernel)
    if kernel is None:
        return None
    longer = {name: a.astype(np.int64) if a.dtype == np.int32 else a for name, a in chain.initial.items()}
    return chain.of(kernel, initial=longer)


def widen_integers(kernel: Kernel) -> Kernel | None:
    """Return the kernel with every i32 widened to i64, or None if the kernel has no i32 or depends on its width.

    The result is None if the kernel has no i32, or could tell the difference without an overflow.
    """
    stmts = list(walk_kernel(kernel))
    if not any(v.type == i32 for s in stmts for v in results(s)) or any(map(_tells, stmts)):
        return None
    params = tuple(replace(p, type=_param(p.type)) for p in kernel.params)
    temps = tuple(replace(t, dtype=_type(t.dtype)) for t in kernel.temps)
    return replace(kernel, params=params, temps=temps, tasks=tuple(map(_task, kernel.tasks)))


def _tells(stmt: Stmt) -> bool:
    """Return True if a statement's result depends on how many bits its integers have."""
    if isinstance(stmt, n.Op):
        return stmt.op in _OF_BITS
    if isinstance(stmt, n.Cast):
        return stmt.result.type == i32 and stmt.arg.type.is_int and stmt.arg.type.bits >= 32 and stmt.arg.type != i32
    return isinstance(stmt, n.BitCast) or isinstance(stmt, n.Random) and stmt.result.type == i32


def _type(dtype: Scalar) -> Scalar:
    return i64 if dtype == i32 else dtype


def _param(dtype: Scalar | ArrayType) -> Scalar | ArrayType:
    return replace(dtype, dtype=_type(dtype.dtype)) if isinstance(dtype, ArrayType) else _type(dtype)


def _values(content: Any) -> Any:
    if isinstance(content, tuple):
        return tuple(map(_values, content))
    return None if content is None else Value(content.id, _type(content.type))


def _task(task: Task) -> Task:
    ends = {name: _values(getattr(task, name)) for name in ("indices", "begin", "end")}
    return replace(task, bounds=_block(task.bounds), body=_block(task.body), **ends)


def _block(block: Block) -> Block:
    return tuple(map(_statement, block))


def _statement(stmt: Stmt) -> Stmt:
    changes: dict[str, Any] = {}
    for name, role in ROLES[type(stmt)]:
        old = getattr(stmt, name)
        changes[name] = _block(old) if role == "block" else _values(old)
    if isinstance(stmt, n.Local | n.LocalArray):
        changes["dtype"] = _type(stmt.dtype)
    return replace(stmt, **changes)


def fits(chain: LaunchChain) -> bool:
    """Return True if every integer that a chain of kernels, widened to i64, computes would also fit into i32."""
    kernel, least, most = chain.made[0].plain.kernel, -(2**31), 2**31 - 1
    made = trace_values(kernel, boxes(kernel, chain.initial, chain.scalars, DRAWS))
    memory = chain.of(made.kernel, initial={**chain.initial, **made.arrays}).states[-1]
    whole = [a for name, a in memory.items() if name == WHOLE or a.dtype == np.int64]
    return all(bool(((a >= least) & (a <= most)).all()) for a in whole)
