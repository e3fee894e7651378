"""What kind of program a case is: loops in its text, trips they made, adstacks they needed."""
from __future__ import annotations

from ...backends.base import Sizes
from ...backends.launcher import Launcher
from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Block, Kernel, Stmt
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import results, walk_kernel


def loop_nest(kernel: Kernel) -> int:
    """Depth of the deepest nest of serial loops."""
    return max((_nest(task.body) for task in kernel.tasks), default=0)


def _nest(block: Block) -> int:
    return max((_depth(stmt) for stmt in block), default=0)


def _depth(stmt: Stmt) -> int:
    inner = max((_nest(getattr(stmt, name)) for name, role in n.ROLES[type(stmt)] if role == "block"), default=0)
    return inner + isinstance(stmt, n.For | n.While)


def statements(kernel: Kernel) -> int:
    """How many there are in the text."""
    return sum(1 for _ in walk_kernel(kernel))


def real_types(kernel: Kernel) -> set[Scalar]:
    """Types of the reals that a kernel computes with."""
    return {v.type for stmt in walk_kernel(kernel) for v in results(stmt) if v.type.is_real}


def sizes_of(launcher: Launcher) -> Sizes:
    """Capacities of the adstacks of the last launch."""
    return Sizes({s.name: s.capacity for use in launcher.usage() for s in use.stacks})
