"""`sg.root` and `sg.FieldsBuilder`: shapes by axis, gradients placed by hand or lazily, and what is refused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import stackgrad as sg


@pytest.mark.parametrize(
    ("node", "shape"),
    [
        (lambda: sg.root, ()),
        (lambda: sg.root.dense(sg.i, 4), (4,)),
        (lambda: sg.root.dense(sg.j, 4), (4,)),
        (lambda: sg.root.dense(sg.ij, (4, 5)), (4, 5)),
        (lambda: sg.root.dense(sg.ij, 4), (4, 4)),
        (lambda: sg.root.dense(sg.ijk, (2, 3, 4)), (2, 3, 4)),
        (lambda: sg.root.dense(sg.i, 3).dense(sg.i, 4), (12,)),
        (lambda: sg.root.dense(sg.ij, (4, 4)).dense(sg.ij, (2, 3)), (8, 12)),
        (lambda: sg.root.dense(sg.i, 3).dense(sg.j, 4).dense(sg.i, 2), (6, 4)),
        (lambda: sg.root.dense(sg.j, 4).dense(sg.i, 3), (3, 4)),
        (lambda: sg.root.dense(sg.axes(4, 0), (2, 3)), (3, 2)),
    ],
)
def test_shapes(node: Callable[[], Any], shape: tuple[int, ...]) -> None:
    x, v = sg.field(sg.f32), sg.Vector.field(2, sg.f32, layout=sg.Layout.SOA)
    node().place(x, v)
    assert node().shape == x.shape == v.shape == x.grad._companion[1]().shape == shape
    assert v.storage.shape == (2, *shape)


def test_primal_and_gradient_at_one_node() -> None:
    x, y = sg.field(sg.f32), sg.field(sg.i32)
    sg.root.dense(sg.i, 3).place(x, x.grad, y)
    assert x.needs_grad and x.grad.shape == (3,) and not y.needs_grad
    x.grad[1] = 2
    sg.ad.clear_all_gradients()
    assert x.grad[1] == 0


def test_gradient_at_a_node_of_its_own() -> None:
    x = sg.field(sg.f32)
    sg.root.dense(sg.i, 3).place(x)
    assert not x.needs_grad
    sg.root.dense(sg.i, 3).place(x.grad)
    assert x.needs_grad and x.grad.to_numpy().shape == (3,)


def test_gradient_before_its_primal() -> None:
    x = sg.field(sg.f32)
    node = sg.root.dense(sg.i, 3)
    node.place(x.grad)
    node.place(x)
    assert x.needs_grad and x.grad[2] == 0


def test_needs_grad_comes_along() -> None:
    x = sg.field(sg.f32, needs_grad=True, needs_dual=True)
    node = sg.root.dense(sg.i, 3)
    node.place(x)
    assert x.needs_grad and x.needs_dual
    node.place(x.grad)
    with pytest.raises(sg.FieldError, match="has memory already"):
        node.place(x.grad)


@pytest.mark.parametrize("kind", ["grad", "dual"])
def test_lazy_companions(kind: str) -> None:
    x, v, n, s = sg.field(sg.f32), sg.Vector.field(2, sg.f64), sg.field(sg.i32), sg.field(sg.f32, 5)
    sg.root.dense(sg.i, 3).place(x, v)
    sg.root.place(n)
    array = sg.ndarray(sg.f32, 3)
    getattr(sg.root, f"lazy_{kind}")()
    assert all(getattr(f, f"needs_{kind}") and getattr(f, kind).shape == f.shape for f in (x, v, s))
    assert not getattr(n, f"needs_{kind}") and not getattr(array, f"needs_{kind}")
    getattr(sg.root, f"lazy_{kind}")()


def test_structs_are_placed_whole() -> None:
    s = sg.types.struct(pos=sg.types.vector(2, sg.f32), n=sg.i32).field()
    sg.root.dense(sg.ij, (2, 3)).place(s)
    assert s.pos.shape == s.n.shape == s.shape == (2, 3)
    sg.root.lazy_grad()
    assert s.needs_grad and list(s.grad.members) == ["pos"]


def test_builders_are_trees_of_their_own() -> None:
    x, y, elsewhere = sg.field(sg.f32), sg.field(sg.f32), sg.field(sg.f32, 2)
    builder = sg.FieldsBuilder()
    builder.dense(sg.i, 3).place(x, y)
    builder.lazy_grad()
    tree = builder.finalize()
    assert x.needs_grad and y.needs_grad and not elsewhere.needs_grad
    with pytest.raises(sg.FieldError, match="finalized"):
        builder.dense(sg.i, 3)
    tree.destroy()
    with pytest.raises(sg.StaleFieldError, match="was destroyed with its tree"):
        x[0]  # noqa: B018


def test_kernels_run_on_placed_fields() -> None:
    x, y, loss = sg.field(sg.f64), sg.field(sg.f64), sg.field(sg.f64)
    sg.root.dense(sg.j, 3).dense(sg.i, 2).place(x, y)
    sg.root.place(loss)
    sg.root.lazy_grad()

    @sg.kernel
    def total() -> None:
        for i, j in x:
            loss[None] += x[i, j] ** 2

    x.fill(3)
    with sg.ad.Tape(loss):
        total()
    assert loss[None] == 54 and x.grad.to_numpy().tolist() == [[6.0] * 3] * 2


def test_gradients_come_before_the_first_launch() -> None:
    x = sg.field(sg.f64)
    sg.root.dense(sg.i, 3).place(x)

    @sg.kernel
    def double() -> None:
        for i in x:
            x[i] *= 2

    double()
    with pytest.raises(sg.FieldError, match="place gradients before the first launch"):
        sg.root.lazy_grad()


def test_dropped_fields_free_their_memory_at_once() -> None:
    gc.disable()
    try:
        x = sg.field(sg.f64, 3, needs_grad=True)
        seen = weakref.ref(x), weakref.ref(x.grad)
        del x
        assert seen[0]() is None and seen[1]() is None
    finally:
        gc.enable()


NAMES = ("i", "j", "k", "l", "ij", "ik", "il", "jk", "jl", "kl", "ijk", "ijl", "ikl", "jkl", "ijkl")


@pytest.mark.parametrize("name", NAMES)
def test_axes_are_named_by_their_letters(name: str) -> None:
    found = getattr(sg, name)
    assert [("ijkl"[axis]) for axis in found] == list(name) and repr(found) == f"sg.{name}"


def unplaced() -> Any:
    return sg.field(sg.f32, name="x")


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[0],
        lambda x: x.__setitem__(0, 1),
        lambda x: x.to_numpy(),
        lambda x: x.fill(0),
        lambda x: x.shape[0],
        lambda x: len(x),
        lambda x: sg.field(sg.f32, 3).copy_from(x),
        lambda x: x.from_numpy([1]),
        lambda x: list(x.shape),
        lambda x: x.grad[0],
        lambda x: x.grad.fill(1),
    ],
)
def test_fields_without_memory_say_so(use: Callable[[Any], Any]) -> None:
    with pytest.raises(sg.FieldError, match="has no memory yet\n    cure: .*place"):
        use(unplaced())


def test_kernels_on_fields_without_memory() -> None:
    x = unplaced()

    @sg.kernel
    def one() -> None:
        x[0] = 1

    with pytest.raises(sg.FieldError, match="'x' has no memory yet"):
        one()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: sg.root.place(sg.field(sg.f32, 3)), "has memory already"),
        (lambda: sg.root.place(3), "place takes fields, not int"),
        (lambda: sg.root.place(sg.ndarray(sg.f32, 3)), "place takes fields, not ScalarNdarray"),
        (lambda: sg.root.dense(sg.ij, (3,)), "1 extents for the axes sg.ij"),
        (lambda: sg.root.dense(sg.i, -1), "the extent -1 is negative"),
        (lambda: sg.root.dense(sg.i, 2.5), "2.5 is no extent"),
        (lambda: sg.root.dense(0, 3), "0 are no axes"),
        (lambda: sg.axes(1, 1), "are no axes"),
        (lambda: sg.axes(12), "are no axes"),
    ],
)
def test_mistakes(act: Callable[[], Any], words: str) -> None:
    with pytest.raises(sg.FieldError) as caught:
        act()
    assert words in str(caught.value)


def test_gradients_of_another_shape_are_refused() -> None:
    x = unplaced()
    sg.root.dense(sg.i, 3).place(x)
    with pytest.raises(sg.FieldError, match="give both one shape"):
        sg.root.dense(sg.i, 4).place(x.grad)


@pytest.mark.parametrize(
    "act",
    [
        lambda: sg.root.pointer(sg.i, 4),
        lambda: sg.root.dense(sg.i, 4).bitmasked(sg.i, 4),
        lambda: sg.root.dynamic(sg.i, 4, chunk_size=2),
        lambda: sg.root.hash(sg.i, 4),
        lambda: sg.root.quant_array(sg.i, 4),
        lambda: sg.root.bit_struct(32),
        lambda: sg.types.quant.int(8),
    ],
)
def test_refused_nodes_name_the_line(act: Callable[[], Any]) -> None:
    with pytest.raises(sg.Unsupported) as caught:
        act()
    text = str(caught.value)
    assert "test_placement.py:" in text and "not supported" in text and "cure: " in text
