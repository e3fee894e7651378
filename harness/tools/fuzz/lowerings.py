"""This module makes the lowerings of the kernel of a case: each is compiled at its first use and then cached.

Invariant: `plain` is the kernel as written, only split into tasks, so it shares no pass with `optimized`. The classic
gradient starts from the same kernel as the lean gradient and is not tidied, so it shares neither its plan nor later
passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....compiler.ad.adjoint_states import states_of
from ....compiler.ad.grad_kernel import reverse_taped
from ....compiler.driver import Lowering, prepare_forward, prepare_reverse, prepare_tangent
from ....compiler.errors import NotDifferentiable
from ....compiler.ir.cached import cached_property
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.nodes import Atomic, LocalArray
from ....compiler.ir.types import f64
from ....compiler.ir.walk import results, walk_kernel
from ....compiler.passes.widen import widen
from ...testing.executors import lower_plainly
from ...testing.launch import with_gradient
from ...testing.outcome import Arrays
from ..model import Program, load, render_ir
from .plan import FuzzPlan

COMBINED = frozenset({"min", "max", "bit_and", "bit_or", "bit_xor", "mul"})
"""Updates that masked code makes once for all lanes, and whose neutral element is not zero or is rarely tried."""
LAST_BEFORE_REVERSE = "number_loops"
"""The pass whose result both lowerings of the gradient start from."""


def kernel_of(program: Program, plan: FuzzPlan) -> Kernel:
    """Return the kernel of a program, traced by the frontend or made by the program model, as the plan says."""
    return load(program)[0] if plan.traced else render_ir(program, plan.in_memory)


def before_arrays(lowered: Lowering, before: Arrays) -> Arrays:
    """Return the arrays from before the launch that a grad kernel reads, by the names of the parameters for them."""
    return {copy: before[array] for copy, array in lowered.before.items()}


def has_combining_atomics(kernel: Kernel) -> bool:
    """Return True if the kernel has an atomic min, max, product or bit operation, which idle lanes could spoil."""
    return any(isinstance(stmt, Atomic) and stmt.op in COMBINED for stmt in walk_kernel(kernel))


@dataclass
class Lowerings:
    """Hold all lowerings of one source kernel; each is compiled, or raises its error, when it is first read.

    Attributes:
        check: True to verify the IR after every pass.
    """

    kernel: Kernel
    check: bool = False
    _prepared: dict[str, Kernel] = field(default_factory=dict)

    @property
    def gradients(self) -> tuple[str, ...]:
        """Return the names of the kernel's arrays that have an adjoint."""
        return with_gradient(self.kernel)

    @cached_property
    def has_local_arrays(self) -> bool:
        """Return True if the gradient of policy lean uses local arrays."""
        return any(isinstance(stmt, LocalArray) for stmt in walk_kernel(self.lean.kernel))

    @cached_property
    def plain(self) -> Lowering:
        """Return the forward kernel after the split into tasks, without any other pass."""
        return lower_plainly(self.kernel)

    @cached_property
    def optimized(self) -> Lowering:
        """Return the lowering of the kernel for forward launches, after all passes, as backends run it."""
        return prepare_forward(self.kernel, check=self.check)

    @cached_property
    def lean(self) -> Lowering:
        """Return the lowering of the kernel's gradient by policy lean, as backends run it."""
        return prepare_reverse(self.kernel, "lean", self._prepared.__setitem__, self.check, taped=True, stated=True)

    @cached_property
    def by_hand(self) -> Lowering | None:
        """Return the lowering of the gradient for calls by hand, or None if these need no lowering of their own.

        If its marking kernel finds no conflict, the gradient is right without earlier contents of arrays. The result is
        None also if the compiler refuses such a gradient, or needs no marking kernel for it.
        """
        if not self.lean.before:
            return None
        try:
            made = prepare_reverse(self.kernel, "lean", check=self.check)
        except NotDifferentiable:
            return None
        return made if made.marking is not None else None

    @cached_property
    def refusal(self) -> Exception | None:
        """Return the error by which the compiler refuses the lean gradient before any launch, or None."""
        try:
            assert self.lean
        except Exception as error:
            return error
        return None

    @cached_property
    def classic(self) -> Lowering:
        """Return the grad kernel that keeps all required values on adstacks."""
        return self.other("classic")

    def other(self, policy: str) -> Lowering:
        """Return the grad kernel of another policy, whose adstacks have no sizes and grow when needed."""
        # Making the lean gradient leaves the kernel that every policy starts from.
        assert self.lean
        grad, before, _ = reverse_taped(self._prepared[LAST_BEFORE_REVERSE], policy)
        return Lowering(grad, before=before, states=states_of(grad))

    @cached_property
    def wide_kernel(self) -> Kernel:
        """Return the kernel with all types widened to double precision."""
        return widen(self.kernel)

    @cached_property
    def is_wide(self) -> bool:
        """Return True if all reals of the kernel are f64 already, so that its lowerings need not be widened."""
        types = {v.type for stmt in walk_kernel(self.kernel) for v in results(stmt)}
        types |= {t.dtype for t in self.kernel.array_types().values()}
        return all(t == f64 for t in types if t.is_real)

    @cached_property
    def wide_plain(self) -> Kernel:
        """Return the forward kernel of `plain`, split into tasks and not optimized, in double precision.

        Raises:
            Unsupported: The kernel reads the bits of reals.
        """
        return self.plain.kernel if self.is_wide else widen(self.plain.kernel)

    @cached_property
    def wide_lean(self) -> Kernel:
        """Return the grad kernel of policy lean in double precision."""
        return self.lean.kernel if self.is_wide else widen(self.lean.kernel)

    @cached_property
    def wide_tangent(self) -> Kernel:
        """Return the tangent kernel in double precision, with tangents of all arrays that have a gradient.

        Raises:
            NotDifferentiable: The kernel has no tangent kernel.
        """
        made = prepare_tangent(self.kernel, self.gradients, check=self.check).kernel
        return made if self.is_wide else widen(made)
