"""This module lowers kernels of stage source for backends, by pipelines that are lists of named passes.

`prepare_forward` and `prepare_reverse` return a `Lowering`: the executable kernel, the counting kernel that sizes its
adstacks, and the arrays that they touch. The modules that make derivatives are imported when the first derivative is
made, so a program that never differentiates does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .ad.policies import policy_of
from .ad.product_loops import serialize_products
from .errors import NotDifferentiable, Unsupported
from .ir.depth import with_stack_room
from .ir.kernels import Kernel
from .ir.nodes import Load, Op, StackAlloca
from .ir.roles import ARRAY_READS, ARRAY_USES, ARRAY_WRITES
from .ir.types import ArrayType
from .ir.verify import verify
from .ir.walk import renumber, walk_kernel
from .passes.block_regions import refuse_draws
from .passes.common_subexpressions import common_subexpressions
from .passes.dead_code import remove_dead_code
from .passes.drop_checks import drop_checks
from .passes.drop_unit_axes import drop_unit_axes
from .passes.fold_constants import fold_constants
from .passes.lower_blocks import has_blocks, lower_blocks
from .passes.lower_exits import lower_exits
from .passes.number_draws import number_draws
from .passes.number_loops import number_loops
from .passes.promote_elements import promote_elements
from .passes.rewrite_versions import rewrite_versions
from .passes.simplify import simplify
from .passes.split_tasks import split_tasks
from .passes.thread_blocks import thread_blocks, thread_blocks_of_warps
from .sizing.counting_kernel import count_slice, count_stacks, shadowed_arrays
from .sizing.sizes import recognize_sizes
from .sizing.stored_sizes import StoredSizes, store_sizes

if TYPE_CHECKING:
    from .ad.marks import MarkingKernel

Pass = Callable[[Kernel], Kernel]
"""A pass is a function from kernel to kernel."""
Trace = Callable[[str, Kernel], None]
"""A trace is called with the name of each pass and the kernel after that pass."""


@dataclass(frozen=True)
class Lowering:
    """Represent a lowered kernel, ready for a backend, with data to size its adstacks.

    Attributes:
        kernel: The kernel that a backend runs.
        counting: The kernel that sizes the adstacks before the launch; None if nothing needs sizing.
        reads: Array parameters whose elements the kernel loads or updates.
        writes: Array parameters that the kernel stores to or updates.
        counted: Array parameters that the counting kernel loads from.
        shadow: Array parameters that the counting kernel stores to; it gets copies of them.
        before: For each parameter that takes a copy of an array as it was before the forward launch, this array.
        states: For each parameter that takes the state of an adjoint array, this adjoint array.
        marking: The marking kernel that decides before a launch whether the gradient is right, if there is one.
        claims: The marking kernel that tells after a launch whether the claims of the program hold, if there is one.
        sizes: The sizes of the adstacks as expressions, if all are known exactly.
    """

    kernel: Kernel
    counting: Kernel | None = None
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    shadow: frozenset[str] = field(default=frozenset())
    before: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    marking: MarkingKernel | None = None
    claims: MarkingKernel | None = None
    sizes: StoredSizes | None = None


TIDY: list[tuple[str, Pass]] = [
    ("rewrite_versions", rewrite_versions),
    ("fold_constants", fold_constants),
    ("drop_unit_axes", drop_unit_axes),
    ("simplify", simplify),
    ("drop_checks", drop_checks),
    ("common_subexpressions", common_subexpressions),
    ("remove_dead_code", remove_dead_code),
]
"""Passes that clean a kernel with structured control flow."""

FORWARD: list[tuple[str, Pass]] = [
    ("split_tasks", split_tasks),
    ("lower_blocks", lower_blocks),
    ("fold_constants", fold_constants),
    ("drop_unit_axes", drop_unit_axes),
    ("simplify", simplify),
    ("drop_checks", drop_checks),
    ("common_subexpressions", common_subexpressions),
    ("remove_dead_code", remove_dead_code),
]
"""Passes from stage source to a forward kernel."""

_SCALAR: list[tuple[str, Pass]] = FORWARD[2:5]

BLOCKS: dict[str, list[tuple[str, Pass]]] = {
    "loops": FORWARD,
    "kept": [FORWARD[0], ("refuse_draws", refuse_draws)],
    "threads": [FORWARD[0], ("thread_blocks", thread_blocks), *_SCALAR],
    "warps": [FORWARD[0], ("thread_blocks_of_warps", thread_blocks_of_warps), *_SCALAR],
}
"""Passes from stage source to a forward kernel with blocks, by how a backend runs these.

* loops: one iteration loops over those of a block.
* kept: the backend runs the statements on blocks as they are.
* threads: iterations of a block are threads of a thread block, with shared arrays and barriers.
* warps: they are so, and their warps have shuffles and votes.

In a kernel that keeps blocks, iterations see what others store between two statements, so passes leave memory alone.
"""

BEFORE_REVERSE: list[tuple[str, Pass]] = [
    ("split_tasks", split_tasks),
    ("lower_blocks", lower_blocks),
    ("number_draws", number_draws),
    ("lower_exits", lower_exits),
    *TIDY,
    ("serialize_products", serialize_products),
    ("promote_elements", promote_elements),
    *TIDY,
    ("number_loops", number_loops),
]
"""Passes from stage source to the kernel that reverse mode takes.

The second TIDY is left out if no element was promoted, because the kernel is clean already.
"""


def run_passes(kernel: Kernel, passes: list[tuple[str, Pass]], trace: Trace | None = None, stage: str = "") -> Kernel:
    """Apply passes in order to a kernel and return the resulting kernel.

    Args:
        kernel: The kernel.
        passes: Names and functions of the passes.
        trace: Function that is called after each pass with its name and the kernel, if given.
        stage: The stage that the kernel is verified against after each pass; empty for no verification.
    """
    for name, apply in passes:
        kernel = apply(kernel)
        if trace:
            trace(name, kernel)
        if stage:
            verify(kernel, stage)
    return kernel


@with_stack_room
def prepare_forward(
    kernel: Kernel, trace: Trace | None = None, check: bool = False, stated: bool = False, blocks: str = "loops"
) -> Lowering:
    """Return the lowering of a kernel that computes its values (no derivatives).

    Args:
        kernel: A kernel of stage source, tasks, structured or adjoint.
        trace: Function called after each pass with its name and the kernel, if given.
        check: True if the kernel is verified after each pass.
        stated: True if the claims of `assume_unique` are to be checked after each launch.
        blocks: How the backend runs blocks, a key of BLOCKS.
    """
    is_adjoint = _has_stacks(kernel) or _uses_adjoints(kernel)
    if check:
        verify(kernel, "adjoint" if is_adjoint else "source")
    passes = [] if _has_stacks(kernel) else BLOCKS[blocks] if has_blocks(kernel) else FORWARD
    made = _finish(run_passes(kernel, passes, trace, ("adjoint" if is_adjoint else "tasks") if check else ""))
    return replace(made, claims=_claims(kernel, check)) if stated else made


def _claims(kernel: Kernel, check: bool) -> MarkingKernel | None:
    """Return the marking kernel that checks claims such as `sg.assume_unique`; None if there is nothing to check.

    The result is None if there are no claims, or if they cannot be checked with memory as the kernel left it.
    """
    if _has_stacks(kernel) or not any(isinstance(s, Op) and s.op == "unique" for s in walk_kernel(kernel)):
        return None
    try:
        prepared = prepare_for_ad(kernel, None, check)
    except (NotDifferentiable, Unsupported):
        return None
    from .ad.marks import make_marking, stated_claims
    from .ad.risk import RiskAnalysis

    found = list(stated_claims(prepared))
    return _tidy_marking(make_marking(prepared, found, RiskAnalysis(prepared).find()), check) if found else None


@with_stack_room
def prepare_reverse(
    kernel: Kernel,
    lowering: str = "",
    trace: Trace | None = None,
    check: bool = False,
    taped: bool = False,
    stated: bool = False,
) -> Lowering:
    """Return the lowering of a kernel of stage source to its grad kernel.

    Args:
        kernel: The kernel.
        lowering: Name of a policy of `ad.policies`; empty for the default, `lean`.
        trace: Function called after each pass with its name and the kernel, if given.
        check: True if the kernel is verified after each pass.
        taped: True if a tape can supply the state before the launch.
        stated: True if the claims of `assume_unique` are to be checked before each launch.

    Raises:
        NotDifferentiable: The gradient does not exist or would be wrong.
        Unsupported: The kernel holds something that reverse mode cannot handle yet.
    """
    from .ad.adjoint_states import drop_unused_states, states_of
    from .ad.grad_kernel import reverse, reverse_taped

    prepared = prepare_for_ad(kernel, trace, check)
    if taped:
        grad, before, marking = reverse_taped(prepared, lowering, stated)
    else:
        (grad, marking), before = reverse(prepared, lowering, stated), {}
    if trace:
        trace(f"reverse ({policy_of(lowering).name})", grad)
    if check:
        verify(grad, "adjoint")
    tidy = drop_unused_states(run_passes(grad, TIDY, trace, "adjoint" if check else ""))
    marking = _tidy_marking(marking, check)
    return replace(_finish(renumber(tidy)), before=before, states=states_of(tidy), marking=marking)


def _tidy_marking(marking: MarkingKernel | None, check: bool) -> MarkingKernel | None:
    """Return the marking kernel without dead code and empty tasks, or None if there is no marking kernel."""
    if marking is None:
        return None
    tidy = run_passes(marking.kernel, TIDY[1:], None, "structured" if check else "")
    return replace(marking, kernel=renumber(replace(tidy, tasks=tuple(t for t in tidy.tasks if t.body))))


@with_stack_room
def prepare_tangent(
    kernel: Kernel, carriers: Iterable[str], trace: Trace | None = None, check: bool = False
) -> Lowering:
    """Return the lowering of a kernel to its tangent kernel.

    The kernel is of stage source, or of stage adjoint if it has adstacks. See `ad.tangent`.

    Args:
        kernel: The kernel.
        carriers: Array parameters with a tangent.
        trace: Function called after each pass with its name and the kernel, if given.
        check: True if the kernel is verified after each pass.

    Raises:
        NotDifferentiable: The kernel has no tangent kernel.
    """
    from .ad.tangent import tangent

    step: tuple[str, Pass] = "tangent", lambda k: tangent(k, carriers)
    if _has_stacks(kernel):
        return _finish(renumber(run_passes(kernel, [step], trace, "adjoint" if check else "")))
    passes = [*FORWARD[:2], ("fold_constants", fold_constants), step, *FORWARD[2:]]
    return _finish(renumber(run_passes(kernel, passes, trace, "tasks" if check else "")))


@with_stack_room
def prepare_second(
    gradient: Kernel,
    carriers: Iterable[str],
    constants: Collection[str] = (),
    before: Mapping[str, str] | None = None,
    check: bool = False,
) -> Lowering:
    """Return the lowering of a grad kernel to its tangent kernel, for second derivatives (forward over reverse).

    Args:
        gradient: The grad kernel.
        carriers: Arrays with a tangent. Adjoints `x.grad` are arrays like all others.
        constants: Carriers whose tangents count as zero where the grad kernel reads their elements.
        before: For each parameter that takes a copy of an array as it was before the forward launch, this array. A copy
            has a tangent if the array has one.
        check: True if the kernel is verified after each pass.

    Raises:
        NotDifferentiable: The grad kernel has no tangent kernel.
    """
    from .ad.adjoint_states import states_of
    from .ad.detach import detach_loads
    from .ad.tangent import tangent

    states, wanted = states_of(gradient), frozenset(carriers)
    behind = {**(before or {}), **states}
    copies = {copy for copy, array in behind.items() if array in wanted}
    read = {*constants, *(copy for copy in copies if behind[copy] in constants)}
    kernel = tangent(detach_loads(gradient, read), wanted | copies, gradient=True)
    made = _finish(renumber(run_passes(kernel, TIDY, None, "adjoint" if check else "")))
    return replace(made, before=_with_tangents(before or {}, copies), states=_with_tangents(states, copies))


def _with_tangents(behind: Mapping[str, str], wanted: Collection[str]) -> dict[str, str]:
    """Return the mapping from copies to copied arrays, extended by the tangent of each copy in `wanted`."""
    return {**behind, **{f"{copy}.dual": f"{array}.dual" for copy, array in behind.items() if copy in wanted}}


@with_stack_room
def prepare_for_ad(kernel: Kernel, trace: Trace | None = None, check: bool = False) -> Kernel:
    """Return a kernel of stage source, lowered to stage structured by the passes that run before reverse mode.

    Args:
        kernel: A kernel of stage source.
        trace: Function called after each pass with its name and the kernel, if given.
        check: True if the kernel is verified after each pass.
    """
    stages = dict.fromkeys(("split_tasks", "lower_blocks", "number_draws"), "tasks")
    left_out = 0
    for name, apply in BEFORE_REVERSE:
        if left_out:
            left_out -= 1
            continue
        before = kernel
        kernel = run_passes(kernel, [(name, apply)], trace, stages.get(name, "structured") if check else "")
        if name == "promote_elements" and kernel is before:
            # Nothing was promoted, so the second TIDY has nothing to do.
            left_out = len(TIDY)
    return kernel


def _has_stacks(kernel: Kernel) -> bool:
    """Return True if the kernel declares adstacks."""
    return any(isinstance(s, StackAlloca) for s in walk_kernel(kernel))


def _uses_adjoints(kernel: Kernel) -> bool:
    """Return True if a kernel accesses `x.grad` without a parameter of that name, as grad kernels do."""
    named = {p.name for p in kernel.params}
    used = _arrays(kernel, ARRAY_USES) - named
    return any(f"{name}.grad" in used for name, found in kernel.array_types().items() if found.grad)


def _finish(kernel: Kernel) -> Lowering:
    """Return the lowering of a kernel: with its sizing data, and the names of the arrays read and written."""
    params = {p.name for p in kernel.params if isinstance(p.type, ArrayType)}
    reads = _arrays(kernel, ARRAY_READS) & params
    writes = _arrays(kernel, ARRAY_WRITES) & params
    sliced = count_slice(kernel)
    counting = None if sliced is None else count_stacks(kernel, sliced)
    if sliced is None or counting is None:
        return Lowering(kernel, None, reads, writes)
    counted = _arrays(counting, (Load,)) & params
    shadow = shadowed_arrays(counting, params)
    return Lowering(
        kernel, counting, reads, writes, counted, shadow, sizes=store_sizes(recognize_sizes(kernel, sliced))
    )


def _arrays(kernel: Kernel, kinds: tuple[type, ...]) -> frozenset[str]:
    """Return the names of the arrays that statements of the given classes access."""
    return frozenset(s.array for s in walk_kernel(kernel) if isinstance(s, kinds))  # type: ignore[attr-defined]
