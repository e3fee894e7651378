"""Define an entry of the catalogue, a small kernel with what it shows, and the questions that tests ask of all entries.

All kernels are over f64 fields x, w, y, z of four elements with gradients and an i32 field c, and start with CONTENT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import stackgrad as sg

Arrays = dict[str, np.ndarray]
Maker = Callable[[SimpleNamespace], Any]
Gradient = Callable[[Arrays, Arrays], Arrays]
CONTENT: Arrays = {
    "x": np.array([0.5, -0.3, 0.8, 0.25]),
    "w": np.array([1.25, 0.75, -0.5, 0.4]),
    "y": np.array([0.1, 0.2, 0.3, 0.4]),
    "z": np.array([-0.4, -0.6, -0.2, 0.3]),
    "c": np.array([3, -1, 2, 0], np.int32),
}


@dataclass(frozen=True)
class Entry:
    """Represent a kernel with its gradient and the mistakes that it gives away.

    Attributes:
        name: The unique name.
        make: Returns the kernel over given fields, as something with a method `ir`.
        rule: The rule of reverse mode that is easily broken on this kernel; empty if the kernel stands for no rule.
        gradient: The gradient in closed form: a function of the content before the launch and of the cotangents of the
            content after it, which are zero but for y and z. Arrays that it leaves out keep their cotangents. None if
            other oracles judge the gradient alone.
        breaking: The mutants that break the rule.
        others: Further mutants that change what the kernel computes.
        refused: Part of the error, if the kernel has no gradient and a mutant gives one.
        exact: False if the kernel rounds to less than double precision, so that only executors which round alike agree.
    """

    name: str
    make: Maker
    rule: str = ""
    gradient: Gradient | None = None
    breaking: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    refused: str = ""
    exact: bool = True

    @property
    def mutants(self) -> tuple[str, ...]:
        """Return all mutants that the kernel gives away."""
        return self.breaking + self.others


ENTRIES: dict[str, Entry] = {}
"""All entries by name, in the order in which their modules are read."""


def entry(
    rule: str = "",
    *breaking: str,
    others: tuple[str, ...] = (),
    refused: str = "",
    gradient: Gradient | None = None,
    exact: bool = True,
) -> Callable[[Maker], Maker]:
    """Return a decorator that enters a maker under its name."""

    def enter(make: Maker) -> Maker:
        name = make.__name__.lstrip("_")
        assert name not in ENTRIES, f"two entries have the name {name}"
        ENTRIES[name] = Entry(name, make, rule, gradient, breaking, others, refused, exact)
        return make

    return enter


def gives_away(*mutants: str, exact: bool = True) -> Callable[[Maker], Maker]:
    """Return a decorator that enters a maker which stands for no rule, with the mutants that it gives away."""
    return entry(others=mutants, exact=exact)


def fields() -> SimpleNamespace:
    """Return fields for the kernels. Only their shapes count, because what is launched are copies of CONTENT."""
    reals = {name: sg.field(sg.f64, shape=(4,), needs_grad=True) for name in "xwyz"}
    return SimpleNamespace(**reals, c=sg.field(sg.i32, shape=(4,)))


# ---- questions ----------------------------------------------------------------------------------------------------


def witness(mutant: str) -> Entry:
    """Return the first entry that gives a mutant away.

    Raises:
        KeyError: No entry does.
    """
    found = next((e for e in ENTRIES.values() if mutant in e.mutants), None)
    if found is None:
        raise KeyError(f"no kernel of the catalogue gives away the mutant '{mutant}'")
    return found


def witnessed() -> set[str]:
    """Return all mutants that some entry gives away."""
    return {mutant for e in ENTRIES.values() for mutant in e.mutants}


def with_rule() -> list[Entry]:
    """Return the entries that stand for a rule of reverse mode."""
    return [e for e in ENTRIES.values() if e.rule]


def differentiable() -> list[Entry]:
    """Return the entries that have a gradient."""
    return [e for e in ENTRIES.values() if not e.refused]
