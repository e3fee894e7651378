"""Values and variables that a kernel does not have yet, for passes that add statements to it."""

from __future__ import annotations

from . import nodes as n
from .build import Builder
from .nodes import Block, Kernel
from .walk import next_id, walk_kernel


class Fresh:
    """Base of passes that add statements: numbers new values behind the kernel's, and names new variables apart."""

    def __init__(self, kernel: Kernel) -> None:
        self.next_id = next_id(kernel)
        self.names = 0
        self.taken = {s.var for s in walk_kernel(kernel) if isinstance(s, (n.Local, n.LocalArray))}

    def name(self, base: str) -> str:
        """A variable's name that begins with `base`; no variable of the kernel has it."""
        while True:
            self.names += 1
            name = f"{base}.{self.names}"
            if name not in self.taken:
                return name

    def builder(self, loc: int) -> Builder:
        """A builder of statements at `loc`. End it with `done` before the next one begins."""
        b = Builder(self.next_id)
        b.loc = loc
        return b

    def done(self, b: Builder) -> Block:
        """The statements of a builder; later ones number their values behind these."""
        self.next_id = b.next_id
        return b.take()
