"""Test that each way in which the host writes a field ends the derivatives of the overwritten values, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.testing.executors import present_backends


@pytest.fixture(params=["reference", "cpu", "vulkan"], autouse=True)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "vulkan" and not present_backends(["vulkan"])[0]:
        pytest.skip("no Vulkan device")
    sg.init(arch=request.param, default_fp=sg.f64)
    yield request.param
    sg.reset()


def scalars(**options: Any) -> Any:
    return sg.field(sg.f64, 3, needs_grad=True, **options)


def vectors(**options: Any) -> Any:
    return sg.Vector.field(2, sg.f64, 3, needs_grad=True, **options)


def matrices(**options: Any) -> Any:
    return sg.Matrix.field(2, 2, sg.f64, 3, needs_grad=True, **options)


def set_entry(y: Any) -> None:
    y[1][0] = 5.0


def set_row(y: Any) -> None:
    y[2][1, :] = sg.Vector([5.0, 6.0])


def set_swizzle(y: Any) -> None:
    y[0].xy = [5.0, 6.0]


def set_named(y: Any) -> None:
    y[0].y = 5.0


def add_entry(y: Any) -> None:
    y[1][1] += 1.0


ALL = np.s_[...]
SOA, AOS = {"layout": sg.Layout.SOA}, {"layout": sg.Layout.AOS}
CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Any]] = {
    "an element": (scalars, lambda y: y.__setitem__(1, 5.0), 1),
    "an element, offset": (lambda: scalars(offset=-4), lambda y: y.__setitem__(-3, 5.0), 1),
    "a single number": (lambda: sg.field(sg.f64, (), needs_grad=True), lambda y: y.__setitem__(None, 5.0), ALL),
    "an ndarray's element": (lambda: sg.ndarray(sg.f64, 3, needs_grad=True), lambda y: y.__setitem__(2, 5.0), 2),
    "fill": (scalars, lambda y: y.fill(5.0), ALL),
    "from_numpy": (scalars, lambda y: y.from_numpy(np.ones(3)), ALL),
    "another dtype": (scalars, lambda y: y.from_numpy(np.ones(3, np.float32)), ALL),
    "halves": (lambda: sg.field(sg.f16, 3, needs_grad=True), lambda y: y.__setitem__(0, 5.0), 0),
    "a vector": (vectors, lambda y: y.__setitem__(1, [5.0, 6.0]), 1),
    "an entry of a vector": (vectors, set_entry, (1, 0)),
    "an entry, SOA": (lambda: vectors(**SOA), set_entry, (1, 0)),
    "an entry by name": (vectors, set_named, (0, 1)),
    "entries by name": (vectors, set_swizzle, 0),
    "a matrix": (matrices, lambda y: y.__setitem__(1, [[5.0, 6.0], [7.0, 8.0]]), 1),
    "a row": (matrices, set_row, (2, 1)),
    "a row, SOA": (lambda: matrices(**SOA), set_row, (2, 1)),
    "vectors filled": (vectors, lambda y: y.fill(sg.Vector([5.0, 6.0])), ALL),
    "vectors from numpy": (lambda: vectors(**AOS), lambda y: y.from_numpy(np.ones((3, 2))), ALL),
}
"""A field, a write, and what it replaces."""


def content(like: Any) -> np.ndarray:
    shape = like.to_numpy().shape
    return np.arange(1.0, np.prod(shape) + 1.0).reshape(shape)


@pytest.mark.rotating
@pytest.mark.parametrize("case", CASES)
def test_under_a_tape(case: str) -> None:
    make, write, replaced = CASES[case]
    x, y, z = make(), make(), make()
    x.from_numpy(content(x))
    with sg.ad.Tape(z, seed=content(z)):
        y.copy_from(x)
        write(y)
        z.copy_from(y)
    kept = content(x)
    kept[replaced] = 0.0
    assert x.grad.to_numpy().tolist() == kept.tolist()
    assert not y.grad.to_numpy().any()


@pytest.mark.parametrize("case", CASES)
def test_in_forward_mode(case: str) -> None:
    make, write, replaced = CASES[case]
    x, y, z = make(), make(), make()
    x.from_numpy(content(x))
    with sg.ad.FwdMode(z, x, seed=content(x)):
        y.copy_from(x)
        write(y)
        z.copy_from(y)
    kept = content(x)
    kept[replaced] = 0.0
    assert z.dual.to_numpy().tolist() == kept.tolist()


def test_a_struct_member() -> None:
    kind = sg.types.struct(a=sg.f64, v=sg.types.vector(2, sg.f64))
    x, y, z = (kind.field(shape=2, needs_grad=True) for _ in range(3))
    with sg.ad.Tape([z.a, z.v], seed=[np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0]])]):
        y.copy_from(x)
        y[0].a = 7.0
        y[1].v[0] = 7.0
        z.copy_from(y)
        z.copy_from(y)
    assert x.a.grad.to_numpy().tolist() == [0.0, 2.0]
    assert x.v.grad.to_numpy().tolist() == [[3.0, 4.0], [0.0, 6.0]]


def test_a_torch_tensor() -> None:
    torch = pytest.importorskip("torch")
    x, y, z = scalars(), scalars(), scalars()
    with sg.ad.Tape(z, seed=np.ones(3)):
        y.copy_from(x)
        y.from_torch(torch.ones(3, dtype=torch.float64))
        z.copy_from(y)
    assert not x.grad.to_numpy().any()


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_in_jacobians(mode: Any) -> None:
    x, y, z = scalars(), scalars(), scalars()

    def run() -> None:
        y.copy_from(x)
        y[1] = 5.0
        z.copy_from(y)

    assert sg.ad.jacobian(z, x, run, mode).tolist() == np.diag([1.0, 0.0, 1.0]).tolist()
