"""Judge one shape on every executor, with both lowerings, both precisions and three oracles.

Recorded launches run on every executor, as in `stackgrad check`, and JAX, dual numbers and Taylor remainders judge the
results. Then the calls of users, `kernel.grad` after the last launch and a tape over all launches, must give the
gradient of the classic lowering, which was judged before. So must every policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from shape_table import Refused, Shape
from stackgrad.capture import capture
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.compiler.driver import Lowering
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.passes.promote_elements import RECORD
from stackgrad.harness.testing.compare import FAILURES
from stackgrad.harness.testing.executors import (
    LaunchExecutor,
    plain_interpreter,
    present_backends,
    reference_executor,
    reordered_interpreter,
)
from stackgrad.harness.testing.launch import CapturedLike, LaunchSetting, widen_launch
from stackgrad.harness.testing.plugin_checks import OpenPanel, ThoroughReplay, explain, failures
from stackgrad.harness.testing.replay import Replay, ReplayCase
from stackgrad.harness.testing.rounding import narrowest_type, random_signs

Arrays = Mapping[str, np.ndarray]
_TOLERANCE = 1e-11
"""Of a gradient in double precision by the interface: the executors' own bounds are judged apart."""


@dataclass
class Thrifty(LaunchExecutor):
    """An executor that shares its lowered gradients with other executors of the same lowering."""

    lowered: dict[tuple[int, str], Lowering] = field(default_factory=dict)

    def _reverse(self, kernel: Kernel) -> Lowering:
        key = id(kernel), self.lowering
        if key not in self.lowered:
            self.lowered[key] = super()._reverse(kernel)
        return self.lowered[key]


def panel_of_all(in_any_order: bool = True) -> OpenPanel:
    """Return a panel of the reference, in two orders and with both lowerings, and of the CPU.

    `in_any_order` is True if results do not depend on the order of iterations; else all executors use one order.
    """
    (found,), _ = present_backends(["cpu"])
    shared: dict[tuple[int, str], Lowering] = {}

    def thrifty(e: LaunchExecutor) -> Thrifty:
        return Thrifty(e.name, e.backend, e.lowering, e.lower, e.options, lowered=shared)

    again = reordered_interpreter() if in_any_order else reference_executor()
    return OpenPanel([thrifty(found)], thrifty(reference_executor()), plain_interpreter(), thrifty(again))


@dataclass
class Machine:
    """A shape with its kernel and fields on a started runtime."""

    shape: Shape
    arch: str
    fp: Any

    def __post_init__(self) -> None:
        sg.init(arch=self.arch, default_fp=self.fp)
        self.kernel, self.fields = self.shape.build(self.fp)

    def launch(self, args: tuple[Any, ...]) -> None:
        """Launch the kernel; a string among the arguments names a field."""
        self.kernel(*self._given(args))

    def launch_grad(self, args: tuple[Any, ...]) -> None:
        """Launch the gradient by hand."""
        self.kernel.grad(*self._given(args))

    def _given(self, args: tuple[Any, ...]) -> list[Any]:
        return [self.fields[a] if isinstance(a, str) else a for a in args]

    @property
    def adjoints(self) -> dict[str, Any]:
        """Return the fields that have a gradient."""
        return {name: f for name, f in self.fields.items() if f.needs_grad}

    def seed(self, seeds: Arrays) -> None:
        for name, f in self.adjoints.items():
            f.grad.from_numpy(seeds[name].astype(self.fp.dtype))

    def gradients(self) -> dict[str, np.ndarray]:
        return {name: f.grad.to_numpy() for name, f in self.adjoints.items()}


def cotangents(machine: Machine) -> dict[str, np.ndarray]:
    """Return different cotangents for all elements with a gradient, always the same for a shape."""
    random = np.random.default_rng(len(machine.shape.name))
    found = {}
    for name, f in machine.adjoints.items():
        like = f.to_numpy()
        values = random_signs(random, like.shape) * random.uniform(0.5, 1.5, like.shape)
        found[name] = np.asarray(values.astype(np.float32), np.float64)
    return found


# ---- expectations --------------------------------------------------------------------------------------------


def pulled_back(
    launch: CapturedLike, seeds: Arrays, policy: str = "classic", is_taped: bool = False
) -> dict[str, np.ndarray]:
    """Return cotangents of the contents before a launch; unused fields keep their cotangents.

    A kernel that uses `x.grad` finds there, by hand, what it holds when the gradient starts: the cotangent of x; under
    a tape it finds what the launch found.
    """
    used = {n: seeds[n].reshape(launch.before[n].shape) for n in seeds if n in launch.before}
    at = LaunchSetting.of(launch)
    executor = reference_executor(policy, lowering=policy)
    used = {n: seed.astype(launch.before[n].dtype) for n, seed in used.items()}
    after = launch.after if is_taped else {n: _as_seeded(n, a, seeds) for n, a in launch.after.items()}
    found = executor.gradient(at.kernel, at.arrays, after, at.scalars, at.draws, used)
    return {n: found[n].reshape(s.shape) if n in found else s for n, s in seeds.items()}


def _as_seeded(name: str, content: np.ndarray, seeds: Arrays) -> np.ndarray:
    """Return the contents of an array when a gradient by hand starts: the seed if it is `x.grad` of a field."""
    field = name.removesuffix(".grad")
    if field == name or field not in seeds:  # The compiler has arrays of its own, which have adjoints too.
        return content
    return seeds[field].reshape(content.shape).astype(content.dtype)


@dataclass(frozen=True)
class Expected:
    """The expected gradients in double precision: by hand of the last launch, and taped of all launches."""

    seeds: Arrays
    by_hand: Arrays
    taped: Arrays


def expect(shape: Shape, launches: Sequence[CapturedLike]) -> Expected:
    """Return the expected gradients, by the classic lowering, which was judged before."""
    seeds = cotangents(Machine(shape, "reference", sg.f64))
    taped = seeds
    for launch in reversed(launches):
        taped = pulled_back(launch, taped, is_taped=True)
    return Expected(seeds, pulled_back(launches[-1], seeds), taped)


# ---- executors ----------------------------------------------------------------------------------------------


def judge_executors(shape: Shape) -> list[CapturedLike]:
    """Record the launches in single precision on the CPU, judge them, and return them in double precision.

    Of launches with equal arguments the last is judged: it starts from outputs that a launch wrote. In single precision
    the CPU's part is what the program itself obtained, where `kernel.grad` can be called.
    """
    machine = Machine(shape, "cpu", sg.f32)
    launches = _record(machine)
    panel = panel_of_all(not any(p.name.startswith(RECORD) for p in launches[0].kernel.params))
    narrow = panel if shape.how == "tape" else replace(panel, backends=[])
    for launch in _distinct(shape, launches):
        own = LaunchSetting.of(launch)
        wide = replace(widen_launch(own), kernel=panel.widen(own.kernel))
        cases = [
            *ThoroughReplay(panel, wide, "f64", None, own.kernel).cases(),
            *ThoroughReplay(narrow, own, "f32", launch.after).cases(),
        ]
        wrong = failures(cases, gradient=True) + _undecided(cases)
        assert not wrong, explain(cases, wrong)
    if shape.how == "hand":
        _judge_own_precision(machine, narrow, launches[-1])
    return _record(Machine(shape, "reference", sg.f64))


def _record(machine: Machine) -> list[CapturedLike]:
    mode = sg.ad.Tape(sg.field(machine.fp, (), needs_grad=True)) if machine.shape.ordered else nullcontext()
    with capture(limit=len(machine.shape.calls)) as made, mode:
        for args in machine.shape.calls:
            machine.launch(args)
    launches = [launch for launch in made.launches if launch.kind == "forward"]
    for launch in launches:
        assert launch.error is None, launch.error
        assert all(np.isfinite(a).all() for a in launch.after.values()), "the values are not finite"
    return launches


def _distinct(shape: Shape, launches: Sequence[CapturedLike]) -> list[CapturedLike]:
    return list(dict(zip(shape.calls, launches)).values())


def _undecided(cases: Sequence[ReplayCase]) -> list[str]:
    """Return a line for each executor that must decide about the gradient and did not."""
    opinions = {
        c.executor for case in cases if case.direction == "reverse" for c in case.comparisons if c.verdict == "ok"
    }
    return [f"{name} decided nothing" for name in ("classic", "cpu", "jax", "dual", "taylor") if name not in opinions]


def _judge_own_precision(machine: Machine, panel: OpenPanel, last: CapturedLike) -> None:
    """Compare `kernel.grad` in single precision on the CPU with the reference, within rounding.

    Who holds an extreme cannot be told from rounded memory, so no bound is found; there the numbers themselves decide.
    """
    seeds = cotangents(machine)
    with capture(limit=1) as made:
        machine.seed(seeds)
        machine.launch_grad(machine.shape.calls[-1])
    (launch,) = made.launches
    case = Replay(panel, LaunchSetting.of(launch), str(narrowest_type(launch.kernel)), launch.after).reverse_as_run()
    assert case.verdict not in FAILURES, explain([case], [])
    if not any(c.executor == "program" and c.verdict == "ok" for c in case.comparisons):
        compare(machine, pulled_back(last, seeds), "in single precision", 64 * 2.0**-24)


def judge_policies(launches: Sequence[CapturedLike], expected: Expected) -> None:
    """Assert that every policy gives the gradient of the last launch."""
    for policy in POLICIES:
        found = pulled_back(launches[-1], expected.seeds, policy)
        for name, gradient in expected.by_hand.items():
            _compare(found[name], gradient, f"{policy}: {name}.grad")


# ---- the interface ------------------------------------------------------------------------------------------


def judge_by_hand(shape: Shape, expected: Expected) -> None:
    """Compare `kernel.grad` after all launches with the expected gradient by hand."""
    machine = Machine(shape, "reference", sg.f64)
    for args in shape.calls:
        machine.launch(args)
    machine.seed(expected.seeds)
    machine.launch_grad(shape.calls[-1])
    compare(machine, expected.by_hand, "by hand")


def judge_tape(shape: Shape, launches: Sequence[CapturedLike], expected: Expected, arch: str) -> None:
    """Compare the gradient of one tape over all launches with the expected gradient."""
    machine = Machine(shape, arch, sg.f64)
    loss = sg.field(sg.f64, (), needs_grad=True)
    with sg.ad.Tape(loss):
        for args in shape.calls:
            machine.launch(args)
        for name, content in shape.contents.items():
            if name in machine.adjoints:
                weights = replace(content, data=expected.seeds[name], grad=False).make(sg.f64, "weights")
                weigh = _weigh_elements if content.rank else _weigh if content.data.ndim else _weigh_number
                weigh(machine.fields[name], weights, loss)
    compare(machine, expected.taped, f"{arch}, under a tape")
    for name, f in machine.fields.items():
        if name in launches[-1].after:
            np.testing.assert_allclose(f.to_numpy(), launches[-1].after[name], rtol=1e-10, atol=1e-12)


def judge_refusal(shape: Shape) -> None:
    """Assert that the gradient is refused by hand and under a tape, with file, line, reason and cure."""
    assert isinstance(shape.how, Refused)
    machine = Machine(shape, "reference", sg.f64)
    for args in shape.calls:
        machine.launch(args)
    loss = sg.field(sg.f64, (), needs_grad=True)
    with pytest.raises(sg.NotDifferentiable) as by_hand:
        machine.launch_grad(shape.calls[0])
    with pytest.raises(sg.NotDifferentiable) as taped, sg.ad.Tape(loss):
        machine.launch(shape.calls[0])
    file = shape.make.__code__.co_filename
    for error in (by_hand, taped):
        text = str(error.value)
        assert shape.how.message in text and file in text and "cure:" in text, text


def judge_refusal_by_hand(shape: Shape) -> None:
    """Assert that the gradient by hand is refused because memory no longer holds what it reads."""
    machine = Machine(shape, "reference", sg.f64)
    machine.launch(shape.calls[0])
    with pytest.raises(sg.NotDifferentiable) as caught:
        machine.launch_grad(shape.calls[0])
    assert "sg.ad.Tape" in str(caught.value), str(caught.value)


# ---- comparison ---------------------------------------------------------------------------------------------


def compare(machine: Machine, expected: Arrays, where: str, tolerance: float = _TOLERANCE) -> None:
    """Compare every gradient that the program can read with the expected one."""
    for name, found in machine.gradients().items():
        _compare(found, expected[name], f"{where}: {name}.grad", tolerance)


def _compare(found: np.ndarray, expected: np.ndarray, what: str, tolerance: float = _TOLERANCE) -> None:
    """Assert that the largest difference is small relative to the largest magnitude of the array."""
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))
    worst = float(np.abs(found - expected).max(initial=0.0)) / size
    assert worst <= tolerance, f"{what} is\n{found}\nnot\n{expected}"


@sg.kernel
def _weigh(f: sg.Tensor, w: sg.Tensor, loss: sg.template()):
    """loss += <w, f>"""
    for at in sg.grouped(f):
        loss[None] += f[at] * w[at]


@sg.kernel
def _weigh_number(f: sg.template(), w: sg.template(), loss: sg.template()):
    """loss += w f"""
    loss[None] += f[None] * w[None]


@sg.kernel
def _weigh_elements(f: sg.template(), w: sg.template(), loss: sg.template()):
    """loss += <w, f>, of fields of vectors or matrices."""
    for at in sg.grouped(f):
        loss[None] += (f[at] * w[at]).sum()
