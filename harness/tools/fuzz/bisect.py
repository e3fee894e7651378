"""Find the statement or the pass at which two executors that disagree on one program begin to differ.

Two executors of one kernel are compared value by value, in the order of the text. An oracle of gradients has no
statements in common with the compiler. To compare with such an oracle, the forward kernel adds an element of an array
to every real value, so the gradient of this array holds the adjoint of every value, and dual numbers give the right
adjoints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ....backends.base import Draws
from ....backends.launching.launcher import Launcher
from ....compiler.driver import Lowering, prepare_forward, prepare_reverse
from ....compiler.errors import StackgradError
from ....compiler.ir import nodes as n
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.printer import print_statement
from ....compiler.ir.statement import Stmt, Value
from ....compiler.ir.walk import operands, walk_kernel
from ....compiler.passes.widen import widen
from ...testing.executors import PRECISE
from ...testing.launch import GRAD
from ...testing.outcome import Arrays, attempt
from ...testing.rounding import SAFETY, random_signs, seeded_generator
from ..model import Program
from .case import FuzzPanel
from .corpus import failed_key
from .derivatives import compare
from .instrument import MOVE, REAL, WHOLE, TracedStatement, boxes, offset_values, trace_values
from .lowerings import Lowerings, before_arrays, kernel_of
from .plan import FuzzPlan, Key
from .reduce import sign_of_judged
from .reference_run import judge, launch_bounded
from .statistics import Finding
from .widened_cpu import executors

UNIT = 2.0**-53


@dataclass(frozen=True)
class Suspect:
    """Represent the statement or pass that is probably wrong, with its source line and the difference found.

    Attributes:
        kind: 'statement' or 'pass'.
        text: The statement, or the name of the pass.
        place: The line of the user, or empty if it is not known.
        reason: The difference that was found there.
    """

    kind: str
    text: str
    place: str
    reason: str

    def __str__(self) -> str:
        place = f"\n    {self.place}" if self.place else ""
        return f"{self.kind} `{self.text}`: {self.reason}{place}"


@dataclass
class Bisector:
    """Find the statement or pass that causes one disagreement of two executors on one program.

    Several launches run one after another; the last launch is bisected, because it is the one that differs.
    """

    program: Program
    plan: FuzzPlan
    key: Key
    panel: FuzzPanel

    def __post_init__(self) -> None:
        kernel = kernel_of(self.program, self.plan)
        self.initial, self.scalars = self.program.arrays(), self.program.scalars()
        self.made = Lowerings(kernel)
        self.draws = Draws(0, self.plan.launches - 1)
        for launch in range(self.plan.launches - 1):
            self.initial = launch_bounded(self.made.plain.kernel, self.initial, self.scalars, Draws(0, launch)).arrays
        self.seeds = {k + GRAD: s for k, s in self.program.seeds().items() if k in self.made.gradients}

    def statement(self) -> Suspect | None:
        """Return the first statement whose values differ on the two executors, or None if none is found."""
        direction, executor = self.key
        if executor in executors(self.panel.backends, self.plan):
            return self._of_backend(direction, executor)
        return self._of_gradient() if direction == "reverse" else None

    # -- one kernel, two executors --------------------------------------------------------------------------

    def _of_backend(self, direction: str, executor: str) -> Suspect | None:
        kernel, memory = self._launched(direction)
        made = trace_values(kernel, boxes(kernel, memory, self.scalars, self.draws))
        start = {**memory, **made.arrays}
        known = launch_bounded(made.kernel, start, self.scalars, self.draws, precise=True)
        found = {name: a.copy() for name, a in start.items()}
        lowered = prepare_forward(made.kernel) if direction == "forward" else _as_is(made.kernel)
        backend = executors(self.panel.backends, self.plan)[executor]
        Launcher(lowered, backend, PRECISE).run(found, self.scalars, self.draws)
        wrong = {}
        for slot in made.slots:
            array = REAL if slot.value.type.is_real else WHOLE
            here, there = known.arrays[array][slot.number], found[array][slot.number]
            part = judge_row(here, there, known.errors[array][slot.number])
            if part:
                wrong[slot.value] = f"{part} ({executor} against the reference)"
        return self._first(kernel, made.slots, wrong)

    def _launched(self, direction: str) -> tuple[Kernel, Arrays]:
        """Return the kernel that both executors run, and the initial contents of its arrays."""
        if direction == "forward":
            return self.made.optimized.kernel, self.initial
        final = launch_bounded(self.made.plain.kernel, self.initial, self.scalars, self.draws).arrays
        return self.made.lean.kernel, {**final, **self.seeds, **before_arrays(self.made.lean, self.initial)}

    def _first(self, kernel: Kernel, slots: tuple[TracedStatement, ...], wrong: dict[Value, str]) -> Suspect | None:
        """Return the first statement whose value is wrong though computed from right ones, else the first wrong one."""
        if not wrong:
            return None
        sources = _ValueSources(kernel)
        own = [s for s in slots if s.value in wrong and not any(v in wrong for v in sources.of(s.stmt))]
        slot = (own or [s for s in slots if s.value in wrong])[0]
        return _suspect(kernel, slot.stmt, wrong[slot.value])

    # -- a gradient and an oracle ---------------------------------------------------------------------------

    def _of_gradient(self) -> Suspect | None:
        plain = widen(self.made.plain.kernel)
        initial = {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in self.initial.items()}
        made = offset_values(plain, boxes(plain, initial, self.scalars, self.draws))
        start = {**initial, **made.arrays}
        state = launch_bounded(made.kernel, start, self.scalars, self.draws)
        seeds = {k: s.astype(np.float64) for k, s in self.seeds.items()}
        grad = prepare_reverse(made.kernel, self.lowering, taped=True)
        adjoints = {**seeds, MOVE + GRAD: np.zeros_like(made.arrays[MOVE])}
        memory = {**state.arrays, **adjoints, **before_arrays(grad, start)}
        found = launch_bounded(grad.kernel, memory, self.scalars, self.draws, dict(state.errors))
        moves, errors = found.arrays[MOVE + GRAD], found.errors[MOVE + GRAD]
        wrong = {}
        for slot in made.slots:
            sign = random_signs(seeded_generator("move", slot.number), moves.shape[1:])
            exact = self._true_adjoint(made.kernel, start, seeds, slot.number, sign)
            ours = float(np.sum(moves[slot.number] * sign))
            # Dual numbers have no error bound of their own, so the bound of the gradient is taken twice.
            bound = 2.0 * float(np.sum(errors[slot.number])) + SAFETY * UNIT * (abs(exact) + abs(ours))
            if abs(exact - ours) > bound:
                wrong[slot.value] = f"adjoint {ours:.9g}, dual numbers give {exact:.9g}"
        return self._user(plain, made.slots, wrong)

    def _true_adjoint(self, kernel: Kernel, start: Arrays, seeds: Arrays, slot: int, sign: np.ndarray) -> float:
        """Return the derivative of <cotangents, results> with respect to one value, computed by dual numbers.

        Args:
            kernel: The kernel whose values can be moved.
            start: Its arrays at the start.
            seeds: Cotangents of the final contents.
            slot: Number of the value that moves.
            sign: Direction of the value in each lane.
        """
        from ...testing.oracles import dual

        tangent = np.zeros_like(start[MOVE])
        tangent[slot] = sign
        _, moved = dual.jvp(kernel, start, self.scalars, {MOVE: tangent}, self.draws)
        return sum(float(np.sum(seed * moved[name.removesuffix(GRAD)])) for name, seed in seeds.items())

    def _user(self, kernel: Kernel, slots: tuple[TracedStatement, ...], wrong: dict[Value, str]) -> Suspect | None:
        """Return the last statement whose result has a right adjoint and of which an operand has a wrong one."""
        suspect = None
        for stmt in walk_kernel(kernel):
            bad = [v for v in operands(stmt) if v in wrong]
            result = getattr(stmt, "result", None)
            if bad and result not in wrong:
                suspect = _suspect(kernel, stmt, f"{wrong[bad[0]]}, of its operand %{bad[0].id}")
        if suspect is None and wrong:
            slot = [s for s in slots if s.value in wrong][-1]
            suspect = _suspect(kernel, slot.stmt, f"{wrong[slot.value]}, of its result")
        return suspect

    # -- passes ---------------------------------------------------------------------------------------------

    @property
    def lowering(self) -> str:
        """Return the name of the policy whose gradient is bisected."""
        return {"classic": "classic", "policy": self.plan.policy}.get(self.key[1], "lean")

    def first_pass(self) -> Suspect | None:
        """Return the first pass whose kernel gives other results on the reference, or None if there is none."""
        seen: list[tuple[str, Kernel]] = []
        try:
            if self.key[0] == "forward":
                prepare_forward(self.made.kernel, lambda name, k: seen.append((name, k)))
            else:
                prepare_reverse(self.made.kernel, self.lowering, lambda name, k: seen.append((name, k)), taped=True)
        except StackgradError:
            # The kernels that were made before the error are judged.
            pass
        forward = _Forward(self)
        judged: Callable[[Kernel], str] = forward.differs
        for number, (name, kernel) in enumerate(seen):
            if name.startswith("reverse"):
                judged = _Reverse(self).differs
            reason = judged(kernel)
            if reason:
                return Suspect("pass", name, "", f"number {number + 1} of {len(seen)}: {reason}")
        return None


def name_of(finding: Finding, panel: FuzzPanel) -> str:
    """Return a name that all findings of one mistake share: the comparison and the first wrong statement."""
    sign = "-".join(sign_of_judged(finding.judged)) or finding.crash
    key = failed_key(finding.judged)
    if key is None:
        return sign
    try:
        suspect = Bisector(finding.program, finding.plan, key, panel).statement()
    except Exception:
        # A bisection runs code that is known to be wrong, so any error may occur.
        return sign
    return f"{sign} {re.sub('%[0-9]+', '%', suspect.text)}" if suspect else sign


def _as_is(kernel: Kernel) -> Lowering:
    """Return a lowering that leaves the kernel unchanged, with its counting kernel if it has adstacks."""
    has_stacks = any(isinstance(s, n.StackAlloca) for s in walk_kernel(kernel))
    return prepare_forward(kernel) if has_stacks else Lowering(kernel)


def judge_row(here: np.ndarray, there: np.ndarray, error: np.ndarray) -> str:
    """Return a text on how far two executors' values differ beyond the error bounds, or "" if they do not.

    Args:
        here: Values of the reference, one per lane.
        there: Values of the other executor.
        error: Error bound of each value.
    """
    a, b = here.astype(np.float64), there.astype(np.float64)
    with np.errstate(all="ignore"):
        gap = np.where((here == there) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        beyond = ~(gap <= error) & np.isfinite(error)
    if not beyond.any():
        return ""
    lane = int(np.argmax(beyond))
    return f"{there[lane]!r} and {here[lane]!r} in iteration {lane}, bound {error[lane]:.1e}"


class _ValueSources:
    """Find the IR values from which a statement's result is computed, even if they pass through memory."""

    def __init__(self, kernel: Kernel) -> None:
        self.written: dict[str, list[Value]] = {}
        for stmt in walk_kernel(kernel):
            if isinstance(stmt, n.Set | n.SetElement | n.Store | n.Atomic | n.StackPush | n.StackAccumulate):
                self.written.setdefault(_target(stmt), []).append(stmt.value)

    def of(self, stmt: Stmt) -> Iterator[Value]:
        """Yield the values that a statement's result is computed from."""
        yield from operands(stmt)
        if isinstance(stmt, n.Get | n.GetElement | n.Load | n.Atomic | n.StackTop | n.StackTopAdjoint):
            yield from self.written.get(_target(stmt), ())


def _target(stmt: Stmt) -> str:
    return next(str(getattr(stmt, k)) for k in ("var", "array", "stack") if hasattr(stmt, k))


def _suspect(kernel: Kernel, stmt: Stmt, reason: str) -> Suspect:
    span = kernel.span(stmt.loc)
    place = f"line {span.line}: {span.text.strip()}" if span else ""
    return Suspect("statement", print_statement(stmt).splitlines()[0], place, reason)


# ---- after a pass -------------------------------------------------------------------------------------------


class _Forward:
    """Judge if a kernel after some passes computes the same arrays as the forward kernel without optimizations."""

    def __init__(self, of: Bisector) -> None:
        self.of = of
        self.known = launch_bounded(of.made.plain.kernel, of.initial, of.scalars, of.draws)

    def differs(self, kernel: Kernel) -> str:
        """Return a text that says how a kernel's arrays differ from those of the plain kernel, or "" if they agree."""
        found = attempt(lambda: launch_bounded(kernel, self.of.initial, self.of.scalars, self.of.draws).arrays)
        made = judge(self.known, "reference", found)
        return made.reason if made.verdict == "disagree" else ""


class _Reverse:
    """Judge if the gradient of a grad kernel, after some passes, still agrees with dual numbers."""

    def __init__(self, of: Bisector) -> None:
        self.of = of

    def differs(self, kernel: Kernel) -> str:
        """Return a text that says how a grad kernel differs from dual numbers, or "" if it agrees."""
        of = self.of
        made = Lowerings(of.made.kernel)
        # The cached property is set, because this kernel is to be judged.
        made.__dict__["lean"] = Lowering(kernel, before=of.made.lean.before)
        plan = FuzzPlan((), only=("reverse", "dual"))
        judged = list(compare(made, of.initial, of.scalars, of.seeds, plan))
        return next((j.reason for j in judged if j.verdict == "disagree"), "")
