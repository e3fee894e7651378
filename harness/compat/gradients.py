"""Compare the gradient of a program of DiffTaichi with differences: `python gradients.py SIDE SCRIPT BITS ...`.

This file is started as a script in a process of its own, under Taichi or under `stackgrad.compat`, and imports nothing
of this project but the files beside it. The program runs as it is until it has computed a number of gradients; then it
is stopped, and its own functions compute the loss again, with one parameter a little larger and a little smaller.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import headless  # type: ignore[import-not-found]
import numpy as np

if __package__:
    from . import watches
else:  # It runs as a script, for an interpreter that may lack this package.
    import watches  # type: ignore[import-not-found,no-redef]

ENTRIES = 3
"""Number of entries of each parameter that are compared: those with the greatest derivatives."""


@dataclass(frozen=True)
class Plan:
    """Represent how the loss of a program is computed again.

    Attributes:
        again: computes the loss once more, from the module of the program.
        parameters: the fields whose gradients are compared, each with the indices that all compared entries begin with.
        sizes: constants of the program that are set to other values, so that a run takes seconds.
        loss: returns the loss after `again`; the field `loss` of the program if not given.
        by_hand: True if the program calls `backward()` itself instead of a tape.
        finer: what the step is divided by, where a wider one crosses kinks such as those of interpolation.
    """

    again: Callable[[Any], None]
    parameters: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, float] = field(default_factory=dict)
    loss: Callable[[Any], float] = lambda program: float(program.loss[None])
    by_hand: bool = False
    finer: float = 1.0


def _march(program: Any) -> None:
    """Render all views of the volume and add up the losses, as one iteration of the program does."""
    program.clear_images()
    for view in range(program.n_views):
        program.ray_march(program.images, np.pi / program.n_views * view - np.pi / 2, view)
        program.compute_loss(view)


def _brightness(program: Any) -> float:
    """Return the sum of squares of the inner pixels, which is what the stand-in of the classifier differentiates."""
    image = program.refracted_image.to_numpy()[16:240, 16:240].astype(np.float64)
    return 0.001 * float((image**2).sum())


def _springs(program: Any) -> None:
    program.clear()
    program.forward(visualize=False)


def _bodies(program: Any) -> None:
    program.clear_states()
    program.forward(visualize=False)


def _balls(program: Any) -> None:
    program.clear()
    program.forward()


_NETWORK = {"weights1": (), "weights2": ()}
_ACTUATORS: dict[str, tuple[int, ...]] = {"weights": (), "bias": ()}
_SOLID = {"steps": 32, "max_steps": 40, "n_grid": 32}

PLANS: dict[str, Plan] = {
    "billiards": Plan(_balls, {"init_x": (), "init_v": ()}),
    "diffmpm": Plan(lambda program: program.forward(), _ACTUATORS, sizes={"steps": 128, "n_grid": 32}),
    "diffmpm3d": Plan(lambda program: program.forward(), _ACTUATORS, sizes=_SOLID, by_hand=True),
    "electric": Plan(lambda program: program.forward(), {"weight1": (), "weight2": (), "bias2": ()}),
    "liquid": Plan(lambda program: program.forward(), _ACTUATORS, sizes=_SOLID, by_hand=True),
    "mass_spring": Plan(_springs, _NETWORK),
    "rigid_body": Plan(_bodies, _NETWORK, {"steps": 512}),
    "smoke_taichi_gpu": Plan(lambda program: program.forward(), {"v": (0,)}, sizes={"steps": 20}, finer=10.0),
    "volume_renderer": Plan(_march, {"density": ()}, sizes={"res": 64, "n_views": 3}),
    "water_renderer": Plan(lambda program: program.forward(), {"initial": ()}, sizes={"steps": 64}, loss=_brightness),
    "wave": Plan(lambda program: program.forward(), {"initial": ()}, sizes={"steps": 64}),
}


def _resized(tree: ast.Module, sizes: Mapping[str, float]) -> ast.Module:
    """Return the syntax tree of a program with other values of some of its constants."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in sizes:
                statement.value = ast.copy_location(ast.Constant(sizes[name]), statement.value)
    return tree


def _peer(side: str, bits: int) -> Any:
    """Return Taichi, or stackgrad under its name, with one thread, no windows, and reals of a number of bits."""
    if side == "ours":
        from stackgrad.compat.finder import install

        peer: Any = install("taichi")
    else:
        import taichi as peer  # type: ignore[no-redef]
    start = peer.init
    peer.init = lambda **options: start(**{**options, "arch": peer.cpu, "cpu_max_num_threads": 1})
    peer.GUI = headless.Silence()
    if bits == 64:
        peer.f32 = peer.f64
    return peer


def _run(script: Path, plan: Plan, arguments: list[str]) -> Any:
    """Run a program until it is stopped, and return its module."""
    program = ModuleType("__main__")
    program.__file__ = str(script)
    sys.modules["__main__"] = program
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.parent)
    tree = _resized(ast.parse(script.read_text(encoding="utf-8")), plan.sizes)
    try:
        exec(compile(tree, str(script), "exec", dont_inherit=True), program.__dict__)
    except watches.Stopped:
        return program
    raise SystemExit("the program ended before it had computed enough gradients")


@dataclass(frozen=True)
class Comparison:
    """Represent the comparison of the gradient of a stopped program with differences of its loss.

    Attributes:
        program: the module of the program.
        plan: how its loss is computed again.
        watch: the contents of its fields before the last gradient.
        step: the amount by which a parameter is changed.
    """

    program: Any
    plan: Plan
    watch: watches.Watch
    step: float

    def loss(self, name: str = "", at: tuple[int, ...] = (), by: float = 0.0) -> float:
        """Return the loss that the program computes, with one parameter changed by an amount if one is named."""
        self.watch.restore()
        self.program.loss[None] = 0
        if name:
            _add(getattr(self.program, name), at, by)
        self.plan.again(self.program)
        return self.plan.loss(self.program)

    def entry(self, name: str, at: tuple[int, ...], slope: float) -> dict[str, Any]:
        """Return a derivative, the central difference, and a bound of the error of the difference.

        Differences with the step and with its half tell how far the wider one is off; the narrower one is nearer by
        a factor of four where the loss is smooth. Rounding adds its own part, which grows as the step shrinks: the
        loss is the end of thousands of operations in a row, and taken as accurate to a thousand rounding units.
        """
        losses = [self.loss(name, at, by) for by in (self.step, -self.step, self.step / 2, -self.step / 2)]
        wide, narrow = (losses[0] - losses[1]) / (2 * self.step), (losses[2] - losses[3]) / self.step
        rounding = max(map(abs, losses)) * 2.0**-42 / self.step
        return {"at": [name, *at], "slope": slope, "difference": narrow, "bound": abs(wide - narrow) + rounding}

    def entries(self) -> list[dict[str, Any]]:
        """Return the comparisons of the entries with the greatest derivatives of each parameter."""
        slopes = {name: getattr(self.program, name).grad.to_numpy() for name in self.plan.parameters}
        found = []
        for name, first in self.plan.parameters.items():
            part = slopes[name][first]
            for flat in np.argsort(-np.abs(part), axis=None)[:ENTRIES]:
                at = (*first, *map(int, np.unravel_index(flat, part.shape)))
                found.append(self.entry(name, at, float(slopes[name][at])))
        return found


def _add(array: Any, at: tuple[int, ...], by: float) -> None:
    """Add an amount to an entry of a field of numbers or of vectors."""
    axes = len(array.shape)
    index = at[:axes] if axes else None
    if len(at) > axes:
        array[index][at[axes]] += by
    else:
        array[index] += by


def _by_hand(program: Any, plan: Plan, watch: watches.Watch) -> None:
    """Compute the gradient of the parameters that the program has now, as its own loop does."""
    watch.wanted, watch.seconds = 1, []
    watch.begin()
    sys.modules["taichi"].ad.clear_all_gradients()
    program.loss[None] = 0
    plan.again(program)
    program.loss.grad[None] = 1
    program.backward()


def main(side: str, script: Path, bits: int, iterations: int, step: float, arguments: list[str]) -> None:
    """Run a program and print its times and comparisons as one line of JSON.

    Args:
        side: "ours", or "taichi" for the peer.
        script: the program.
        bits: 32 or 64, the precision of all reals.
        iterations: the number of gradients; each of them is timed.
        step: the amount by which a parameter is changed; 0 for no comparison.
        arguments: the arguments of the program.
    """
    plan = PLANS[script.stem]
    peer = _peer(side, bits)
    headless.hide_windows()
    watch = watches.Watch(peer, iterations)
    clear = peer.ad.clear_all_gradients
    (watches.watch_clears if plan.by_hand else watches.watch_tapes)(peer, watch)
    program = _run(script, plan, arguments)
    seconds = watch.seconds
    if plan.by_hand:
        peer.ad.clear_all_gradients = clear
        _by_hand(program, plan, watch)
    entries = Comparison(program, plan, watch, step / plan.finer).entries() if step else []
    sums = {name: float(np.abs(getattr(program, name).grad.to_numpy()).sum()) for name in plan.parameters}
    print(json.dumps({"seconds": seconds, "entries": entries, "sums": sums}))


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    name, script, bits, iterations, step, *arguments = sys.argv[1:]
    main(name, Path(script).resolve(), int(bits), int(iterations), float(step), arguments)
