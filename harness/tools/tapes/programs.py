"""Draw random programs for a tape, and compute their loss and gradient by dual numbers for comparison.

Invariant: a program has at most MULTIPLIED products, so all values and derivatives are integers far below 2^53.

Some kernels read x.grad, as a constant, or set it to 0. A program may begin with gradients that are not zero. The tape
then keeps them: their values at the end of the block count as adjoints of the final contents.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

ELEMENTS, FIELDS, MULTIPLIED = 3, 3, 3
Dual = tuple[np.ndarray, np.ndarray]
"""Values of a field (elements,) and their derivatives by every initial element of all fields (elements, directions)."""

_HEAD = """kernel {name}(x: f64[1] grad, {gradient}y: f64[1] grad) {{
  bounds {{
    %0: i32 = const 0
    %1: i32 = shape x, 0
  }} parallel %2: i32 in %0 .. %1 {{
    %3: f64 = load x[%2]
"""
_TAIL = "\n    store y[%2], {last}\n  }}\n}}\n"


@dataclass(frozen=True)
class TapeKernel:
    """Describe a kernel that reads an array x and stores to an array y: its IR text and its meaning on dual numbers.

    Attributes:
        text: Its statements after the load of x[i].
        last: The value that it stores.
        meaning: Function from dual numbers of x and y, and from x.grad, to the dual numbers of the new y.
        multiplies: True if it contains a product.
        clears: True if it sets x.grad to 0.
    """

    text: str
    last: str
    meaning: Callable[[Dual, Dual, np.ndarray], Dual]
    multiplies: bool = False
    clears: bool = False

    @property
    def reads_gradient(self) -> bool:
        """Return True if the kernel reads x.grad."""
        return "load x.grad" in self.text

    def kernel(self, name: str) -> str:
        """Return the IR text of the kernel under the given name."""
        gradient = "x.grad: f64[1], " if self.reads_gradient else ""
        return (_HEAD + self.text + _TAIL).format(name=name, gradient=gradient, last=self.last)


def _scaled(a: Dual, by: np.ndarray) -> Dual:
    return by * a[0], by[:, None] * a[1]


def _chosen(where: np.ndarray, a: Dual, b: Dual) -> Dual:
    return np.where(where, a[0], b[0]), np.where(where[:, None], a[1], b[1])


def _times(a: Dual, b: Dual) -> Dual:
    return a[0] * b[0], a[0][:, None] * b[1] + b[0][:, None] * a[1]


KERNELS: Mapping[str, TapeKernel] = {
    "twice": TapeKernel("    %4: f64 = add %3, %3", "%4", lambda x, y, g: (2 * x[0], 2 * x[1])),
    "square": TapeKernel("    %4: f64 = mul %3, %3", "%4", lambda x, y, g: _times(x, x), True),
    "add": TapeKernel(
        "    %4: f64 = load y[%2]\n    %5: f64 = add %3, %4", "%5", lambda x, y, g: (x[0] + y[0], x[1] + y[1])
    ),
    "multiply": TapeKernel(
        "    %4: f64 = load y[%2]\n    %5: f64 = mul %3, %4", "%5", lambda x, y, g: _times(x, y), True
    ),
    "weigh_by_gradient": TapeKernel(
        "    %4: f64 = load x.grad[%2]\n    %5: f64 = mul %3, %4\n    %6: f64 = mul %5, %4",
        "%6",
        lambda x, y, g: _scaled(x, g * g),
        True,
    ),
    "choose_by_gradient": TapeKernel(
        "    %4: f64 = load x.grad[%2]\n    %5: f64 = const 0.0\n    %6: u1 = cmp_gt %4, %5\n"
        "    %7: f64 = load y[%2]\n    %8: f64 = select %6, %3, %7",
        "%8",
        lambda x, y, g: _chosen(g > 0, x, y),
    ),
    "use_up_gradient": TapeKernel(
        "    %4: f64 = load x.grad[%2]\n    %5: f64 = mul %3, %4\n    %6: f64 = const 0.0\n    store x.grad[%2], %6",
        "%5",
        lambda x, y, g: _scaled(x, g),
        True,
        clears=True,
    ),
}
"""Kernels by name; the kernels `multiply` and `use_up_gradient` overwrite what their own gradients read."""

WEIGH = """kernel weigh(x: f64[1] grad, loss: f64[0] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: f64 = cast %2
    %5: f64 = mul %3, %4
    %6: f64 = add %5, %3
    %7: f64 = atomic add loss[], %6
  }
}
"""
"""Kernel that adds (i + 1) x[i] to the loss."""

WRITES = ("element", "fill", "from_numpy")
COPIES = ("copy", "copy", "copy")


@dataclass(frozen=True)
class TapeStep:
    """Represent one step of a program for a tape: a launch, a copy between two fields, or a write by the host.

    Attributes:
        kind: A key of KERNELS, one of WRITES, or "copy".
        target: Number of the field that the step writes.
        source: Number of the field that the step reads.
        at: Index of the element that the host writes.
        number: Number that the host writes.
    """

    kind: str
    target: int
    source: int
    at: int = 0
    number: int = 0


@dataclass(frozen=True)
class TapeProgram:
    """Represent a random program that runs under a tape: the fields' initial contents and a sequence of steps.

    Attributes:
        initial: Initial contents of the fields.
        steps: Steps inside the block; at its end each field is weighed into the loss.
        gradients: What the gradients of the fields hold on entry, which the tape keeps; () for zeros, which it makes.
    """

    initial: tuple[tuple[int, ...], ...]
    steps: tuple[TapeStep, ...]
    gradients: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return "; ".join(f"{s.kind} {s.source}->{s.target}" for s in self.steps)


def draw_program(source: random.Random) -> TapeProgram:
    """Return a random program for a tape, with 2 to 7 steps."""
    steps: list[TapeStep] = []
    multiplied = 0
    for _ in range(source.randint(2, 7)):
        kind = source.choice((*KERNELS, *COPIES, *WRITES))
        target, other = source.randrange(FIELDS), source.randrange(FIELDS)
        if kind in KERNELS and (target == other or KERNELS[kind].multiplies and multiplied == MULTIPLIED):
            kind = "copy"
        multiplied += kind in KERNELS and KERNELS[kind].multiplies
        steps.append(TapeStep(kind, target, other, source.randrange(ELEMENTS), source.randint(-2, 2)))
    content, gradients = (
        tuple(tuple(source.randint(-2, 2) for _ in range(ELEMENTS)) for _ in range(FIELDS)) for _ in range(2)
    )
    return TapeProgram(content, tuple(steps), gradients if source.random() < 0.5 else ())


def loss_and_gradient(program: TapeProgram, carried: bool = False) -> tuple[float, np.ndarray]:
    """Return the loss, and its derivatives by all initial elements in an array of shape (fields, elements).

    A number that the host writes is a constant if a launch has used the array before; else it is the input itself.

    Args:
        program: The tape program to compute.
        carried: True to add the derivatives of the final contents times what the gradients hold at the end of the
            block, as a tape does that keeps them.
    """
    directions = np.eye(FIELDS * ELEMENTS).reshape(FIELDS, ELEMENTS, -1)
    state = [(np.array(c, np.float64), d) for c, d in zip(program.initial, directions)]
    held = [np.array(g, np.float64) for g in program.gradients] or [np.zeros(ELEMENTS) for _ in range(FIELDS)]
    used: set[int] = set()
    for step in program.steps:
        if step.kind in WRITES:
            state[step.target] = _written(step, state[step.target], step.target in used)
        elif step.target != step.source:
            x, y = state[step.source], state[step.target]
            kernel = KERNELS.get(step.kind)
            state[step.target] = x if kernel is None else kernel.meaning(x, y, held[step.source])
            if kernel is not None and kernel.clears:
                held[step.source] = np.zeros(ELEMENTS)
            used |= {step.source, step.target}
    weights = np.arange(1.0, ELEMENTS + 1)
    loss = sum(float(weights @ values) for values, _ in state)
    adjoints = [weights + carried * gradient for gradient in held]
    moved = np.sum([adjoint @ derivatives for adjoint, (_, derivatives) in zip(adjoints, state)], axis=0)
    return loss, moved.reshape(FIELDS, ELEMENTS)


def _written(step: TapeStep, before: Dual, was_used: bool) -> Dual:
    """Return a field's dual numbers after a host write; if `was_used`, the written numbers are constants.

    Args:
        step: The step that writes.
        before: The field before the step.
        was_used: True if a launch or copy used the field before, so that the written numbers are constants.
    """
    values, moved = before[0].copy(), before[1].copy()
    place = step.at if step.kind == "element" else slice(None)
    values[place] = step.number
    # A write after the first use replaces the input, so its derivatives end.
    if was_used:
        moved[place] = 0
    return values, moved
