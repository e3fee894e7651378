"""Run random programs under tapes: alone, in forward mode, and two at once in threads that take turns.

The schedule of the two threads is drawn too, and nothing runs at the same time, so every failure can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from ....ad import FwdMode, Tape
from ....compiler.ir.types import f64
from ....data.fields.make import field as new_field
from ....launch.text_kernels import TextKernel, kernel_from_text
from ....runtime.session import RUNTIME, init
from .programs import ELEMENTS, KERNELS, WEIGH, TapeProgram, TapeStep, draw_program, loss_and_gradient

Part = Callable[[], object]
ROUNDS = 3
"""Number of tapes of each of two threads; it exceeds 1 so that one thread clears while the other has gradients."""


class TapeBench:
    """Check the gradients that tapes compute for random programs on one backend, with kernels compiled once."""

    def __init__(self) -> None:
        self._kernels: dict[str, TextKernel] = {}
        self._generation = -1

    def check(self, number: int, arch: str) -> str:
        """Return a message on the first wrong gradient of the two programs drawn from a seed, or "" if none is.

        The first program runs alone and in forward mode, and both programs run in threads.

        Args:
            number: Seed of the two programs.
            arch: Backend of the runtime.
        """
        if self._generation != RUNTIME.generation or RUNTIME.settings.arch != arch:
            init(arch=arch, default_fp=f64)
            self._generation = RUNTIME.generation
            kernels = {name: kernel.kernel(name) for name, kernel in KERNELS.items()} | {"weigh": WEIGH}
            self._kernels = {name: kernel_from_text(text) for name, text in kernels.items()}
        source = random.Random(f"tapes {number}")
        programs = [draw_program(source), draw_program(source)]
        # The tape of one thread clears gradients that no tape of another thread has used yet.
        cleared = [replace(program, gradients=()) for program in programs]
        alone, moved, *runs = (
            RunningProgram(program, self._kernels) for program in (programs[0], programs[0], *cleared)
        )
        for part in alone.parts():
            part()
        take_turns([run.parts(ROUNDS) for run in runs], source)
        found = {"alone": alone.wrong(), "in forward mode": moved.wrong_tangent(source)}
        found |= {f"in thread {k} of two": run.wrong() for k, run in enumerate(runs)}
        texts = f"{programs[0]} | {programs[1]}"
        return next((f"{where}: {wrong} of {texts}" for where, wrong in found.items() if wrong), "")


class RunningProgram:
    """Run one random program under a tape, on fields that no other program uses."""

    def __init__(self, program: TapeProgram, kernels: dict[str, TextKernel]) -> None:
        self.program, self.kernels = program, kernels
        self.fields: list[Any] = [new_field(f64, ELEMENTS, needs_grad=True) for _ in program.initial]
        self.loss: Any = new_field(f64, (), needs_grad=True)
        self.found: list[tuple[float, np.ndarray]] = []
        self.begin()

    def begin(self) -> None:
        """Fill the fields and their gradients with their initial contents."""
        for field, content in zip(self.fields, self.program.initial):
            field.from_numpy(np.array(content, np.float64))
        for field, content in zip(self.fields, self.program.gradients):
            field.grad.from_numpy(np.array(content, np.float64))
        self.loss.grad[None] = 0.0

    def parts(self, rounds: int = 1) -> Iterator[Part]:
        """Yield functions that, called in order, run the program under a tape once in each round."""
        for _ in range(rounds):
            tape = Tape(self.loss, clear_gradients=not self.program.gradients)
            yield self.begin
            yield tape.__enter__
            yield from self.block()
            yield lambda tape=tape: tape.__exit__(None, None, None)  # type: ignore[misc]
            yield self.read

    def block(self) -> Iterator[Part]:
        """Yield functions that each run one step or one loss kernel of the program inside the tape."""
        for step in self.program.steps:
            yield lambda step=step: self.do(step)  # type: ignore[misc]
        for field in self.fields:
            yield lambda field=field: self.kernels["weigh"](x=field, loss=self.loss)  # type: ignore[misc]

    def do(self, step: TapeStep) -> None:
        """Run one step of the program: launch a kernel, copy a field, or write to a field from the host."""
        target, other = self.fields[step.target], self.fields[step.source]
        if step.kind in self.kernels:
            self.kernels[step.kind](x=other, y=target)
        elif step.kind == "copy":
            target.copy_from(other)
        elif step.kind == "element":
            target[step.at] = float(step.number)
        elif step.kind == "fill":
            target.fill(step.number)
        else:
            target.from_numpy(np.full(ELEMENTS, float(step.number)))

    def read(self) -> None:
        """Append the loss and the gradients that the tape has computed to the results."""
        self.found.append((self.loss[None], np.array([field.grad.to_numpy() for field in self.fields])))

    def wrong(self) -> str:
        """Return a message on the first result that differs from dual numbers, or "" if none does."""
        loss, exact = loss_and_gradient(self.program, carried=True)
        for value, gradient in self.found:
            if value != loss:
                return f"the loss is {value}, not {loss}"
            if not np.array_equal(gradient, exact):
                return f"the gradient is {gradient.tolist()}, not {exact.tolist()}"
        return "" if self.found else "nothing was found"

    def wrong_tangent(self, source: random.Random) -> str:
        """Return a message on where a random forward-mode derivative differs from dual numbers, or ""."""
        seeds = [np.array([float(source.randint(-2, 2)) for _ in range(ELEMENTS)]) for _ in self.fields]
        self.begin()
        with FwdMode(self.loss, self.fields, seeds):
            for part in self.block():
                part()
        exact = float((loss_and_gradient(self.program)[1] * np.array(seeds)).sum())
        return "" if self.loss.dual[None] == exact else f"the tangent is {self.loss.dual[None]}, not {exact}"


def take_turns(programs: list[Iterator[Part]], source: random.Random) -> None:
    """Run each program in a thread of its own, one action of one thread at a time."""
    pools = [ThreadPoolExecutor(1) for _ in programs]
    try:
        left = list(range(len(programs)))
        while left:
            k = source.choice(left)
            part = next(programs[k], None)
            if part is None:
                left.remove(k)
            else:
                pools[k].submit(part).result()
    finally:
        for pool in pools:
            pool.shutdown()
