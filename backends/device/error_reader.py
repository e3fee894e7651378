"""Convert the error records of one kernel, which a wait finds after the launch has returned, to exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...compiler.errors import AdstackOverflow, StackgradError
from ...compiler.ir.kernels import Kernel
from ..base import Sizes
from ..codegen.emit import Site
from ..codegen.layout import StackLayout
from ..codegen.stack_sizes import stack_capacity
from ..host.report import exception

Record = tuple[int, int, int]
"""The type of an error record: the number of a site of the kernel, and the two numbers of its kind."""

Explain = Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None]
"""The type of a reference to a function that adds to an overflow what it knows; it gives None if that is gone."""


def _nothing_known() -> None:
    """Return None as the explanation of an adstack overflow; this is the default of `ErrorReader.explain`."""


@dataclass
class ErrorReader:
    """Convert error records of one kernel to exceptions, which explain adstack overflows if possible.

    Attributes:
        kernel: Kernel whose launches write the records.
        sites: Site table of the code.
        stacks: Adstacks of the kernel.
        distrust: Called after an overflow, so that no launch is ready any more for the published sizes.
        published: Sizes of the last launch.
        explain: Gives the function that explains overflows.
    """

    kernel: Kernel
    sites: Sequence[Site]
    stacks: Sequence[StackLayout]
    distrust: Callable[[], None] = _nothing_known
    published: Sizes = field(default_factory=Sizes)
    explain: Explain = _nothing_known

    def __call__(self, record: Record) -> StackgradError:
        """Return the exception for an error record; an adstack overflow gets an explanation if there is one."""
        known = [(stack, stack_capacity(stack, self.published)) for stack in self.stacks]
        found = exception(self.kernel, self.sites, record, known)
        if isinstance(found, AdstackOverflow):
            self.distrust()
            explain = self.explain()
            return found if explain is None else explain(found)
        return found
