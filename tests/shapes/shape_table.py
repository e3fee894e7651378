"""Define the table of shapes: kernels that a reverse transform easily gets wrong, one entry each.

A row is a maker: a function that takes fields and returns a kernel over them. Its parameters name its inputs; what a
row does not give has the content of INPUTS. Invariant: lanes differ, outputs are not zero at the start, and unless a
row says otherwise lanes run 0, 1, 2, 3 and 6 trips.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import stackgrad as sg

Group = Literal["loops", "values", "memory"]
GROUPS: dict[Group, str] = {"loops": "Loops", "values": "Values", "memory": "Memory"}


@dataclass(frozen=True)
class Content:
    """The initial contents of a field; `rank` is 1 for elements that are vectors, 2 for matrices."""

    data: np.ndarray
    rank: int = 0
    grad: bool = True
    ndarray: bool = False

    def make(self, fp: Any, name: str) -> Any:
        """Return a field with these contents; reals have the type `fp`, other numbers i32."""
        if self.data.dtype.kind != "f":
            made = sg.field(sg.i32, self.data.shape, name=name)
            made.from_numpy(self.data.astype(np.int32))
            return made
        shape = self.data.shape[: self.data.ndim - self.rank]
        element = self.data.shape[self.data.ndim - self.rank :]
        if self.ndarray:
            made = sg.ndarray(fp, shape, needs_grad=self.grad)
        elif self.rank:
            maker = sg.Vector if self.rank == 1 else sg.Matrix
            made = maker.field(*element, fp, shape=shape, needs_grad=self.grad, name=name)
        else:
            made = sg.field(fp, shape, needs_grad=self.grad, name=name)
        made.from_numpy(self.data.astype(fp.dtype))
        return made


def real(values: Any, **options: Any) -> Content:
    """Return real contents that single precision represents exactly, so that both precisions start alike."""
    return Content(np.asarray(np.asarray(values, np.float32), np.float64), **options)


def ints(values: Any) -> Content:
    """Return integer contents."""
    return Content(np.asarray(values, np.int64))


LANES = 5
INPUTS: dict[str, Content] = {
    "x": real([0.3, 0.7, 0.4, 1.1, 0.5]),
    "y": real([2.0, -1.0, 0.5, 3.0, -2.0]),
    "z": real([0.25, 1.5, -0.75, 0.6, -1.25]),
    "w": real([1.5, -0.5, 0.8, 0.25, -1.2, 0.6, 0.9]),
    "n": ints([3, 0, 6, 1, 2]),
    "total": real(0.75),
}


@dataclass(frozen=True)
class Refused:
    """The refusal of a gradient: `message` is part of the error, `why` is for readers of the page."""

    message: str
    why: str


How = Literal["hand", "tape"] | Refused
"""hand: right when called by hand and under a tape. tape: right under a tape, refused by hand."""


@dataclass(frozen=True)
class Shape:
    """One row of the table; `calls` holds the arguments of the launches, in order.

    ordered: a tape launches another kernel, which keeps the order in which iterations updated memory; that is judged.
    """

    name: str
    group: Group
    what: str
    make: Callable[..., Any]
    how: How = "hand"
    inputs: Mapping[str, Content] = field(default_factory=dict)
    calls: tuple[tuple[Any, ...], ...] = ((), ())
    ordered: bool = False

    @property
    def contents(self) -> dict[str, Content]:
        """Return the contents of each parameter of the maker."""
        return {p: self.inputs[p] if p in self.inputs else INPUTS[p] for p in inspect.signature(self.make).parameters}

    def build(self, fp: Any) -> tuple[Any, dict[str, Any]]:
        """Return the kernel on new fields, and the fields by name."""
        fields = {name: content.make(fp, name) for name, content in self.contents.items()}
        return self.make(**fields), fields


SHAPES: dict[str, Shape] = {}
"""Every row by name, in the order of the page."""


def shape(
    group: Group,
    what: str,
    *,
    how: How = "hand",
    calls: tuple[tuple[Any, ...], ...] = ((), ()),
    ordered: bool = False,
    **inputs: Content,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the row of a maker to the table."""

    def add(make: Callable[..., Any]) -> Callable[..., Any]:
        name = make.__name__
        assert name not in SHAPES, f"two shapes have the name {name}"
        assert set(inputs) <= set(inspect.signature(make).parameters), f"{name} has an input that nobody takes"
        SHAPES[name] = Shape(name, group, what, make, how, inputs, calls, ordered)
        return make

    return add
