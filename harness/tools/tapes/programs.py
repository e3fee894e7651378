"""Draw random programs for a tape, and compute their loss and gradient by dual numbers for comparison.

Invariant: a program has at most MULTIPLIED products, so all values and derivatives are integers far below 2^53.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

ELEMENTS, FIELDS, MULTIPLIED = 3, 3, 3
Dual = tuple[np.ndarray, np.ndarray]
"""Values of a field (elements,) and their derivatives by every initial element of all fields (elements, directions)."""

_HEAD = """kernel {name}(x: f64[1] grad, y: f64[1] grad) {{
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
        meaning: Function from dual numbers of x and y to those of the new y.
        multiplies: True if it contains a product.
    """

    text: str
    last: str
    meaning: Callable[[Dual, Dual], Dual]
    multiplies: bool = False

    def kernel(self, name: str) -> str:
        """Return the IR text of the kernel under the given name."""
        return (_HEAD + self.text + _TAIL).format(name=name, last=self.last)


def _times(a: Dual, b: Dual) -> Dual:
    return a[0] * b[0], a[0][:, None] * b[1] + b[0][:, None] * a[1]


KERNELS: Mapping[str, TapeKernel] = {
    "twice": TapeKernel("    %4: f64 = add %3, %3", "%4", lambda x, y: (2 * x[0], 2 * x[1])),
    "square": TapeKernel("    %4: f64 = mul %3, %3", "%4", lambda x, y: _times(x, x), True),
    "add": TapeKernel(
        "    %4: f64 = load y[%2]\n    %5: f64 = add %3, %4", "%5", lambda x, y: (x[0] + y[0], x[1] + y[1])
    ),
    "multiply": TapeKernel("    %4: f64 = load y[%2]\n    %5: f64 = mul %3, %4", "%5", lambda x, y: _times(x, y), True),
}
"""Kernels by name; the last kernel overwrites what its own gradient reads."""

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
        initial: Initial content of the fields.
        steps: Steps inside the block; at its end each field is weighed into the loss.
    """

    initial: tuple[tuple[int, ...], ...]
    steps: tuple[TapeStep, ...]

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
    content = tuple(tuple(source.randint(-2, 2) for _ in range(ELEMENTS)) for _ in range(FIELDS))
    return TapeProgram(content, tuple(steps))


def loss_and_gradient(program: TapeProgram) -> tuple[float, np.ndarray]:
    """Return the loss, and its derivatives by all initial elements in an array of shape (fields, elements).

    A number that the host writes is a constant if a launch has used the array before; else it is the input itself.
    """
    directions = np.eye(FIELDS * ELEMENTS).reshape(FIELDS, ELEMENTS, -1)
    state = [(np.array(c, np.float64), d) for c, d in zip(program.initial, directions)]
    used: set[int] = set()
    for step in program.steps:
        if step.kind in WRITES:
            state[step.target] = _written(step, state[step.target], step.target in used)
        elif step.target != step.source:
            x, y = state[step.source], state[step.target]
            state[step.target] = x if step.kind == "copy" else KERNELS[step.kind].meaning(x, y)
            used |= {step.source, step.target}
    weights = np.arange(1.0, ELEMENTS + 1)
    loss = sum(float(weights @ values) for values, _ in state)
    moved = np.sum([weights @ derivatives for _, derivatives in state], axis=0)
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
