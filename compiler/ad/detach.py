"""detach(kernel, names): the kernel as a constant, whose gradient only ends the adjoints of what it overwrites.

    %3 = load x[i]      →      %9 = load x[i];  %3 = bit_cast %9

Only the arrays named have adjoints afterwards, and nothing that is read from them carries one: a store takes the
adjoint of its element, and hands it to a constant. A tape needs this of launches that it does not differentiate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from ..ir import nodes as n
from ..ir.nodes import Kernel, Param, Stmt
from ..ir.types import ArrayType
from ..ir.walk import walk_kernel
from ..passes.rewrite import Rewriter


def detach(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """Stage source to stage source. names: real array parameters, whose adjoint arrays the kernel does not use."""
    wanted = frozenset(names)
    params = tuple(_with_adjoint(p, p.name in wanted) for p in kernel.params)
    return detach_loads(replace(kernel, params=params), wanted)


def detach_loads(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """The kernel with constants for what it reads from these real arrays. Any stage to the same stage."""
    return _Detacher(kernel, frozenset(names)).run()


def overwritten_arrays(kernel: Kernel) -> frozenset[str]:
    """Real array parameters of which the kernel may replace elements, and whose adjoints it does not use.

    Sums replace nothing: the adjoint of an element is that of its old content too.
    """
    params = {p.name for p in kernel.params}
    real = {p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.dtype.is_real}
    updates = [s for s in walk_kernel(kernel) if isinstance(s, (n.Store, n.Atomic))]
    found = {s.array for s in updates if isinstance(s, n.Store) or s.op not in ("add", "sub")}
    return frozenset(name for name in found & real if f"{name}.grad" not in params)


def _with_adjoint(param: Param, has: bool) -> Param:
    return replace(param, type=replace(param.type, grad=has)) if isinstance(param.type, ArrayType) else param


class _Detacher(Rewriter):
    LEFT: ClassVar[frozenset[type[Stmt]]] = frozenset({n.Load, n.Atomic})

    def __init__(self, kernel: Kernel, wanted: frozenset[str]) -> None:
        super().__init__(kernel)
        self.wanted = wanted

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        assert isinstance(stmt, (n.Load, n.Atomic))
        if stmt.array not in self.wanted:
            return None
        read = self.fresh(stmt.result.type)
        return replace(stmt, result=read), n.BitCast(stmt.result, read, loc=stmt.loc)
