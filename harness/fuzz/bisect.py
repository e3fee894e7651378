"""Bisection: from a program on which two executors disagree to the statement where they part, or to the pass.

Executors of one kernel are compared value by value, in order of text. Where a gradient disagrees with an oracle, which
has no statements of ours, the forward kernel gets an element of an array added to every real value, so that the
gradient of that array is the adjoint of every value; dual numbers say what each should be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...backends.base import Draws
from ...backends.launcher import Launcher
from ...compiler.driver import Lowered, prepare_forward, prepare_reverse
from ...compiler.errors import StackgradError
from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Kernel, Stmt, Value
from ...compiler.ir.printer import print_statement
from ...compiler.ir.walk import operands, walk_kernel
from ...compiler.passes.widen import widen
from ..executors import PRECISE
from ..launch import GRAD
from ..model import Program
from ..outcome import Arrays, attempt
from ..rounding import SAFETY, generator, signs
from .case import Panel
from .corpus import failed_key
from .derivatives import compare
from .instrument import MOVE, REAL, WHOLE, Slot, boxes, movable, traced
from .lowerings import Lowerings, copies, kernel_of
from .plan import Key, Plan
from .reduce import sign_of_judged
from .standard import bounded, judge
from .statistics import Finding
from .widened import executors

UNIT = 2.0**-53


@dataclass(frozen=True)
class Suspect:
    """kind: 'statement' or 'pass'. text: the statement, or the name of the pass. place: the user's line, "" if none.

    reason: what differs there.
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
    """Of one program in one comparison. Several launches are taken one by one: the last that differs is bisected."""

    program: Program
    plan: Plan
    key: Key
    panel: Panel

    def __post_init__(self) -> None:
        kernel = kernel_of(self.program, self.plan)
        self.initial, self.scalars = self.program.arrays(), self.program.scalars()
        self.made = Lowerings(kernel)
        self.draws = Draws(0, self.plan.launches - 1)
        for launch in range(self.plan.launches - 1):
            self.initial = bounded(self.made.plain.kernel, self.initial, self.scalars, Draws(0, launch)).arrays
        self.seeds = {k + GRAD: s for k, s in self.program.seeds().items() if k in self.made.gradients}

    def statement(self) -> Suspect | None:
        """The first statement at which the two executors part; None if none is found."""
        direction, executor = self.key
        if executor in executors(self.panel.backends, self.plan):
            return self._of_backend(direction, executor)
        return self._of_gradient() if direction == "reverse" else None

    # -- one kernel, two executors --------------------------------------------------------------------------

    def _of_backend(self, direction: str, executor: str) -> Suspect | None:
        kernel, memory = self._launched(direction)
        made = traced(kernel, boxes(kernel, memory, self.scalars, self.draws))
        start = {**memory, **made.arrays}
        known = bounded(made.kernel, start, self.scalars, self.draws, precise=True)
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
        """The kernel that both run, and its memory at the start."""
        if direction == "forward":
            return self.made.optimised.kernel, self.initial
        final = bounded(self.made.plain.kernel, self.initial, self.scalars, self.draws).arrays
        return self.made.lean.kernel, {**final, **self.seeds, **copies(self.made.lean, self.initial)}

    def _first(self, kernel: Kernel, slots: tuple[Slot, ...], wrong: dict[Value, str]) -> Suspect | None:
        """The first wrong value that is made of right ones; else the first that is wrong."""
        if not wrong:
            return None
        sources = _Sources(kernel)
        own = [s for s in slots if s.value in wrong and not any(v in wrong for v in sources.of(s.stmt))]
        slot = (own or [s for s in slots if s.value in wrong])[0]
        return _suspect(kernel, slot.stmt, wrong[slot.value])

    # -- a gradient and an oracle ---------------------------------------------------------------------------

    def _of_gradient(self) -> Suspect | None:
        plain = widen(self.made.plain.kernel)
        initial = {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in self.initial.items()}
        made = movable(plain, boxes(plain, initial, self.scalars, self.draws))
        start = {**initial, **made.arrays}
        state = bounded(made.kernel, start, self.scalars, self.draws)
        seeds = {k: s.astype(np.float64) for k, s in self.seeds.items()}
        grad = prepare_reverse(made.kernel, self.lowering, taped=True)
        adjoints = {**seeds, MOVE + GRAD: np.zeros_like(made.arrays[MOVE])}
        memory = {**state.arrays, **adjoints, **copies(grad, start)}
        found = bounded(grad.kernel, memory, self.scalars, self.draws, dict(state.errors))
        moves, errors = found.arrays[MOVE + GRAD], found.errors[MOVE + GRAD]
        wrong = {}
        for slot in made.slots:
            sign = signs(generator("move", slot.number), moves.shape[1:])
            exact = self._true_adjoint(made.kernel, start, seeds, slot.number, sign)
            ours = float(np.sum(moves[slot.number] * sign))
            bound = 2.0 * float(np.sum(errors[slot.number])) + SAFETY * UNIT * (abs(exact) + abs(ours))
            if abs(exact - ours) > bound:
                wrong[slot.value] = f"adjoint {ours:.9g}, dual numbers give {exact:.9g}"
        return self._user(plain, made.slots, wrong)

    def _true_adjoint(self, kernel: Kernel, start: Arrays, seeds: Arrays, slot: int, sign: np.ndarray) -> float:
        """Derivative of <seeds, final content> when one value moves in all lanes, each to its side."""
        from ..oracles import dual

        tangent = np.zeros_like(start[MOVE])
        tangent[slot] = sign
        _, moved = dual.jvp(kernel, start, self.scalars, {MOVE: tangent}, self.draws)
        return sum(float(np.sum(seed * moved[name.removesuffix(GRAD)])) for name, seed in seeds.items())

    def _user(self, kernel: Kernel, slots: tuple[Slot, ...], wrong: dict[Value, str]) -> Suspect | None:
        """The last statement that takes a wrong adjoint to an operand while its own result has the right one."""
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
        """The policy that made the gradient in question."""
        return {"classic": "classic", "policy": self.plan.policy}.get(self.key[1], "lean")

    def first_pass(self) -> Suspect | None:
        """The first pass after which the kernel does something else on the reference; None if none is found."""
        seen: list[tuple[str, Kernel]] = []
        try:
            if self.key[0] == "forward":
                prepare_forward(self.made.kernel, lambda name, k: seen.append((name, k)))
            else:
                prepare_reverse(self.made.kernel, self.lowering, lambda name, k: seen.append((name, k)), taped=True)
        except StackgradError:
            pass  # what was made until then is judged
        forward = _Forward(self)
        judged: Callable[[Kernel], str] = forward.differs
        for number, (name, kernel) in enumerate(seen):
            if name.startswith("reverse"):
                judged = _Reverse(self).differs
            reason = judged(kernel)
            if reason:
                return Suspect("pass", name, "", f"number {number + 1} of {len(seen)}: {reason}")
        return None


def name_of(finding: Finding, panel: Panel) -> str:
    """What findings of one mistake have in common: the comparison, and the first statement that is wrong."""
    sign = "-".join(sign_of_judged(finding.judged)) or finding.crash
    key = failed_key(finding.judged)
    if key is None:
        return sign
    try:
        suspect = Bisector(finding.program, finding.plan, key, panel).statement()
    except Exception:  # a bisection runs what is known to be wrong
        return sign
    return f"{sign} {re.sub('%[0-9]+', '%', suspect.text)}" if suspect else sign


def _as_is(kernel: Kernel) -> Lowered:
    """A grad kernel with its counting kernel; it is run as it stands."""
    has_stacks = any(isinstance(s, n.StackAlloca) for s in walk_kernel(kernel))
    return prepare_forward(kernel) if has_stacks else Lowered(kernel)


def judge_row(here: np.ndarray, there: np.ndarray, error: np.ndarray) -> str:
    """How the values of a slot differ beyond their errors; "" if they do not."""
    a, b = here.astype(np.float64), there.astype(np.float64)
    with np.errstate(all="ignore"):
        gap = np.where((here == there) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        beyond = ~(gap <= error) & np.isfinite(error)
    if not beyond.any():
        return ""
    lane = int(np.argmax(beyond))
    return f"{there[lane]!r} and {here[lane]!r} in iteration {lane}, bound {error[lane]:.1e}"


class _Sources:
    """Which values a statement's result is made of, through locals, arrays and adstacks too."""

    def __init__(self, kernel: Kernel) -> None:
        self.written: dict[str, list[Value]] = {}
        for stmt in walk_kernel(kernel):
            if isinstance(stmt, n.Set | n.SetElement | n.Store | n.Atomic | n.StackPush | n.StackAccumulate):
                self.written.setdefault(_target(stmt), []).append(stmt.value)

    def of(self, stmt: Stmt) -> Iterator[Value]:
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
    """Whether a forward kernel still leaves what the plain one does."""

    def __init__(self, of: Bisector) -> None:
        self.of = of
        self.known = bounded(of.made.plain.kernel, of.initial, of.scalars, of.draws)

    def differs(self, kernel: Kernel) -> str:
        found = attempt(lambda: bounded(kernel, self.of.initial, self.of.scalars, self.of.draws).arrays)
        made = judge(self.known, "reference", found)
        return made.reason if made.verdict == "disagree" else ""


class _Reverse:
    """Whether a grad kernel still satisfies <c, J t> = <gradient, t>."""

    def __init__(self, of: Bisector) -> None:
        self.of = of

    def differs(self, kernel: Kernel) -> str:
        of = self.of
        made = Lowerings(of.made.kernel)
        # The cached property: this kernel is what is judged.
        made.__dict__["lean"] = Lowered(kernel, before=of.made.lean.before)
        plan = Plan((), only=("reverse", "dual"))
        judged = list(compare(made, of.initial, of.scalars, of.seeds, plan))
        return next((j.reason for j in judged if j.verdict == "disagree"), "")
