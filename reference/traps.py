"""Define the errors that end a kernel early on the reference interpreter, and their messages.

A trap is raised at the statement, before that statement writes anything; memory holds what was written so far.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..compiler.errors import (
    AdstackOverflow,
    Diagnostic,
    DivisionByZero,
    KernelAssertionError,
    OutOfBounds,
    StackgradError,
)
from ..compiler.ir.kernels import Kernel
from ..compiler.ir.printer import headline
from ..compiler.ir.statement import Stmt


class EmptyStack(StackgradError):
    """Signal that a kernel reads, accumulates to or pops an empty adstack."""


class PartedBlock(StackgradError):
    """Signal that a barrier or an exchange is reached by a part of the iterations of a block alone."""


class OutOfFuel(StackgradError):
    """Signal that a launch exceeds its limit of executed statements, most likely in an endless loop."""


TRAPS = (OutOfBounds, DivisionByZero, KernelAssertionError, AdstackOverflow, EmptyStack, OutOfFuel, PartedBlock)
"""Every exception by which a launch on the reference may end once its arguments are bound."""


@dataclass(frozen=True)
class TrapPlace:
    """Identify the iteration in which an error occurred: kernel, task and loop indices.

    Attributes:
        kernel: kernel that was executed
        task: index of the task
        point: indices of the iteration; empty in a serial task
    """

    kernel: Kernel
    task: int
    point: tuple[int, ...] = ()

    def __str__(self) -> str:
        at = f", iteration ({', '.join(map(str, self.point))})" if self.point else ""
        return f"kernel {self.kernel.name}, task {self.task}{at}"


def trap(kind: type[StackgradError], place: TrapPlace, stmt: Stmt, reason: str, cure: str = "") -> StackgradError:
    """Return an error located in a kernel, with the source line, iteration, statement, reason and cure."""
    head = headline(stmt)
    text = f"{reason}\n    at `{head}` of {place}"
    return kind(Diagnostic(text, cure, place.kernel.span(stmt.loc)).render())
