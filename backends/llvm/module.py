"""A kernel as LLVM IR text, together with what the launcher must know to call it: block layout and site table."""
from __future__ import annotations

from dataclasses import dataclass

from ...compiler.ir.nodes import Kernel
from ..base import Options
from ..limits import check
from .dispatch import launch_function
from .emit import ModuleState, Site
from .layout import Layout
from .target import Target


@dataclass(frozen=True)
class Generated:
    """LLVM IR of a kernel, not yet optimised. sites: what the numbers in error records and prints mean."""

    kernel: Kernel
    text: str
    layout: Layout
    sites: tuple[Site, ...]


def generate(kernel: Kernel, options: Options, target: Target) -> Generated:
    """LLVM IR of a kernel for a CPU. Raises Unsupported for what is declared in backends/limits.py."""
    check(kernel, target.name)
    state = ModuleState(kernel, options, target)
    launch_function(state)
    return Generated(kernel, str(state.module), state.layout, tuple(state.sites))
