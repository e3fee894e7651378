"""This module generates the LLVM IR of a kernel, with its argument block layout and its table of error sites."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from ...compiler.errors import InternalError
from ...compiler.ir.cached import cached_property
from ...compiler.ir.codec import identity_of
from ...compiler.ir.depth import with_stack_room
from ...compiler.ir.kernels import Kernel
from .. import disk_cache
from ..base import Options
from ..codegen.emit import ModuleState, Site
from ..codegen.layout import BlockLayout, lay_out
from ..codegen.target import Target
from ..limits import check
from .dispatch import launch_function


@dataclass(frozen=True)
class Generated:
    """Represent the LLVM IR of a kernel before optimization, with its argument layout and site table.

    Attributes:
        kernel: The kernel that the code was generated for.
        text: The LLVM IR of the whole module.
        layout: Byte offsets into the argument block.
        sites: The places that the numbers in error records and prints stand for.
        options: The options that the code was generated with.
    """

    kernel: Kernel
    text: str
    layout: BlockLayout
    sites: tuple[Site, ...]
    options: Options | None = None

    @property
    def key(self) -> str:
        """Return the cache key of the machine code, which is the LLVM IR text itself."""
        return self.text

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 digest of the LLVM IR text."""
        return hashlib.sha256(self.text.encode()).digest()

    def expect(self, digest: bytes) -> None:
        """Raise an error unless the LLVM IR text has this SHA-256 digest, with which the machine code was made."""
        assert digest == self.digest


class LazyGenerated:
    """Represent LLVM IR that is generated only when its text or sites are read, but whose cache key is known.

    Machine code in the cache under this key was made from the same text. This is checked once the text has been made.
    Errors of the generator are raised at the first use of the text.
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
        """Run the generator and return its result; raise InternalError if the text's digest is unexpected."""
        made = self._make()
        if self._expected not in (None, made.digest):
            raise InternalError(f"kernel {self.kernel.name}: the code in the cache was made of another text")
        return made

    @property
    def text(self) -> str:
        """Return the LLVM IR of the whole module; the first call runs the generator."""
        return self._made.text

    @property
    def sites(self) -> tuple[Site, ...]:
        """Return the sites of the module; the first call runs the generator."""
        return self._made.sites

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 digest of the LLVM IR text; the first call runs the generator."""
        return self._made.digest

    def expect(self, digest: bytes) -> None:
        """Record the digest of the LLVM IR from which cached machine code was made, to compare it later with the IR."""
        self._expected = digest


KernelCode = Generated | LazyGenerated
Generator = Callable[[Kernel, Options, Target], Generated]


@with_stack_room
def generate_later(generator: Generator, kernel: Kernel, options: Options, target: Target) -> KernelCode:
    """Return the code of a kernel, generated later if its cache key can be computed without the text.

    Args:
        generator: Function that makes the code.
        kernel: Kernel to generate code for.
        options: Options of the code; with debug information the code is made at once.
        target: Machine to generate code for.
    """
    # The identity of a kernel does not include source lines, but debug information does.
    identity = None if options.debug_info else identity_of(kernel)
    if identity is None or disk_cache.active_cache() is None:
        return generator(kernel, options, target)
    name = f"{generator.__module__}.{generator.__qualname__}"
    key = disk_cache.entry_key("generated", identity, name, repr(options), repr(target))
    return LazyGenerated(kernel, options, key, lambda: generator(kernel, options, target))


@with_stack_room
def generate(kernel: Kernel, options: Options, target: Target) -> Generated:
    """Return the LLVM IR of a kernel for a CPU.

    Raises:
        Unsupported: The kernel uses something that backends/limits.py declares as unsupported.
    """
    check(kernel, target.name)
    state = ModuleState(kernel, options, target)
    launch_function(state)
    return Generated(kernel, str(state.module), state.layout, tuple(state.sites), options)
