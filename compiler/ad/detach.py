"""This module makes a kernel whose gradient only sets the adjoints of the elements that it overwrites to zero.

    %3 = load x[i]      →      %9 = load x[i];  %3 = bit_cast %9

Afterwards only the named arrays have adjoints, and nothing that is read from them carries an adjoint. The reverse of a
store takes the adjoint of its element and hands it to a constant. A tape needs this for launches that it does not
differentiate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from ..ir import nodes as n
from ..ir.kernels import Kernel, Param
from ..ir.roles import ARRAY_READS, ARRAY_WRITES
from ..ir.statement import Stmt
from ..ir.types import ArrayType
from ..ir.walk import walk_kernel
from ..passes.rewrite import Rewriter


def detach(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """Return a kernel whose gradient only sets the adjoints of the elements that it overwrites in some arrays to zero.

    A tape runs this gradient for a launch that it does not differentiate.

    Args:
        kernel: A kernel of stage source.
        names: Names of these arrays, which are real array parameters.
    """
    wanted = frozenset(names)
    params = tuple(_with_adjoint(p, p.name in wanted) for p in kernel.params)
    return detach_loads(replace(kernel, params=params), wanted)


def detach_loads(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """Return a kernel, of any stage, in which values that are read from the named real arrays have no derivative."""
    return _Detacher(kernel, frozenset(names)).run()


def overwritten_arrays(kernel: Kernel) -> frozenset[str]:
    """Return the real array parameters that the kernel may overwrite.

    An atomic add or sub overwrites nothing: the adjoint of the element is also the adjoint of its old value.
    """
    real = {p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.dtype.is_real}
    updates = [s for s in walk_kernel(kernel) if isinstance(s, ARRAY_WRITES)]
    found = {s.array for s in updates if isinstance(s, n.Store) or s.op not in ("add", "sub")}
    return frozenset(found & real)


def _with_adjoint(param: Param, has: bool) -> Param:
    """Return an array parameter with its gradient switched on or off. Other parameters are returned unchanged."""
    return replace(param, type=replace(param.type, grad=has)) if isinstance(param.type, ArrayType) else param


class _Detacher(Rewriter):
    """Insert a bit_cast, which has no derivative, after each read of the given arrays."""

    LEFT: ClassVar[frozenset[type[Stmt]]] = frozenset({n.Load, n.Atomic})

    def __init__(self, kernel: Kernel, wanted: frozenset[str]) -> None:
        super().__init__(kernel)
        self.wanted = wanted

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        """Return a read of a given array followed by a bit_cast of its result, or None for other statements."""
        assert isinstance(stmt, ARRAY_READS)
        if stmt.array not in self.wanted:
            return None
        read = self.fresh(stmt.result.type)
        return replace(stmt, result=read), n.BitCast(stmt.result, read, loc=stmt.loc)
