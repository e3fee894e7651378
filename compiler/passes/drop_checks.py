"""Drop each index check whose index is proved to be inside, and use the index in place of its result.

    for %0 in 0 .. 3 {                     for %0 in 0 .. 3 {
      %2: i32 = within %0, %1              %3: u1 = cmp_eq %0, %4
      %3: u1 = cmp_eq %2, %4             }
    }

The proofs use loops, branches and constants, but no other access: a later pass may remove an access that the kernel or
its gradient does not need, and the check of its index with it. The checks that are left are examined again when code is
generated, see `index_checks`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.index_checks import index_checks
from ..ir import nodes as n
from ..ir.kernels import Kernel, Task
from ..ir.statement import Stmt, Value
from ..ir.walk import walk_kernel, walk_task
from .rewrite import Rewriter


def drop_checks(kernel: Kernel) -> Kernel:
    """Return the kernel without the index checks that are proved unnecessary, or the same object if none is."""
    if not any(isinstance(stmt, n.Within) for stmt in walk_kernel(kernel)):
        return kernel
    return _CheckDropper(kernel).run()


class _CheckDropper(Rewriter):
    LEFT = frozenset({n.Within})

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._proved = {value for task in kernel.tasks for value in _proved(task)}

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        assert isinstance(stmt, n.Within)
        return self.rename(stmt.result, stmt.index) if stmt.result in self._proved else None


def _proved(task: Task) -> set[Value]:
    checks = [stmt for stmt in walk_task(task) if isinstance(stmt, n.Within)]
    if not checks:
        return set()
    found = index_checks(task, hoist=False, learns=False)
    return {stmt.result for stmt in checks if not found.of(stmt)}
