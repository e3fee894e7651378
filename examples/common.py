"""Share code among the programs of this folder: the choice of the package, the command line, gradient descent.

The programs import this module before `import stackgrad as sg`, and their kernels use only `sg`. With the option
`--import quadrants` that import gives Quadrants, and the rest of the program runs unchanged.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

PACKAGES = ("stackgrad", "quadrants", "taichi")
OPTIONS: dict[str, dict[str, Any]] = {"quadrants": {"ad_stack_experimental_enabled": True}}
"""Options of init without which a package does not differentiate dynamic loops."""


def _choose() -> str:
    """Make `import stackgrad` mean the package that the option `--import` names, and return its name."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--import", dest="package", choices=PACKAGES, default=PACKAGES[0])
    package: str = parser.parse_known_args()[0].package
    if package != PACKAGES[0]:
        sys.modules[PACKAGES[0]] = importlib.import_module(package)
    return package


PACKAGE = _choose()
import stackgrad as sg  # noqa: E402, I001  (only now: the line above says what this name means)


def start(arch: Any = None) -> None:
    """Start the runtime in double precision. `arch` is an architecture of `sg`, or its name; None for the CPU."""
    chosen = getattr(sg, arch) if isinstance(arch, str) else arch or sg.cpu
    sg.init(arch=chosen, default_fp=sg.f64, **OPTIONS.get(PACKAGE, {}))


class Adam:
    """Optimize one field by the Adam method (Kingma, Ba: "Adam: a method for stochastic optimization", 2015).

    A step is proportional to the running mean of the gradient, divided by its running root mean square.
    """

    def __init__(self, field: Any, rate: float) -> None:
        self.field, self.rate, self.count = field, rate, 0
        self.mean, self.square = (np.zeros(field.to_numpy().shape) for _ in range(2))

    def step(self, keep_mean: float = 0.9, keep_square: float = 0.99) -> None:
        """Move the contents of the field by one step against the gradient."""
        slope = self.field.grad.to_numpy()
        self.count += 1
        self.mean += (1.0 - keep_mean) * (slope - self.mean)
        self.square += (1.0 - keep_square) * (slope * slope - self.square)
        mean = self.mean / (1.0 - keep_mean**self.count)
        scale = np.sqrt(self.square / (1.0 - keep_square**self.count))
        moved = self.field.to_numpy() - self.rate * mean / (scale + 1e-12)
        self.field.from_numpy(np.asarray(moved))  # NumPy makes numbers of arrays without an axis


def minimize(
    unknowns: Sequence[Any], evaluate: Callable[[], float], iterations: int, rate: float, report: bool
) -> list[float]:
    """Minimize the loss by Adam, and return the loss before each step.

    `evaluate` returns the loss and stores its gradient to `grad` of each unknown.
    """
    optimizers = [Adam(unknown, rate) for unknown in unknowns]
    history = []
    for iteration in range(iterations):
        history.append(evaluate())
        for optimizer in optimizers:
            optimizer.step()
        if report and iteration % 10 == 0:
            print(f"iteration {iteration:3d}  loss {history[-1]:.3e}")
    return history


def command_line(main: Callable[..., list[float]], small: dict[str, Any]) -> None:
    """Run `main` of a program with the arguments that its command line gives.

    `small` has the arguments of `main` for which the option `--size small` stands.
    """
    parser = argparse.ArgumentParser(description=(sys.modules["__main__"].__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", choices=("cpu", "reference"), default="cpu")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--steps", type=int, metavar="N", help="steps of the descent")
    parser.add_argument("--import", choices=PACKAGES, default=PACKAGES[0], help="the package to run on")
    given = parser.parse_args()
    arguments = dict(small) if given.size == "small" else {}
    if given.steps is not None:
        arguments["iterations"] = given.steps
    losses = main(**arguments, arch=given.arch)
    print(f"loss {losses[0]:.6e} at first, {losses[-1]:.6e} after {len(losses)} steps")
