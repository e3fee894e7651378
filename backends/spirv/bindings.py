"""BINDINGS: which storage buffer of a shader a piece of memory lies in, on devices without buffer addresses.

The argument block is binding 0, each slab of adstacks has one, so have lists of iterations, what a kernel prints to,
and each array, as far as the device has enough; where it has not, several arrays share one, of which the host makes a
buffer that holds them all. An address is then a number of bytes from the begin of its buffer, and which buffer it
counts in is known when the module is written (`Value.root`). Buffers may overlap, as arrays of users may, so every one
is declared Aliased.
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
    """Numbers of bindings by name of slab and of array; of lists and of prints, if there are such. count: of all."""

    slabs: Mapping[str, int] = field(default_factory=dict)
    arrays: Mapping[str, int] = field(default_factory=dict)
    count: int = 1
    lists: int | None = None
    prints: int | None = None


def assign(kernel: Kernel, layout: Layout, most: int) -> Bindings:
    """A binding for everything that a kernel reaches. most: storage buffers that a shader may have.

    Raises Unsupported for a device that has too few even if all arrays share one.
    """
    slabs = {slab: 1 + k for k, slab in enumerate(layout.slabs)}
    names, others = list(layout.arrays), {"lists": bool(layout.list_at), "prints": is_printing(kernel)}
    own = {name: 1 + len(slabs) + k for k, name in enumerate(name for name, has in others.items() if has)}
    first = 1 + len(slabs) + len(own)
    left = min(most - first, len(names))
    if left < 1 and (names or first > most):
        reason = f"kernel {kernel.name}: shaders of this device have {most} storage buffers, which is too few for "
        also = "".join(f", {name}" for name in own)
        reason += f"the argument block, {len(slabs)} kinds of adstacks{also} and the arrays"
        raise Unsupported(reason, "use another device, or the cpu backend", None)
    arrays = {name: first + k * left // len(names) for k, name in enumerate(names)}
    return Bindings(slabs, arrays, first + max(left, 0), **own)
