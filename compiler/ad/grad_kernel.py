"""This module makes the grad kernel of a kernel, in a sequence of named steps.

The grad kernel runs with memory as the kernel left it. Its first tasks compute the temporaries of the kernel again,
because these live for one launch only. Then follows one task for each task of the kernel, last to first, with the
forward sweep and the reverse sweep in one body. The grad kernel has the parameters of the kernel and a parameter
`x.grad` for each array x with a gradient. Under a tape it also takes copies of arrays as they were before the launch,
see `before_copies`. Where the kernel reads a gradient itself, the grad kernel takes its state, see `adjoint_states`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..errors import NotDifferentiable, Span
from ..ir.kernels import Kernel, Param, Task, Temp
from ..ir.statement import Value
from ..ir.types import ArrayType, adjoint_type
from ..ir.walk import next_id
from .activity import Activity, find_activity
from .adjoint_states import join_adjoints, separate_adjoints, source_array
from .before_copies import BeforeCopies, RemovableRisks, make_copies, params
from .check import check_kernel, check_state, find_dependences, refuse_claims
from .forget_primals import forget_primals
from .marks import MarkedPair, MarkingKernel, make_marking, stated_claims
from .own_arrays import own_arrays
from .plan import SavingPlan, SavingPlanner
from .policies import Policy, policy_of
from .reverse import TaskReverser
from .risk import Risk, RiskAnalysis
from .segments import SegmentedLoop, segmented_loops
from .slopes import Slopes, with_slopes
from .state_demand import arrays_to_copy
from .structure import BlockPath, Structure, task_prefix
from .task_order import in_order


def reverse(kernel: Kernel, lowering: str = "", stated: bool = False) -> tuple[Kernel, MarkingKernel | None]:
    """Return the grad kernel and its marking kernel, which is None if nothing has to be checked before a launch.

    Before the grad kernel runs, the adjoint arrays hold the adjoints of what the kernel leaves in its arrays; after it,
    those of what the arrays held before the kernel ran. The gradient is right if a launch of the marking kernel finds
    no conflict.

    Args:
        kernel: A kernel of stage structured with versions rewritten and loops numbered.
        lowering: Name of a policy; empty for the default.
        stated: True if the marking kernel also checks the claims of the program, as far as it can.

    Returns:
        The grad kernel, of stage adjoint, and the marking kernel, or None if nothing is left to decide.

    Raises:
        NotDifferentiable: The gradient does not exist or would be wrong.
        Unsupported: The kernel holds something that reverse mode cannot handle yet.
    """
    made = _ReverseAnalysis(kernel, lowering)
    return made.run(), made.marking(stated)


def reverse_taped(
    kernel: Kernel, lowering: str = "", stated: bool = False
) -> tuple[Kernel, dict[str, str], MarkingKernel | None]:
    """Return a tape's grad kernel, the array that each parameter `x.before` copies, and the marking kernel or None.

    Args:
        kernel: A kernel of stage structured with versions rewritten and loops numbered.
        lowering: Name of a policy; empty for the default.
        stated: True if the marking kernel also checks the claims of the program, as far as it can.

    Returns:
        The grad kernel, the array x for each of its parameters `x.before`, and the marking kernel or None. The caller
        fills `x.before` with the contents that x had before the launch, and the grad kernel may overwrite them.

    Raises:
        NotDifferentiable: The gradient does not exist or would be wrong.
        Unsupported: The kernel holds something that reverse mode cannot handle yet.
    """
    made = _ReverseAnalysis(kernel, lowering, taped=True)
    return made.run(), made.copied, made.marking(stated)


class _ReverseAnalysis:
    """Represent the analysis of one kernel, from which its grad kernel is made.

    Attributes:
        kernel: The kernel, with its accesses to own adjoint arrays separated.
        policy: The choices that the plans may make.
        taped: True if a tape can supply the state before the launch.
        activity: The activity of the kernel.
        structures: The structure of each task.
        first_id: Id of the first new value; no value of the kernel has it or a greater one.
        plans: The plan of each task.
        found: The risks of all loads, by the result of the load.
        at_risk: These risks, and those of loads that the grad kernel repeats.
        dependences: Access pairs by which iterations may exchange values with a gradient.
        claims: Access pairs that a marking kernel must check so that the grad kernel reads the right values.
        cured: The risks that copies remove.
        copies: The copies that the grad kernel reads.
    """

    def __init__(self, kernel: Kernel, lowering: str, taped: bool = False) -> None:
        self.kernel = kernel = separate_adjoints(kernel)
        self.policy = policy_of(lowering)
        self.taped = taped
        self.activity = find_activity(kernel)
        self.structures, self.first_id = _structures(kernel, self.activity, self.policy)
        if not any(t.grad for t in kernel.array_types().values()):
            reason = f"no array of kernel '{kernel.name}' has a gradient"
            raise NotDifferentiable(reason, "create the fields with needs_grad=True", _first_span(kernel))
        risks = RiskAnalysis(kernel)
        check_kernel(kernel, self.activity, risks)
        self.found = risks.find()
        self.at_risk = dict(self.found)
        self.dependences = find_dependences(kernel, self.activity, risks, self.found)
        self.plans = [SavingPlanner(s, self.activity, set(self.found), self.policy).make() for s in self.structures]
        self.claims: list[MarkedPair] = []
        self.cured = RemovableRisks(kernel, map(own_arrays, kernel.tasks) if self.found else ())
        arrays = arrays_to_copy(kernel, self.plans, self.found, self.cured, self.first_id) if taped else ()
        self.copies = make_copies(kernel, arrays)

    @property
    def copied(self) -> dict[str, str]:
        """Return the array of the source kernel that each copy in `copies` is made of."""
        return {copy: source_array(array) for copy, array in self.copies.names.items()}

    def run(self) -> Kernel:
        """Return the grad kernel.

        Raises:
            NotDifferentiable: The grad kernel reads elements that the kernel overwrites.
        """
        kernel, at_risk = self.kernel, self.at_risk
        ordered = in_order(kernel, self.plans, self.copies, at_risk, self.first_id, self._reversed)
        grad = forget_primals(_grad_kernel(kernel, self.activity, ordered.tasks, self.copies))
        self.claims = check_state(grad, kernel, at_risk, self.copies.names, self.cured, self.taped)
        # A kernel has at least one task, also where nothing is left to do.
        return replace(grad, tasks=tuple(t for t in grad.tasks if t.body) or grad.tasks[:1])

    def _reversed(self, t: int, first_id: int) -> tuple[Task, int]:
        """Return the grad task of task t, and the next free id."""
        own, prefix = own_arrays(self.kernel.tasks[t]), task_prefix(self.kernel, t)
        plan, copies = self.plans[t], self.copies.of(t)
        segments: Mapping[BlockPath, SegmentedLoop] = {}
        if not self.policy.adjoint_stacks:
            segments = segmented_loops(self.structures[t], plan, self.policy.segment, copies, self.kernel)
        made = TaskReverser(
            self.structures[t], self.activity, plan, self.policy, first_id, own, prefix, copies, segments, self.at_risk
        )
        task = made.build()
        return task, made.b.next_id

    def marking(self, stated: bool) -> MarkingKernel | None:
        """Return the marking kernel for the grad kernel, or None if no access pairs have to be checked.

        Raises:
            NotDifferentiable: No marking kernel can be made.
        """
        claims = [*self.dependences, *self.claims]
        found = list(stated_claims(self.kernel)) if stated else []
        if not claims and not found:
            return None
        made = make_marking(self.kernel, [*claims, *found], self.found)
        # The claims of the program are looked at only if that is possible; those of the gradient must be.
        if made is None and found and claims:
            made = make_marking(self.kernel, claims, self.found)
        if made is None and claims:
            raise refuse_claims(self.kernel, claims)
        return made and _on_source_arrays(made)


def _on_source_arrays(marking: MarkingKernel) -> MarkingKernel:
    """Return the marking kernel in which each state of an adjoint array is replaced by the adjoint array itself.

    The marking kernel writes no adjoints and runs before the grad kernel, when an adjoint array still equals its state.
    """
    return replace(marking, kernel=join_adjoints(marking.kernel), marked=tuple(source_array(a) for a in marking.marked))


def plan_tasks(kernel: Kernel, lowering: str = "") -> list[tuple[str, SavingPlan, dict[Value, Risk]]]:
    """Return for each task its name prefix, its saving plan, and the risks of its loads.

    Raises:
        NotDifferentiable: The kernel has no gradient, as in `reverse`.
    """
    made = _ReverseAnalysis(kernel, lowering)
    return [(task_prefix(kernel, t), plan, made.found) for t, plan in enumerate(made.plans)]


def _structures(kernel: Kernel, activity: Activity, policy: Policy) -> tuple[list[Structure], int]:
    """Return the `Structure` of each task, with slopes added if the policy says so, and the next free value id."""
    first_id, found = next_id(kernel), []
    for task in kernel.tasks:
        slopes: Slopes = {}
        if policy.slopes:
            task, slopes, first_id = with_slopes(task, activity, first_id)
        found.append(Structure(task, slopes))
    return found, first_id


def _first_span(kernel: Kernel) -> Span | None:
    """Return the first known source location of the kernel, or None if none is known."""
    spans = [s for s in kernel.locations if s is not None]
    return spans[0] if spans else None


def _grad_kernel(kernel: Kernel, activity: Activity, tasks: tuple[Task, ...], copies: BeforeCopies) -> Kernel:
    """Return the grad kernel with the given tasks and with the parameters and temporaries that it needs."""
    return replace(
        kernel,
        name=f"{kernel.name}.grad",
        params=kernel.params + _adjoint_params(kernel) + params(kernel, copies),
        temps=kernel.temps + tuple(_adjoint_temp(t) for t in kernel.temps if t.name in activity.arrays),
        tasks=tasks,
    )


def _adjoint_temp(temp: Temp) -> Temp:
    """Return the temporary that holds the adjoint of a temporary."""
    return Temp(f"{temp.name}.grad", adjoint_type(temp.dtype))


def _adjoint_params(kernel: Kernel) -> tuple[Param, ...]:
    """Return the parameters `x.grad` that the kernel does not have yet."""
    present = {p.name for p in kernel.params}
    with_grad = [(f"{p.name}.grad", p.type) for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad]
    return tuple(Param(name, t.adjoint) for name, t in with_grad if name not in present)
