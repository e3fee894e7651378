"""This module defines the interface that shared code expects of each generator's emitter of tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from ...compiler.analysis import index_checks
from ...compiler.ir.nodes import For, Value


class TaskEmitter(Protocol):
    """Define the interface of an emitter that writes the code of one task.

    Types that differ between the generators are Any: builders, values, and flows of control.

    Attributes:
        m: State of the module: kernel, options, target, layout.
        b: Builder of the function, positioned where code goes next.
        task: Index of the task in the kernel.
        flow: Emits control flow and errors, and knows whether usual trips are being written.
        reach: Largest magnitude of the operand of the operation being written.
        partners: Results, computed ahead, of operations that follow.
        deferred: Index checks that wait until all loads of a group are made; None if none wait.
    """

    m: Any
    b: Any
    task: int
    flow: Any
    reach: float
    partners: dict[Value, Any]
    deferred: Any

    def operand(self, value: Value) -> Any:
        """Return the LLVM value, or the generator's own object, that represents an IR value."""
        ...

    def checked_axes(self, stmt: index_checks.Checked) -> Collection[int]:
        """Return the axes of an access whose index is compared with the extent at the access itself."""
        ...

    def checks_before(self, loop: For) -> Sequence[index_checks.LoopCheck]:
        """Return the index checks that are emitted before the first trip of a loop."""
        ...
