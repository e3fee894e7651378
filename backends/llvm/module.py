"""A kernel as LLVM IR text, together with what the launcher must know to call it: block layout and site table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...compiler.errors import InternalError
from ...compiler.ir.codec import identity_of
from ...compiler.ir.depth import deep
from ...compiler.ir.nodes import Kernel
from .. import disk_cache
from ..base import Options
from ..limits import check
from .dispatch import launch_function
from .emit import ModuleState, Site
from .layout import Layout, lay_out
from .target import Target


@dataclass(frozen=True)
class Generated:
    """LLVM IR of a kernel, not yet optimised. sites: what the numbers in error records and prints mean."""

    kernel: Kernel
    text: str
    layout: Layout
    sites: tuple[Site, ...]
    options: Options | None = None

    @property
    def key(self) -> str:
        """What decides the machine code."""
        return self.text

    @property
    def digest(self) -> bytes:
        """Of the text."""
        return hashlib.sha256(self.text.encode()).digest()

    def expect(self, digest: bytes) -> None:
        """State the digest of the text that the machine code in use was made of."""
        assert digest == self.digest


class Later:
    """What a generator would give, known by a key: its text and sites are made when they are asked for.

    Machine code found under the key was made of the very same text, which is checked when that is there. What the
    generator raises, it raises where the text is needed first.
    """

    def __init__(self, kernel: Kernel, options: Options, key: bytes, make: Callable[[], Generated]) -> None:
        self.kernel = kernel
        self.options: Options | None = options
        self.layout = lay_out(kernel)
        self.key = key
        self._make = make
        self._expected: bytes | None = None

    @cached_property
    def _made(self) -> Generated:
        made = self._make()
        if self._expected not in (None, made.digest):
            raise InternalError(f"kernel {self.kernel.name}: the code in the cache was made of another text")
        return made

    @property
    def text(self) -> str:
        return self._made.text

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._made.sites

    @property
    def digest(self) -> bytes:
        return self._made.digest

    def expect(self, digest: bytes) -> None:
        """State the digest of the text that the machine code in use was made of."""
        self._expected = digest


Code = Generated | Later
Generator = Callable[[Kernel, Options, Target], Generated]


@deep
def generate_later(generator: Generator, kernel: Kernel, options: Options, target: Target) -> Code:
    """What the generator gives; not before it is needed, if what it gives can be known by a key."""
    identity = None if options.debug_info else identity_of(kernel)  # it does not know of lines
    if identity is None or disk_cache.active() is None:
        return generator(kernel, options, target)
    name = f"{generator.__module__}.{generator.__qualname__}"
    key = disk_cache.key("generated", identity, name, repr(options), repr(target))
    return Later(kernel, options, key, lambda: generator(kernel, options, target))


@deep
def generate(kernel: Kernel, options: Options, target: Target) -> Generated:
    """LLVM IR of a kernel for a CPU. Raises Unsupported for what is declared in backends/limits.py."""
    check(kernel, target.name)
    state = ModuleState(kernel, options, target)
    launch_function(state)
    return Generated(kernel, str(state.module), state.layout, tuple(state.sites), options)
