"""From a kernel of stage source to what a backend runs: the pipelines, as lists of names.

`prepare_forward` and `prepare_reverse` give a `Lowered`: the executable kernel, the counting kernel that sizes its
adstacks, and which arrays they touch. What makes derivatives is imported when one is made: a program that never
differentiates does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .ad.policies import policy_of
from .ad.products import serialise_products
from .errors import NotDifferentiable, Unsupported
from .ir.depth import deep
from .ir.nodes import Atomic, Kernel, Load, Op, Shape, StackAlloca, Store
from .ir.types import ArrayType
from .ir.verify import verify
from .ir.walk import renumber, walk_kernel
from .passes.common_subexpressions import common_subexpressions
from .passes.dead_code import remove_dead_code
from .passes.fold_constants import fold_constants
from .passes.lower_exits import lower_exits
from .passes.number_draws import number_draws
from .passes.number_loops import number_loops
from .passes.promote_elements import promote_elements
from .passes.rewrite_versions import rewrite_versions
from .passes.simplify import simplify
from .passes.split_tasks import split_tasks
from .sizing.count import count_slice, count_stacks, shadowed_arrays
from .sizing.post_order import KeptSizes, keep
from .sizing.sizes import recognise

if TYPE_CHECKING:
    from .ad.marks import Marking

Pass = Callable[[Kernel], Kernel]
Trace = Callable[[str, Kernel], None]
"""Called with the name of each pass and the kernel after it."""


@dataclass(frozen=True)
class Lowered:
    """kernel: what a backend runs. counting: sizes its adstacks before the launch; None if nothing needs sizing. sizes:
    the same as expressions, if all are known exactly.

    reads, writes: array parameters whose content the kernel loads, stores or updates. shadow: array parameters that the
    counting kernel stores to; it gets copies of them. before: the array behind each parameter that takes a copy of what
    it held before the launch of the forward kernel. marking: decides before a launch whether the kernel is right.
    claims: tells after a launch whether what the program states of it holds.
    """

    kernel: Kernel
    counting: Kernel | None = None
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    shadow: frozenset[str] = field(default=frozenset())
    before: Mapping[str, str] = field(default_factory=dict)
    marking: Marking | None = None
    claims: Marking | None = None
    sizes: KeptSizes | None = None


TIDY: list[tuple[str, Pass]] = [
    ("rewrite_versions", rewrite_versions),
    ("fold_constants", fold_constants),
    ("simplify", simplify),
    ("common_subexpressions", common_subexpressions),
    ("remove_dead_code", remove_dead_code),
]
"""Needs structured control flow."""

FORWARD: list[tuple[str, Pass]] = [
    ("split_tasks", split_tasks),
    ("fold_constants", fold_constants),
    ("simplify", simplify),
    ("common_subexpressions", common_subexpressions),
    ("remove_dead_code", remove_dead_code),
]

BEFORE_REVERSE: list[tuple[str, Pass]] = [
    ("split_tasks", split_tasks),
    ("number_draws", number_draws),
    ("lower_exits", lower_exits),
    *TIDY,
    ("serialise_products", serialise_products),
    ("promote_elements", promote_elements),
    *TIDY,
    ("number_loops", number_loops),
]
"""The second TIDY is left out where no element was promoted: the kernel is tidy already."""


def run_passes(kernel: Kernel, passes: list[tuple[str, Pass]], trace: Trace | None = None, stage: str = "") -> Kernel:
    """Apply passes in order. stage: verify after each (tests, debug)."""
    for name, apply in passes:
        kernel = apply(kernel)
        if trace:
            trace(name, kernel)
        if stage:
            verify(kernel, stage)
    return kernel


@deep
def prepare_forward(kernel: Kernel, trace: Trace | None = None, check: bool = False, stated: bool = False) -> Lowered:
    """A kernel of stage source, tasks, structured or adjoint, ready to run. check: verify after each pass. stated: what
    `assume_unique` claims is looked at after each launch.
    """
    is_adjoint = _has_stacks(kernel) or _uses_adjoints(kernel)
    if check:
        verify(kernel, "adjoint" if is_adjoint else "source")
    passes = [] if _has_stacks(kernel) else FORWARD
    made = _finish(run_passes(kernel, passes, trace, ("adjoint" if is_adjoint else "tasks") if check else ""))
    return replace(made, claims=_claims(kernel, check)) if stated else made


def _claims(kernel: Kernel, check: bool) -> Marking | None:
    """Looks at what the kernel states; None if that is nothing, or cannot be told from memory as the kernel left it."""
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


@deep
def prepare_reverse(
    kernel: Kernel,
    lowering: str = "",
    trace: Trace | None = None,
    check: bool = False,
    taped: bool = False,
    stated: bool = False,
) -> Lowered:
    """The grad kernel of a kernel of stage source. lowering: a policy of `ad.policies`; empty for the default, `lean`.
    taped: the state before the launch is at hand. stated: what `assume_unique` claims is looked at before each launch.

    Raises NotDifferentiable or Unsupported, located.
    """
    from .ad.driver import reverse, reverse_taped

    prepared = prepare_for_ad(kernel, trace, check)
    if taped:
        grad, before, marking = reverse_taped(prepared, lowering, stated)
    else:
        (grad, marking), before = reverse(prepared, lowering, stated), {}
    if trace:
        trace(f"reverse ({policy_of(lowering).name})", grad)
    if check:
        verify(grad, "adjoint")
    finished = _finish(renumber(run_passes(grad, TIDY, trace, "adjoint" if check else "")))
    return replace(finished, before=before, marking=_tidy_marking(marking, check))


def _tidy_marking(marking: Marking | None, check: bool) -> Marking | None:
    if marking is None:
        return None
    tidy = run_passes(marking.kernel, TIDY[1:], None, "structured" if check else "")
    return replace(marking, kernel=renumber(replace(tidy, tasks=tuple(t for t in tidy.tasks if t.body))))


@deep
def prepare_tangent(
    kernel: Kernel, carriers: Iterable[str], trace: Trace | None = None, check: bool = False
) -> Lowered:
    """The kernel with tangents `x.dual`; see `ad.tangent`. Stage source, or adjoint if it has adstacks of its own.

    Raises NotDifferentiable, located.
    """
    from .ad.tangent import tangent

    step: tuple[str, Pass] = "tangent", lambda k: tangent(k, carriers)
    if _has_stacks(kernel):
        return _finish(renumber(run_passes(kernel, [step], trace, "adjoint" if check else "")))
    passes = [FORWARD[0], ("fold_constants", fold_constants), step, *FORWARD[1:]]
    return _finish(renumber(run_passes(kernel, passes, trace, "tasks" if check else "")))


@deep
def prepare_second(
    gradient: Kernel,
    carriers: Iterable[str],
    constants: Collection[str] = (),
    before: Mapping[str, str] | None = None,
    check: bool = False,
) -> Lowered:
    """A grad kernel, lowered by `prepare_reverse`, with tangents: forward over reverse. Raises NotDifferentiable.

    carriers: arrays with a tangent; adjoints, `x.grad`, are arrays like others. before: the array behind each copy of
    what was there before the launch; a copy has a tangent if that array does. constants: carriers of which content
    alone is read.
    """
    from .ad.detach import detach_loads
    from .ad.tangent import tangent

    behind, wanted = before or {}, frozenset(carriers)
    copies = {copy for copy, array in behind.items() if array in wanted}
    read = {*constants, *(copy for copy in copies if behind[copy] in constants)}
    kernel = tangent(detach_loads(gradient, read), wanted | copies, gradient=True)
    made = _finish(renumber(run_passes(kernel, TIDY, None, "adjoint" if check else "")))
    return replace(made, before={**behind, **{f"{copy}.dual": f"{behind[copy]}.dual" for copy in copies}})


@deep
def prepare_for_ad(kernel: Kernel, trace: Trace | None = None, check: bool = False) -> Kernel:
    """The kernel that reverse mode starts from: structured, versions rewritten, own elements promoted."""
    stages = {"split_tasks": "tasks", "number_draws": "tasks"}
    left_out = 0
    for name, apply in BEFORE_REVERSE:
        if left_out:
            left_out -= 1
            continue
        before = kernel
        kernel = run_passes(kernel, [(name, apply)], trace, stages.get(name, "structured") if check else "")
        if name == "promote_elements" and kernel is before:
            left_out = len(TIDY)
    return kernel


def _has_stacks(kernel: Kernel) -> bool:
    return any(isinstance(s, StackAlloca) for s in walk_kernel(kernel))


def _uses_adjoints(kernel: Kernel) -> bool:
    """Whether a kernel uses `x.grad` without a parameter of that name, as kernels of stage adjoint do."""
    named = {p.name for p in kernel.params}
    used = _arrays(kernel, (Load, Store, Atomic, Shape)) - named
    return any(f"{name}.grad" in used for name, found in kernel.array_types().items() if found.grad)


def _finish(kernel: Kernel) -> Lowered:
    params = {p.name for p in kernel.params if isinstance(p.type, ArrayType)}
    reads = _arrays(kernel, (Load, Atomic)) & params
    writes = _arrays(kernel, (Store, Atomic)) & params
    sliced = count_slice(kernel)
    counting = None if sliced is None else count_stacks(kernel, sliced)
    if sliced is None or counting is None:
        return Lowered(kernel, None, reads, writes)
    counted = _arrays(counting, (Load,)) & params
    shadow = shadowed_arrays(counting, params)
    return Lowered(kernel, counting, reads, writes, counted, shadow, sizes=keep(recognise(kernel, sliced)))


def _arrays(kernel: Kernel, kinds: tuple[type, ...]) -> frozenset[str]:
    return frozenset(s.array for s in walk_kernel(kernel) if isinstance(s, kinds))  # type: ignore[attr-defined]
