"""This module assigns each array, slab and block to a storage buffer of the shader, on devices without addresses.

The argument block is binding 0. Each slab of adstacks has a binding, and so have the lists of iterations, the buffer
that a kernel prints to, and each array, as far as the device has enough. Where it has not, several arrays share a
binding, and the host makes one buffer that holds all of them. An address is then a number of bytes from the begin of
its buffer, and the buffer is known when the module is written (`Value.root`). Buffers may overlap, as arrays of users
may, so each of them is declared Aliased.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...compiler.errors import Unsupported
from ...compiler.ir.kernels import Kernel
from ..codegen.layout import BlockLayout
from ..codegen.prints import is_printing

BLOCK = 0


@dataclass(frozen=True)
class Bindings:
    """Hold the binding numbers of the storage buffers of one kernel.

    Attributes:
        slabs: binding of each slab of adstacks, by name
        arrays: binding of each array, by name
        count: number of bindings in all
        lists: binding of the lists of iterations, if the kernel has lists
        prints: binding of the buffer for prints, if the kernel prints
    """

    slabs: Mapping[str, int] = field(default_factory=dict)
    arrays: Mapping[str, int] = field(default_factory=dict)
    count: int = 1
    lists: int | None = None
    prints: int | None = None


def assign(kernel: Kernel, layout: BlockLayout, most: int) -> Bindings:
    """Return the binding number of each array, slab and other memory that a kernel accesses.

    Args:
        kernel: kernel that is compiled
        layout: layout of its argument block
        most: greatest number of storage buffers that a shader may have

    Raises:
        Unsupported: if the device has too few buffers even where all arrays share one
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
