"""BINDINGS: which storage buffer of a shader a piece of memory lies in, on devices without buffer addresses.

The argument block is binding 0, each slab of adstacks has one, what a kernel prints to, and so has each array, as far
as the device has enough; where it has not, several arrays share one, of which the host makes a buffer that holds them
all. An address is then a number of bytes from the begin of its buffer, and which buffer it counts in is known when the
module is written (`Value.root`). Buffers may overlap, as arrays of users may, so every one is declared Aliased.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...compiler.errors import Unsupported
from ...compiler.ir.nodes import Kernel
from ..llvm.layout import Layout
from ..prints import is_printing

BLOCK = 0


@dataclass(frozen=True)
class Bindings:
    """Numbers of bindings by name of slab and of array; of the buffer of prints, if there is one. count: of all."""

    slabs: Mapping[str, int] = field(default_factory=dict)
    arrays: Mapping[str, int] = field(default_factory=dict)
    count: int = 1
    prints: int | None = None


def assign(kernel: Kernel, layout: Layout, most: int) -> Bindings:
    """A binding for everything that a kernel reaches. most: storage buffers that a shader may have.

    Raises Unsupported for a device that has too few even if all arrays share one.
    """
    slabs = {slab: 1 + k for k, slab in enumerate(layout.slabs)}
    printing, names = is_printing(kernel), list(layout.arrays)
    first = 1 + len(slabs) + printing
    left = min(most - first, len(names))
    if left < 1 and (names or first > most):
        reason = f"kernel {kernel.name}: shaders of this device have {most} storage buffers, which is too few for "
        reason += f"the argument block, {len(slabs)} kinds of adstacks{', prints' * printing} and the arrays"
        raise Unsupported(reason, "use another device, or the cpu backend", None)
    arrays = {name: first + k * left // len(names) for k, name in enumerate(names)}
    return Bindings(slabs, arrays, first + max(left, 0), first - 1 if printing else None)
