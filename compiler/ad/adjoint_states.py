"""This module lets a kernel use the gradient `x.grad` of an array x by which the kernel is differentiated.

    y[i] = x[i] * x.grad[i]      →      y[i] = x[i] * $x.grad.state[i]

In the kernel, `x.grad` is an array like all others, without a derivative: what the launch finds in it is constant. In
the grad kernel, `x.grad` is the adjoint of x, which the grad kernel updates. So the accesses of the kernel get an array
of another name, the state of `x.grad`: a copy of what `x.grad` holds when the grad kernel starts. A grad kernel that
reads no state has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..errors import Diagnostic, NotDifferentiable
from ..ir.kernels import Kernel
from ..ir.names import added_name, shown_name
from ..ir.roles import ACCESSES, ARRAY_USES
from ..ir.types import ArrayType
from ..ir.walk import walk_kernel
from .before_copies import redirect_to_copies

GRAD, STATE = ".grad", "state"


def separate_adjoints(kernel: Kernel) -> Kernel:
    """Return the kernel, of stage structured, in which each access to an adjoint array `x.grad` goes to its state.

    Raises:
        NotDifferentiable: The kernel uses an adjoint array that is none of its parameters, which only grad kernels may.
    """
    own = {f"{p.name}{GRAD}" for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad}
    params = {p.name for p in kernel.params}
    uses = [s for s in walk_kernel(kernel) if isinstance(s, ACCESSES) and s.array in own]
    wrong = [
        Diagnostic(
            f"'{s.array}' is used in a kernel that is differentiated with respect to '{s.array.removesuffix(GRAD)}',"
            " and is none of its parameters",
            f"make '{s.array}' a parameter of the kernel",
            kernel.span(s.loc),
        )
        for s in uses
        if s.array not in params
    ]
    if wrong:
        raise NotDifferentiable(wrong)
    return _renamed(kernel, {name: added_name(name, STATE) for name in sorted({s.array for s in uses})})


def join_adjoints(kernel: Kernel) -> Kernel:
    """Return the kernel with the names `x.grad` in place of the states; this is the inverse of `separate_adjoints`.

    A marking kernel runs before the grad kernel and writes no adjoints, so it reads `x.grad` itself and needs no copy.
    """
    return _renamed(kernel, states_of(kernel))


def states_of(kernel: Kernel) -> dict[str, str]:
    """Return a mapping from each parameter that is the state of an adjoint array to that array's name, `x.grad`."""
    return {p.name: shown_name(p.name) for p in kernel.params if _is_state(p.name)}


def source_array(array: str) -> str:
    """Return `x.grad` for the name of the state of `x.grad`, and any other array name unchanged."""
    return shown_name(array) if _is_state(array) else array


def drop_unused_states(kernel: Kernel) -> Kernel:
    """Return the kernel without those parameters that are states of adjoint arrays and that no statement uses."""
    used = {s.array for s in walk_kernel(kernel) if isinstance(s, ARRAY_USES)}
    return replace(kernel, params=tuple(p for p in kernel.params if p.name in used or not _is_state(p.name)))


def _is_state(name: str) -> bool:
    """Return True if a parameter of this name is the state of an adjoint array. No name in a program begins with $."""
    return name.startswith("$") and name.endswith(f"{GRAD}.{STATE}")


def _renamed(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    """Return the kernel with some of its array parameters renamed, by a mapping from old to new names."""
    if not names:
        return kernel
    params = (replace(p, name=names.get(p.name, p.name)) for p in kernel.params)
    tasks = (
        replace(t, bounds=redirect_to_copies(t.bounds, names), body=redirect_to_copies(t.body, names))
        for t in kernel.tasks
    )
    return replace(kernel, params=tuple(params), tasks=tuple(tasks))
