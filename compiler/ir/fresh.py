"""This module supplies unused value ids and variable names of a kernel to passes that add statements."""

from __future__ import annotations

from .build import Builder
from .kernels import Kernel
from .roles import LOCAL_DECLARATIONS
from .statement import Block
from .walk import next_id, walk_kernel


class FreshNames:
    """This base class of passes that add statements makes new values and names that the kernel does not use yet.

    Attributes:
        next_id: id that the next new value gets; every value of the kernel has a smaller id.
        names: number of names that were tried so far.
        taken: names of the locals and local arrays of the kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.next_id = next_id(kernel)
        self.names = 0
        self.taken = {s.var for s in walk_kernel(kernel) if isinstance(s, LOCAL_DECLARATIONS)}

    def name(self, base: str) -> str:
        """Return a name that begins with `base` and that no variable of the kernel has."""
        while True:
            self.names += 1
            name = f"{base}.{self.names}"
            if name not in self.taken:
                return name

    def builder(self, loc: int) -> Builder:
        """Return a builder of statements at source location `loc`. Call `done` on it before requesting another one."""
        b = Builder(self.next_id)
        b.loc = loc
        return b

    def done(self, b: Builder) -> Block:
        """Return the statements of a builder and reserve the ids of its values."""
        self.next_id = b.next_id
        return b.take()
