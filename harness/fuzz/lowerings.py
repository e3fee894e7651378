"""Everything the compiler makes of one kernel for a case, each made once.

Invariant: `plain` is the kernel as it was written, split into tasks alone, so it shares no pass with `optimised`; the
classic gradient starts where the lean one does and is not tidied, so it shares neither its plan nor what follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ...compiler.ad.driver import reverse_taped
from ...compiler.driver import Lowered, prepare_forward, prepare_reverse, prepare_tangent
from ...compiler.ir.nodes import Atomic, Kernel, LocalArray
from ...compiler.ir.types import f64
from ...compiler.ir.walk import results, walk_kernel
from ...compiler.passes.widen import widen
from ..executors import lower_plainly
from ..launch import with_gradient
from ..model import Program, load, render_ir
from ..outcome import Arrays
from .plan import Plan

COMBINED = frozenset({"min", "max", "bit_and", "bit_or", "bit_xor", "mul"})
"""Updates that masked code makes once for all lanes, and whose neutral element is not zero or rarely tried."""
LAST_BEFORE_REVERSE = "number_loops"
"""The pass whose result both lowerings of the gradient start from."""


def kernel_of(program: Program, plan: Plan) -> Kernel:
    """The kernel that a plan tests: of the frontend, or the model's own rendering."""
    return load(program)[0] if plan.traced else render_ir(program, plan.in_memory)


def copies(lowered: Lowered, before: Arrays) -> Arrays:
    """What a grad kernel takes of the state before the launch."""
    return {copy: before[array] for copy, array in lowered.before.items()}


def combines(kernel: Kernel) -> bool:
    """Whether lanes without an iteration could spoil an element: an extreme of all that are active, or their bits."""
    return any(isinstance(stmt, Atomic) and stmt.op in COMBINED for stmt in walk_kernel(kernel))


@dataclass
class Lowerings:
    """Of one kernel of stage source. check: verify after every pass. Attributes raise what the compiler raises."""

    kernel: Kernel
    check: bool = False
    _prepared: dict[str, Kernel] = field(default_factory=dict)

    @property
    def gradients(self) -> tuple[str, ...]:
        """Arrays with an adjoint."""
        return with_gradient(self.kernel)

    @cached_property
    def has_local_arrays(self) -> bool:
        """Whether the gradient is made of a kernel with local arrays."""
        return any(isinstance(stmt, LocalArray) for stmt in walk_kernel(self.lean.kernel))

    @cached_property
    def plain(self) -> Lowered:
        """The forward kernel, split into tasks."""
        return lower_plainly(self.kernel)

    @cached_property
    def optimised(self) -> Lowered:
        """The forward kernel that backends run."""
        return prepare_forward(self.kernel, check=self.check)

    @cached_property
    def lean(self) -> Lowered:
        """The grad kernel that backends run."""
        return prepare_reverse(self.kernel, "lean", self._prepared.__setitem__, self.check, taped=True, stated=True)

    @cached_property
    def refusal(self) -> Exception | None:
        """What making the lean gradient raises, or None. What launches say of it: see `marks`."""
        try:
            assert self.lean
        except Exception as error:
            return error
        return None

    @cached_property
    def classic(self) -> Lowered:
        """The grad kernel that keeps everything on adstacks."""
        return self.other("classic")

    def other(self, policy: str) -> Lowered:
        """The grad kernel of another policy; its stacks grow as they need."""
        assert self.lean  # leaves what it started from
        grad, before, _ = reverse_taped(self._prepared[LAST_BEFORE_REVERSE], policy)
        return Lowered(grad, before=before)

    @cached_property
    def wide_kernel(self) -> Kernel:
        """The kernel itself in double precision."""
        return widen(self.kernel)

    @cached_property
    def is_wide(self) -> bool:
        """Whether all reals are in double precision as it is; then what the compiler made is judged untouched."""
        types = {v.type for stmt in walk_kernel(self.kernel) for v in results(stmt)}
        types |= {t.dtype for t in self.kernel.array_types().values()}
        return all(t == f64 for t in types if t.is_real)

    @cached_property
    def wide_plain(self) -> Kernel:
        """`plain` in double precision. Raises Unsupported for a kernel that looks at the bits of reals."""
        return self.plain.kernel if self.is_wide else widen(self.plain.kernel)

    @cached_property
    def wide_lean(self) -> Kernel:
        """The lean grad kernel in double precision."""
        return self.lean.kernel if self.is_wide else widen(self.lean.kernel)

    @cached_property
    def wide_tangent(self) -> Kernel:
        """The kernel with tangents of all that has a gradient, in double precision. Raises NotDifferentiable."""
        made = prepare_tangent(self.kernel, self.gradients, check=self.check).kernel
        return made if self.is_wide else widen(made)
