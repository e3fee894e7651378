"""This module replays one recorded launch on every executor, forward and reverse, in double and in its own precision.

In the widened kernel (double precision throughout) JAX judges and bounds are tight. In the kernel's own precision the
backends run the code that the program ran. A forward launch also gives a gradient test: for random cotangents of the
final contents, the grad kernel at the final contents is compared with the vjp of JAX from the initial ones. A recorded
reverse launch is repeated as it was, adjoints included, so that the result of the program itself is judged too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from ...backends.launching.adstack_usage import SlabUse
from ...compiler.errors import StackgradError
from ...compiler.errors import Unsupported as UnsupportedError
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.types import adjoint_type, from_dtype
from ...compiler.passes.widen import widen
from .compare import Comparison, Standard, Verdict, worst
from .cost import LaunchCost, measure_cost
from .executors import (
    Executor,
    LaunchExecutor,
    lower_plainly,
    plain_interpreter,
    reference_executor,
    reordered_interpreter,
)
from .launch import GRAD, CapturedLike, LaunchSetting, is_plain, with_gradient
from .oracle_executors import JaxExecutor, check_direction
from .outcome import (
    Arrays,
    OkOutcome,
    Outcome,
    PoisonedOutcome,
    RefusedOutcome,
    TrapOutcome,
    UndecidedOutcome,
    UnsupportedOutcome,
    attempt,
    one_line,
)
from .rounding import (
    Precision,
    moved_scalars,
    narrowest_type,
    perturb_by_rounding,
    perturb_in_all_ways,
    random_signs,
    seeded_generator,
    sensitivity,
)

FAST = 0.05
"""Launches that take fewer seconds than this limit are timed three times."""

Direction = Literal["forward", "reverse"]


@dataclass(frozen=True)
class ReplayCase:
    """Represent the comparisons of all executors on one recorded launch, in one direction and precision.

    Attributes:
        kernel: the kernel that was launched.
        direction: "forward" or "reverse".
        precision: the label of the precision, such as "f64" or "exact".
        reference: "ok", or the verdict on the reference itself.
        reason: the cause of the verdict on the reference.
        comparisons: the comparisons of all executors with the reference.
        seconds: the time of one launch on the reference.
        adstacks: the adstack memory of the gradient on the reference.
    """

    kernel: Kernel
    direction: Direction
    precision: str
    reference: Verdict
    reason: str = ""
    comparisons: tuple[Comparison, ...] = ()
    seconds: float | None = None
    adstacks: tuple[SlabUse, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict of the reference and all comparisons; unsupported executors do not count."""
        if self.reference != "ok":
            return self.reference
        return worst([c.verdict for c in self.comparisons if c.verdict != "unsupported"])


@dataclass
class ExecutorPanel:
    """Represent the executors of a check: backends, interpreters and oracle. A panel compiles each kernel once."""

    backends: Sequence[LaunchExecutor]
    reference: LaunchExecutor = field(default_factory=reference_executor)
    twin: LaunchExecutor = field(default_factory=plain_interpreter)
    reordered: LaunchExecutor = field(default_factory=reordered_interpreter)
    oracle: Executor = field(default_factory=JaxExecutor)
    _wide: dict[int, tuple[Kernel, Kernel]] = field(default_factory=dict)

    @property
    def judged(self) -> tuple[LaunchExecutor, ...]:
        """Return the executors that the check compares in both precisions, double and the kernel's own."""
        return self.twin, *self.backends

    def widen(self, kernel: Kernel) -> Kernel:
        """Return the kernel in double precision; repeated calls for one kernel return the same object.

        Raises:
            UnsupportedOutcome: the kernel reads the bits of reals.
        """
        if id(kernel) not in self._wide:
            wide = widen(kernel)
            # The entry holds the kernel too, so that its id is not taken by a new object.
            self._wide[id(kernel)] = kernel, kernel if wide == kernel else wide
        return self._wide[id(kernel)][1]


def replay(launch: CapturedLike, panel: ExecutorPanel) -> Iterator[ReplayCase]:
    """Yield the comparisons of a recorded launch as replay cases, one for each direction and precision."""
    own = LaunchSetting.of(launch)
    label = str(narrowest_type(own.kernel) or "exact")
    if launch.kind == "reverse":
        yield Replay(panel, own, label, launch.after).reverse_as_run()
        return
    try:
        wide = panel.widen(own.kernel)
    except UnsupportedError as error:
        yield ReplayCase(own.kernel, "forward", "f64", "unsupported", one_line(error))
    else:
        if wide is not own.kernel:
            arrays = {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in own.arrays.items()}
            # The program has no results in this precision, so `after` is None.
            yield from Replay(panel, replace(own, kernel=wide, arrays=arrays), "f64", None, own.kernel).cases()
    yield from Replay(panel, own, label, launch.after).cases()


class Replay:
    """Replay one launch in one precision on all executors, and compare the results.

    Attributes:
        setting: the launch in this precision.
        after: the results of the program; None if the precision is not the program's own.
        source: the kernel to report if `setting` holds a widened copy of it.
    """

    def __init__(
        self,
        panel: ExecutorPanel,
        setting: LaunchSetting,
        precision: str,
        after: Arrays | None,
        source: Kernel | None = None,
    ) -> None:
        self.panel = panel
        self.kernel = setting.kernel
        self.setting = setting
        self.label = precision
        self.after = after
        self.source = source or setting.kernel
        self.precision = Precision.of(setting.kernel)
        self.names = with_gradient(setting.kernel)
        self.judges = (*panel.judged, panel.oracle) if self._is_double else panel.judged

    @property
    def _is_double(self) -> bool:
        return self.label in ("f64", "exact")

    def cases(self) -> Iterator[ReplayCase]:
        """Yield the replay case of the forward launch and, if the forward kernel ran, that of its gradient."""
        outcome, seconds = timed(self.panel.reference, lambda: self._forward(self.panel.reference, self.setting))
        if not isinstance(outcome, OkOutcome):
            yield self._stopped("forward", outcome, self._traps(outcome))
            return
        cost = self._cost()
        yield self._forward_case(outcome, seconds, cost)
        yield self._gradient_case(outcome, cost)

    # -- forward --------------------------------------------------------------------------------------------

    def _forward(self, executor: Executor, at: LaunchSetting) -> Arrays:
        return executor.forward(at.kernel, at.arrays, at.scalars, at.draws)

    def _forward_case(self, base: OkOutcome, seconds: float | None, cost: LaunchCost | None) -> ReplayCase:
        reruns = [attempt(partial(self._forward, self.panel.reference, s)) for s in self._moved()]
        reruns.append(attempt(lambda: self._forward(self.panel.reordered, self.setting)))
        standard = self._standard(base.arrays, reruns)
        found = [self._judge(standard, e, cost, partial(self._forward, e, self.setting)) for e in self.judges]
        if self.after is not None:
            found.append(standard.judge("program", OkOutcome(self.after)))
        return ReplayCase(self.source, "forward", self.label, "ok", "", tuple(found), seconds)

    def _traps(self, expected: Outcome) -> list[Comparison]:
        """Return the comparison of each backend's trap, from a kernel with checks, with the trap of the reference."""
        found = []
        for executor in self.panel.backends if isinstance(expected, TrapOutcome) else ():
            outcome = attempt(partial(self._forward, executor.checked(), self.setting))
            kind = outcome.kind if isinstance(outcome, TrapOutcome) else "no trap"
            same = isinstance(expected, TrapOutcome) and kind == expected.kind
            found.append(Comparison(executor.name, "ok" if same else "disagree", "" if same else f"{kind} here"))
        return found

    # -- reverse --------------------------------------------------------------------------------------------

    def _gradient(self, executor: Executor, at: LaunchSetting, after: Arrays, seeds: Arrays) -> Arrays:
        return executor.gradient(at.kernel, at.arrays, after, at.scalars, at.draws, seeds)

    def _gradient_from(self, executor: LaunchExecutor, at: LaunchSetting, seeds: Arrays) -> Arrays:
        """Run the forward kernel and then the grad kernel on one executor, and return the adjoints."""
        return self._gradient(executor, at, self._forward(executor, at), seeds)

    def _gradient_case(self, final: OkOutcome, cost: LaunchCost | None) -> ReplayCase:
        seeds = self._seeds()
        ours, u = self.panel.reference, self.precision.u
        outcome, seconds = timed(ours, lambda: self._gradient(ours, self.setting, final.arrays, seeds))
        if not isinstance(outcome, OkOutcome):
            return self._stopped("reverse", outcome)
        reruns = [
            attempt(partial(self._gradient_from, ours, s, perturb_by_rounding(seeds, u, ("seed", k))))
            for k, s in enumerate(self._moved())
        ]
        reruns.append(attempt(lambda: self._gradient_from(self.panel.reordered, self.setting, seeds)))
        standard = self._standard(outcome.arrays, reruns, seeds)
        at = (self.setting, final.arrays, seeds)
        found = [self._judge(standard, e, cost, partial(self._gradient, e, *at)) for e in self.judges]
        if self._is_double:
            # In double precision the oracle is the last of `judges`.
            found += self._settle(found.pop(), standard, seeds, reruns, cost)
        return self._reverse_case(found, seconds)

    def _reverse_case(self, found: list[Comparison], seconds: float | None) -> ReplayCase:
        stacks = tuple(self.panel.reference.adstacks(self.kernel))
        return ReplayCase(self.source, "reverse", self.label, "ok", "", tuple(found), seconds, stacks)

    def reverse_as_run(self) -> ReplayCase:
        """Return the replay case of a recorded reverse launch, which starts from the adjoints recorded before it."""
        assert self.after is not None
        arrays, ours, u = self.setting.arrays, self.panel.reference, self.precision.u
        seeds = {name: arrays[name + GRAD] for name in self.names if name + GRAD in arrays}
        own = self.kernel.array_types()
        state = {name: array for name, array in arrays.items() if name in own or not name.endswith(GRAD)}

        def run(e: Executor, s: Arrays = state, c: Arrays = seeds) -> Callable[[], Arrays]:
            return partial(self._gradient, e, self.setting, s, c)

        outcome, seconds = timed(ours, run(ours))
        if not isinstance(outcome, OkOutcome):
            return self._stopped("reverse", outcome)
        reruns = [
            attempt(run(ours, perturb_by_rounding(state, u, k), perturb_by_rounding(seeds, u, ("seed", k))))
            for k in range(2)
        ]
        standard = self._standard(outcome.arrays, [*reruns, attempt(run(self.panel.reordered))], seeds)
        found = [self._judge(standard, e, None, run(e)) for e in self.panel.judged]
        program = {name: self.after[name + GRAD] for name in seeds}
        return self._reverse_case([*found, standard.judge("program", OkOutcome(program))], seconds)

    # -- the independent judge ------------------------------------------------------------------------------

    def _settle(
        self, jax: Comparison, standard: Standard, seeds: Arrays, reruns: Sequence[Outcome], cost: LaunchCost | None
    ) -> list[Comparison]:
        """Return the comparison with JAX and, if JAX cannot decide, also the comparison with dual numbers.

        JAX cannot decide if it cannot be asked, or if it has a convention of its own at a kink.
        """
        if jax.verdict == "disagree" and self._at_kink(standard, seeds):
            jax = replace(jax, verdict="poisoned", reason="at a kink, where JAX has conventions of its own")
        if jax.verdict not in ("unsupported", "poisoned"):
            return [jax]
        refusal = cost.dual_refusal() if cost else "its cost is not known"
        if refusal:
            return [replace(jax, verdict="undecided", reason=f"no oracle: {jax.reason}; {refusal}")]
        along_one = self._directional(standard, seeds, reruns)
        return [replace(jax, verdict="unsupported"), along_one]

    def _at_kink(self, standard: Standard, seeds: Arrays) -> bool:
        """Return True if a change of the initial contents by a few roundings makes the gradient jump."""
        for arrays in perturb_in_all_ways(self.setting.arrays, self.precision.u):
            there = replace(self.setting, arrays=arrays)
            outcome = attempt(partial(self._gradient_from, self.panel.reference, there, seeds))
            if not isinstance(outcome, OkOutcome):
                return True
            jumps = sensitivity(standard.arrays, [outcome.arrays], seeds)
            if not all(s.decides(self.precision) for s in jumps.values()):
                return True
        return False

    def _directional(self, standard: Standard, seeds: Arrays, reruns: Sequence[Outcome]) -> Comparison:
        """Compare <seeds, J v> with <gradient, v> along one random direction v."""
        at = self.setting
        tangents = {n: random_signs(seeded_generator("tangent", n), at.arrays[n].shape) for n in self.names}
        try:
            sides = check_direction(at.kernel, at.arrays, at.scalars, at.draws, seeds, standard.arrays, tangents)
        except StackgradError as error:
            return Comparison("dual", "disagree", f"ended with {one_line(error)}, the reference ran to its end", np.inf)
        others = [r.arrays for r in reruns if isinstance(r, OkOutcome)]
        values = [sum(float(np.sum(arrays[n] * tangents[n])) for n in self.names) for arrays in others]
        both = {"derivative": np.array(sides.reverse)}
        runs = [{"derivative": np.array(v)} for v in values]
        known = sensitivity(both, runs, {"derivative": np.array(sides.size)})
        return Standard(both, known, self.precision).judge("dual", OkOutcome({"derivative": np.array(sides.forward)}))

    # -- parts ----------------------------------------------------------------------------------------------

    def _moved(self) -> list[LaunchSetting]:
        at, u = self.setting, self.precision.u
        return [
            replace(
                at, arrays=perturb_by_rounding(at.arrays, u, k), scalars=moved_scalars(at.scalars, self.kernel, u, k)
            )
            for k in range(2)
        ]

    def _seeds(self) -> dict[str, np.ndarray]:
        """Return cotangents of magnitude 0.5 to 1.5 and random sign for every array with a gradient."""
        found = {}
        for name in self.names:
            random = seeded_generator("cotangent", self.kernel.name, name)
            like = self.setting.arrays[name]
            content = random_signs(random, like.shape) * random.uniform(0.5, 1.5, like.shape)
            found[name] = np.asarray(content, adjoint_type(from_dtype(like.dtype)).dtype, order="C")
        return found

    def _standard(self, base: Arrays, reruns: Sequence[Outcome], floors: Arrays | None = None) -> Standard:
        """Return the expected arrays with tolerances, measured by reruns with perturbed inputs.

        A rerun that ended differently from the reference poisons all arrays.
        """
        known = sensitivity(base, [r.arrays for r in reruns if isinstance(r, OkOutcome)], floors)
        if not all(isinstance(r, OkOutcome) for r in reruns):
            known = {name: replace(s, poisoned=True) for name, s in known.items()}
        return Standard(base, known, self.precision)

    def _judge(
        self, standard: Standard, executor: Executor, cost: LaunchCost | None, run: Callable[[], Arrays]
    ) -> Comparison:
        refusal = executor.supports(self.kernel)
        if refusal is None and executor is self.panel.oracle:
            refusal = cost.jax_refusal() if cost else "its cost is not known"
        if refusal is not None:
            return Comparison(executor.name, "unsupported", refusal)
        outcome, seconds = timed(executor, run)
        return standard.judge(executor.name, outcome, seconds)

    def _cost(self) -> LaunchCost | None:
        """Return the cost of the forward kernel for an oracle; None if no oracle can run it."""
        at = self.setting
        if not self._is_double or not is_plain(self.kernel):
            return None
        try:
            return measure_cost(lower_plainly(at.kernel).kernel, at.arrays, at.scalars, at.draws)
        except StackgradError:
            return None

    def _stopped(self, direction: Direction, outcome: Outcome, found: Sequence[Comparison] = ()) -> ReplayCase:
        """Return the replay case of a launch that ended on the reference with a trap, a refusal or no result."""
        if isinstance(outcome, TrapOutcome):
            return ReplayCase(self.source, direction, self.label, "trap", str(outcome), tuple(found))
        assert isinstance(outcome, UnsupportedOutcome | RefusedOutcome | PoisonedOutcome | UndecidedOutcome)
        refused = direction == "reverse" or isinstance(outcome, RefusedOutcome)
        return ReplayCase(self.source, direction, self.label, "refused" if refused else "unsupported", outcome.reason)


def timed(executor: Executor, run: Callable[[], Arrays]) -> tuple[Outcome, float | None]:
    """Return the outcome of a launch and its seconds, for a short launch on a backend the median of three launches."""
    outcome = attempt(run)
    measured = [executor.seconds]
    if isinstance(outcome, OkOutcome) and isinstance(executor, LaunchExecutor) and (executor.seconds or 0.0) < FAST:
        for _ in range(2):
            attempt(run)
            measured.append(executor.seconds)
    known = [s for s in measured if s is not None]
    return outcome, statistics.median(known) if known and isinstance(outcome, OkOutcome) else None
