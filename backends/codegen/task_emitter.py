"""This module states what shared code needs of the emitter of a task; each generator derives its own class from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ...compiler.ir.statement import Value
from .checked import CheckedEmitter


class TaskEmitter(CheckedEmitter, ABC):
    """Define the interface of an emitter that writes the code of one task.

    Types that differ between the generators are Any: builders, values, and flows of control.

    Attributes:
        m: State of the module: kernel, options, target, layout.
        b: Builder of the function, positioned where code goes next.
        task: Index of the task in the kernel.
        flow: Emits control flow and errors, and knows whether usual trips are being written.
        reach: Largest magnitude of the operand of the operation being written.
        partners: Results, computed ahead, of operations that follow.
    """

    m: Any
    b: Any
    task: int
    flow: Any
    reach: float
    partners: dict[Value, Any]

    @abstractmethod
    def operand(self, value: Value) -> Any:
        """Return the LLVM value, or the generator's own object, that represents an IR value."""
