"""Run one case: a program on every executor, forward and reverse, judged within the error bounds of the reference.

Forward, the standard is the interpreter on the kernel as written; reverse, the interpreter on the lean gradient. The
other executors differ from the standard in text (the model's own rendering), in passes, in lowering, in machine or in
method (dual numbers, JAX), so any single mistake shows. A trap must be a trap on every executor.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ....backends.base import Backend, Draws, Options, Scalars, Sizes
from ....backends.launching.launcher import Launcher
from ....compiler.driver import Lowering
from ....compiler.errors import NotDifferentiable, Unsupported
from ....compiler.ir.kernels import Kernel
from ....reference.backend import ReferenceBackend
from ....reference.launch import run
from ....reference.traps import OutOfFuel
from ...testing.compare import Verdict
from ...testing.executors import CHECKED, PRECISE
from ...testing.launch import GRAD
from ...testing.outcome import Arrays, OkOutcome, Outcome, TrapOutcome, UnsupportedOutcome, attempt, one_line
from ..model import Program
from ..peers import Peer
from ..strategies import OPERATIONS
from . import derivatives, features, peer_comparison, raw_stacks, relation_checks, second_launch, tape_programs
from .equivalent_programs import TWINS
from .execution_end import TRAP_KINDS, copies, describe_end, named_error, same_bits
from .lowerings import Lowerings, before_arrays, has_combining_atomics, kernel_of
from .marks import marking_refusal, refusal_difference
from .plan import MASKED, FuzzPlan
from .reference_run import FUEL, BoundedResult, judge, launch_bounded
from .result import CaseFeatures, CaseResult, JudgedComparison
from .widened_cpu import executors

ArrayState = dict[str, np.ndarray]


@dataclass
class FuzzPanel:
    """Hold the backends, peers, interpreter and runtime that one process uses to run cases."""

    backends: Mapping[str, Backend]
    peers: Mapping[str, Peer] = field(default_factory=dict)
    reference: ReferenceBackend = field(default_factory=lambda: ReferenceBackend(fuel=FUEL))
    tapes: tape_programs.TapeBench = field(default_factory=tape_programs.TapeBench)


def run_case(program: Program, plan: FuzzPlan, panel: FuzzPanel) -> CaseResult:
    """Return the verdicts of all comparisons of a plan; an exception becomes a verdict and is never raised."""
    begin = time.process_time()
    case = _Case(program, plan, panel)
    try:
        case.run()
    except Exception as error:  # A mistake of the harness or an oracle counts as any other.
        at = traceback.extract_tb(error.__traceback__)[-1]
        case.add("harness", type(error).__name__, "nothing", "disagree", f"{at.name}:{at.lineno}: {str(error)[:200]}")
    return CaseResult(tuple(case.judged), case.features(), time.process_time() - begin)


@dataclass
class _Case:
    program: Program
    plan: FuzzPlan
    panel: FuzzPanel
    judged: list[JudgedComparison] = field(default_factory=list)
    lowerings: Lowerings | None = None
    states: list[BoundedResult] = field(default_factory=list)
    trips: int = 0
    depth: int = 0
    sizes: dict[int, Sizes] = field(default_factory=dict)
    refusals: dict[int, tuple[Lowerings, Exception | None]] = field(default_factory=dict)

    def run(self) -> None:
        """Run all comparisons of the case in order; stop if later comparisons need a result that is missing."""
        self.judged += raw_stacks.compare(self.plan, self.panel.backends)
        self.judged += tape_programs.compare(self.plan, self.panel)
        if self.plan.only is not None and self.plan.only[0] in (raw_stacks.DIRECTION, tape_programs.DIRECTION):
            return
        try:
            kernel = self._kernel()
        except Exception as error:
            self._refused("load", "frontend", error, "unsupported")
            return
        self.lowerings = made = Lowerings(kernel, self.plan.check)
        try:
            assert made.plain
        except Exception as error:
            self._refused("forward", "plain", error, "unsupported")
            return
        final = self._forward()
        if isinstance(final, OkOutcome) and not self.plan.stops_before_reverse and self.lowerings.gradients:
            self._reverse(self.lowerings)
        if isinstance(final, OkOutcome):
            self.judged += relation_checks.compare(made, self.initial, self.states, self.program, self.plan, self.panel)
        if self.plan.peers:
            asked = (self.program, made, self.initial, self.scalars, self.plan, self.panel.peers)
            self.judged += peer_comparison.compare(*asked)

    def _kernel(self) -> Kernel:
        """Set the initial arrays and scalars of the case, and return the kernel that the case tests."""
        self.initial, self.scalars = self.program.arrays(), self.program.scalars()
        return kernel_of(self.program, self.plan)

    def add(self, direction: str, executor: str, reference: str, verdict: Verdict, reason: str = "") -> None:
        """Record in the results of the case how `executor` compared with `reference` in one direction."""
        self.judged.append(JudgedComparison(direction, executor, reference, verdict, reason))

    def _refused(self, direction: str, executor: str, error: Exception, verdict: Verdict) -> None:
        """Record that the compiler refused the case: verdict `disagree` if the exception is no declared refusal."""
        if isinstance(error, NotDifferentiable | Unsupported):
            self.add(direction, executor, "the compiler", verdict, one_line(error))
        else:
            self.add(direction, executor, "the compiler", "disagree", named_error(error))

    def features(self) -> CaseFeatures:
        """Return measured features of the case, such as loop depth, trip count and adstack depth."""
        if self.lowerings is None:
            return CaseFeatures()
        kernel = self.lowerings.kernel
        nest, statements = features.loop_nest(kernel), features.statements(kernel)
        return CaseFeatures(nest, self.trips, self.depth, statements, features.tags(kernel))

    # -- forward --------------------------------------------------------------------------------------------

    def _forward(self) -> Outcome:
        """Run the forward kernel on the reference, compare other executors with it, and return its outcome."""
        assert self.lowerings is not None
        plain = self.lowerings.plain.kernel
        outcome = attempt(lambda: self._states(plain))
        if isinstance(outcome, TrapOutcome) and outcome.kind not in TRAP_KINDS:
            self.add("forward", "plain", "the language", "disagree", str(outcome))
            return outcome
        if isinstance(outcome, TrapOutcome) and outcome.kind == OutOfFuel.__name__:
            self.add("forward", "plain", "the language", "undecided", f"more than {FUEL} statements")
            return outcome
        self._text_twin(outcome)
        self._twins_forward(outcome)
        if self.plan.forward or self.program.profile == OPERATIONS or not self._has_gradient(outcome):
            if self.plan.wants("forward", "optimized"):
                self._compare_forward("optimized", outcome, lambda: self._launches(self.panel.reference, CHECKED))
            self._backends_forward(outcome)
        elif MASKED in self.plan.backends and has_combining_atomics(plain):
            self._backends_forward(outcome, replace(self.plan, branching=False, masked=True))
        return outcome

    def _has_gradient(self, end: Outcome) -> bool:
        """Return True if the forward kernel ran to its end and has a gradient that is not refused."""
        assert self.lowerings is not None
        return isinstance(end, OkOutcome) and bool(self.lowerings.gradients) and self._refusal(self.lowerings) is None

    def _refusal(self, made: Lowerings) -> Exception | None:
        """Return the error by which compiler or marking kernel refuses the gradient, or None if none does."""
        if id(made) not in self.refusals:
            self.refusals[id(made)] = made, made.refusal or self._overlap(made.lean, self.panel.reference)
        return self.refusals[id(made)][1]

    def _overlap(self, grad: Lowering, backend: Backend) -> Exception | None:
        return marking_refusal(grad, backend, [self._primals(k, grad) for k in range(self.plan.launches)], self.scalars)

    def _options(self, options: Options) -> Options:
        return replace(options, effort=self.plan.effort)

    def _backends_forward(self, outcome: Outcome, among: FuzzPlan | None = None) -> None:
        """Compare the backends' forward results with those of the reference; `among` replaces the case's plan."""
        options, plan = self._options(PRECISE), among or self.plan
        if not isinstance(outcome, OkOutcome):  # Code with checks runs one iteration after the other.
            options, plan = self._options(CHECKED), replace(plan, branching=True, masked=False)
        for name, backend in executors(self.panel.backends, plan).items():
            if self.plan.wants("forward", name):
                self._compare_forward(name, outcome, partial(self._launches, backend, options))

    @property
    def _precise(self) -> bool:
        """Return True if tight error bounds apply, which hold only for executors of exactly the same kernel.

        Looser bounds serve the judges of the gradient too, if all reals are f64 and no other executors run.
        """
        assert self.lowerings is not None
        return self.plan.forward or not self.lowerings.is_wide

    def _states(self, plain: Kernel) -> Arrays:
        """Run all launches on the reference, store arrays and errors after each, and return the last arrays."""
        state: Arrays = self.initial
        errors: Arrays | None = None
        for launch in range(self.plan.launches):
            found = launch_bounded(plain, state, self.scalars, Draws(0, launch), errors, self._precise)
            self.states.append(found)
            self.trips = max(self.trips, found.trips)
            state, errors = found.arrays, found.errors
        return state

    def _launches(self, backend: Backend, options: Options) -> Arrays:
        assert self.lowerings is not None
        launcher = Launcher(self.lowerings.optimized, backend, options)
        memory = copies(self.initial)
        for launch in range(self.plan.launches):
            launcher.run(memory, self.scalars, Draws(0, launch))
        return memory

    def _text_twin(self, expected: Outcome) -> None:
        """Compare the frontend's kernel of the program with the kernel that the program model makes, bit by bit."""
        if self.plan.text and self.plan.wants("forward", "text"):
            self._same_bits("text", expected, lambda: self._run_twin(self._other_text()))

    def _other_text(self) -> Lowerings:
        """Return the lowerings of the other kernel: the program model's if the frontend's is tested, or vice versa."""
        return Lowerings(kernel_of(self.program, replace(self.plan, traced=not self.plan.traced)))

    def _twins_forward(self, expected: Outcome) -> None:
        for name, twin in self._twins():
            if self.plan.wants("forward", name):
                self._same_bits(name, expected, partial(self._run_twin, Lowerings(kernel_of(twin, self.plan))))

    def _twins(self) -> list[tuple[str, Program]]:
        """Return the program's twins by name: programs of equal meaning that are written differently."""
        found = [(name, make(self.program)) for name, make in TWINS.items()] if self.plan.twins else []
        return [(name, twin) for name, twin in found if twin is not None]

    def _same_bits(self, name: str, expected: Outcome, execute: Callable[[], Arrays]) -> None:
        found = attempt(execute)
        if isinstance(expected, OkOutcome) and isinstance(found, OkOutcome):
            differ = [n for n, a in expected.arrays.items() if not same_bits(a, found.arrays[n])]
            verdict: Verdict = "disagree" if differ else "ok"
            self.add("forward", name, "plain", verdict, f"{', '.join(differ)} differ" if differ else "")
        else:
            self._compare_ends(name, "plain", expected, found)

    def _run_twin(self, twin: Lowerings) -> Arrays:
        kernel = twin.plain.kernel
        memory = self.program.arrays()
        for launch in range(self.plan.launches):
            run(kernel, memory, self.scalars, Sizes(), Draws(0, launch), fuel=FUEL)
        return memory

    def _compare_forward(self, executor: str, expected: Outcome, execute: Callable[[], Arrays]) -> None:
        found = attempt(execute)
        if isinstance(expected, OkOutcome) and isinstance(found, OkOutcome):
            self._judge("forward", executor, "plain", self.states[-1], found)
        else:
            self._compare_ends(executor, "plain", expected, found)

    def _compare_ends(self, executor: str, reference: str, expected: Outcome, found: Outcome) -> None:
        """Compare how two executions ended, of which at least one ended early with a trap or a refusal."""
        if isinstance(found, UnsupportedOutcome):
            self.add("forward", executor, reference, "unsupported", found.reason)
        elif isinstance(expected, TrapOutcome) and isinstance(found, TrapOutcome) and expected.kind == found.kind:
            self.add("forward", executor, reference, "trap", expected.kind)
        else:
            ends = (describe_end(found), describe_end(expected))
            self.add("forward", executor, reference, "disagree", f"{ends[0]}; {reference}: {ends[1]}")

    def _judge(self, direction: str, executor: str, reference: str, known: BoundedResult, found: Outcome) -> None:
        made = judge(known, executor, found)
        self.add(direction, executor, reference, made.verdict, made.reason)

    # -- reverse --------------------------------------------------------------------------------------------

    def _reverse(self, made: Lowerings) -> None:
        refusal = self._refusal(made)
        if made.refusal is None and made.lean.marking is not None and self.plan.wants("reverse", "marks"):
            self._marks("marks", made.lean, refusal)
        if refusal is not None:
            self._refused("reverse", "lean", refusal, "refused")
            return
        if self.plan.wants("reverse", "types"):
            self._types(made)
        seeds = {name + GRAD: seed for name, seed in self.program.seeds().items() if name in made.gradients}
        if self.plan.only is None or self.plan.only[1] not in derivatives.JUDGES:
            self._within_bounds(made, seeds)
        self.judged += derivatives.compare(
            made, self.initial, self.scalars, seeds, self.plan, () if self._precise else self.states
        )

    def _by_hand(self, made: Lowerings, seeds: Arrays) -> None:
        """Compare the gradient called by hand with that of a tape, unless marks forbid to call the gradient by hand."""
        if (grad := made.by_hand if self.plan.wants("reverse", "by-hand") else None) is not None:
            self._marks("by-hand", grad, refusal := self._overlap(grad, self.panel.reference))
            if refusal is None:
                self._other_gradient("by-hand", made, grad, seeds)

    def _marks(self, executor: str, grad: Lowering, refusal: Exception | None) -> None:
        """Compare the results of marking kernels on every backend with those on the reference."""
        for name in (name for name in self.panel.backends if name in self.plan.backends):
            reason = refusal_difference(name, self._overlap(grad, self.panel.backends[name]), refusal)
            self.add("reverse", executor, "the reference", "disagree" if reason else "ok", reason)

    def _types(self, made: Lowerings) -> None:
        """Record the verdict `disagree` if the grad kernel computes with a real type that no adjoint should have."""
        reason = features.wrong_types(made.kernel, made.lean.kernel)
        self.add("reverse", "types", "the kernel", "disagree" if reason else "ok", reason)

    def _within_bounds(self, made: Lowerings, seeds: Arrays) -> None:
        """Compare the gradient of policy lean with those of other executors and of other policies."""
        lean = made.lean
        outcome = attempt(lambda: self._keep_gradient(lean, seeds, precise=True))
        if not isinstance(outcome, OkOutcome):
            self.add("reverse", "lean", "the language", "disagree", describe_end(outcome))
            return
        for name, execute in self._reverse_executors(made, seeds).items():
            if self.plan.wants("reverse", name):
                self._judge("reverse", name, "lean", self.gradient, attempt(execute))
        if self.plan.classic and self.plan.wants("reverse", "classic"):
            self._other_gradient("classic", made, made.classic, seeds)
        policy = self.plan.policy or self.plan.of_arrays * made.has_local_arrays
        if policy and self.plan.wants("reverse", "policy"):
            self._other_gradient("policy", made, made.other(policy), seeds)
        self._by_hand(made, seeds)
        if self.plan.twins:
            self._twins_reverse(made, seeds)
        state = {**self._primals(0, lean), **seeds}
        self.judged += second_launch.compare(lean, state, self.scalars, self.panel.reference, self.plan)

    def _twins_reverse(self, made: Lowerings, seeds: Arrays) -> None:
        """Compare the gradient of the program with the gradients of its twins, which have the same meaning."""
        twins = [("text", self._other_text()), *((n, Lowerings(kernel_of(t, self.plan))) for n, t in self._twins())]
        for name, twin in twins:
            if not self.plan.wants("reverse", name) or set(twin.gradients) != set(made.gradients):
                continue
            refusal = self._refusal(twin)
            if refusal is not None:
                self._refused("reverse", name, refusal, "refused")
            else:
                self._other_gradient(name, made, twin.lean, seeds)

    def _reverse_executors(self, made: Lowerings, seeds: Arrays) -> dict[str, Callable[[], Arrays]]:
        found: dict[str, Callable[[], Arrays]] = {"counted": lambda: self._counted(made.lean, seeds)}
        wanted = executors(self.panel.backends, self.plan).items() if self.plan.reverse else ()
        return found | {name: partial(self._on_backend, b, made.lean, seeds) for name, b in wanted}

    def _on_backend(self, backend: Backend, lean: Lowering, seeds: Arrays) -> Arrays:
        own = self.plan.counts or bool(self.gradient.poisoned)  # A poisoned run may have other sizes.
        if own or lean.counting is None or self.plan.only is not None:
            return self._pull(lean, Launcher(lean, backend, self._options(PRECISE)).run, seeds)
        executable = backend.compile(lean.kernel, self._options(PRECISE))
        return self._pull(lean, lambda m, s, d: executable.run(m, s, self.sizes[d.launch], d), seeds)

    def _counted(self, lean: Lowering, seeds: Arrays) -> Arrays:
        """Return the gradient of the lean policy, run with the adstack sizes that the counting kernel finds."""
        launcher = Launcher(lean, self.panel.reference, CHECKED)

        def launch(memory: ArrayState, scalars: Scalars, draws: Draws) -> None:
            launcher.run(memory, scalars, draws)
            self.sizes[draws.launch] = features.sizes_of(launcher)

        found = self._pull(lean, launch, seeds)
        self.depth = max((max(s.capacities.values(), default=0) for s in self.sizes.values()), default=0)
        return found

    def _other_gradient(self, name: str, made: Lowerings, other: Lowering, seeds: Arrays) -> None:
        """Compare a grad kernel with that of policy lean, within the sum of the error bounds of both."""
        self._keep_gradient(made.lean, seeds, precise=False)
        found: list[BoundedResult] = []

        def pull() -> Arrays:
            found.append(self._bounded_gradient(other, seeds, precise=False))
            return found[0].arrays

        outcome = attempt(pull)
        if found and found[0].poisoned:
            self.add("reverse", name, "lean", "poisoned", found[0].poisoned)
        else:
            made_of = judge(self.gradient, name, outcome, found[0].errors if found else None)
            self.add("reverse", name, "lean", made_of.verdict, made_of.reason)

    def _keep_gradient(self, lowered: Lowering, seeds: Arrays, precise: bool) -> Arrays:
        self.gradient = self._bounded_gradient(lowered, seeds, precise)
        return self.gradient.arrays

    def _bounded_gradient(self, lowered: Lowering, seeds: Arrays, precise: bool) -> BoundedResult:
        """Return the gradient with respect to the arrays before the first launch, and its error bounds."""
        adjoints: Arrays = seeds
        errors: Arrays | None = None
        for launch in reversed(range(self.plan.launches)):
            memory = {**self._primals(launch, lowered), **adjoints}
            found = launch_bounded(lowered.kernel, memory, self.scalars, Draws(0, launch), errors, precise)
            adjoints = {name: found.arrays[name] for name in seeds}
            errors = {name: found.errors[name] for name in seeds}
        return replace(found, arrays=dict(adjoints), errors=dict(errors or {}))

    def _pull(self, lowered: Lowering, start: Callable[[ArrayState, Scalars, Draws], None], seeds: Arrays) -> Arrays:
        """Run the gradients of all launches, last to first, and return the adjoints of the initial arrays."""
        adjoints: Arrays = seeds
        for launch in reversed(range(self.plan.launches)):
            memory = copies({**self._primals(launch, lowered), **adjoints})
            start(memory, self.scalars, Draws(0, launch))
            adjoints = {name: memory[name] for name in seeds}
        return adjoints

    def _primals(self, launch: int, lowered: Lowering) -> Arrays:
        """Return the arrays after a launch, and the copies of arrays before the launch that the gradient reads."""
        before = self.states[launch - 1].arrays if launch else self.initial
        return {**self.states[launch].arrays, **before_arrays(lowered, before)}
