"""Fields and ndarrays of vectors and matrices at the host: elements, conversions, layouts, gradients, errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

MAKERS: dict[str, Callable[..., Any]] = {
    "vector AOS": lambda **o: sg.Vector.field(3, sg.f32, (2, 4), **o),
    "vector SOA": lambda **o: sg.Vector.field(3, sg.f32, (2, 4), layout=sg.Layout.SOA, **o),
    "matrix AOS": lambda **o: sg.Matrix.field(3, 2, sg.f32, (2, 4), **o),
    "matrix SOA": lambda **o: sg.Matrix.field(3, 2, sg.f32, (2, 4), layout=sg.Layout.SOA, **o),
    "vector ndarray": lambda **o: sg.Vector.ndarray(3, sg.f32, (2, 4), **o),
    "matrix ndarray": lambda **o: sg.Matrix.ndarray(3, 2, sg.f32, (2, 4), **o),
    "vector type": lambda **o: sg.types.vector(3, sg.f32).field((2, 4), **o),
    "matrix type": lambda **o: sg.types.matrix(3, 2, sg.f32).ndarray((2, 4), **o),
    "field of type": lambda **o: sg.field(sg.types.matrix(3, 2, sg.f32), (2, 4), **o),
    "tensor": lambda **o: sg.Vector.tensor(3, sg.f32, (2, 4), **o),
    "tensor field": lambda **o: sg.Matrix.tensor(3, 2, sg.f32, (2, 4), backend=sg.Backend.FIELD, **o),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return MAKERS[request.param]


def content_of(x: Any) -> np.ndarray:
    whole = (*x.shape, *x.element_shape)
    return np.arange(np.prod(whole), dtype=np.float32).reshape(whole)


def test_round_trip(make: Callable[..., Any]) -> None:
    x = make()
    content = content_of(x)
    x.from_numpy(content)
    assert (x.to_numpy() == content).all() and x.to_numpy().dtype == np.float32
    assert x.to_numpy(np.float64).dtype == np.float64
    assert x[1, 2].to_numpy().tolist() == content[1, 2].tolist()
    assert x.shape == (2, 4) and len(x) == 2 and (x.n, x.m) == (3, 1 if len(x.element_shape) == 1 else 2)


def test_elements_write_through(make: Callable[..., Any]) -> None:
    x = make()
    element = content_of(x)[1, 3]
    x[1, 3] = element.tolist()
    assert (x[1, 3].to_numpy() == element).all() and x.to_numpy().sum() == element.sum()
    held = x[1, 3]
    held[2] = 9
    assert (x.to_numpy()[1, 3, 2] == 9).all()
    x[1, 3] = element
    assert (held.to_numpy() == element).all()


def test_every_write_makes_a_version(make: Callable[..., Any]) -> None:
    x, y = make(), make()
    seen = {x.storage.version}
    for write in (
        lambda: x.fill(1),
        lambda: x.copy_from(y),
        lambda: x.from_numpy(content_of(x)),
        lambda: x.__setitem__((0, 0), content_of(x)[0, 0]),
        lambda: x[0, 0].__setitem__(0, 3),
        lambda: x[0, 0].fill(2),
    ):
        write()
        assert x.storage.version not in seen
        seen.add(x.storage.version)


def test_fill_with_an_element_and_copies(make: Callable[..., Any]) -> None:
    x, y = make(), make()
    element = content_of(x)[0, 1]
    x.fill(element)
    assert (x.to_numpy() == element).all()
    y.copy_from(x)
    assert (y.to_numpy() == element).all()


def test_gradients_have_shape_and_layout(make: Callable[..., Any]) -> None:
    x = make(needs_grad=True)
    assert x.has_grad() and x.grad is x.grad
    assert (x.grad.shape, x.grad.element_first, x.grad.element) == (x.shape, x.element_first, x.element)
    x.grad[1, 1] = content_of(x)[1, 1]
    assert x.storage.grad.memory.sum() == content_of(x)[1, 1].sum() and not x.to_numpy().any()
    sg.ad.clear_all_gradients()
    assert not x.grad.to_numpy().any()


def test_pickle_and_deepcopy_drop_gradients(make: Callable[..., Any]) -> None:
    x = make(needs_grad=True)
    x.from_numpy(content_of(x))
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert type(again) is type(x) and again.element_first == x.element_first and not again.needs_grad
        assert (again.to_numpy() == x.to_numpy()).all()
        again.fill(0)
    assert x.to_numpy().any()


def test_missing_gradients() -> None:
    with pytest.raises(sg.GradientError, match="needs_grad=True"):
        sg.Vector.field(2, sg.f32, 3).grad  # noqa: B018
    assert sg.Vector.ndarray(2, sg.f32, 3).grad is None
    assert sg.ndarray(sg.f32, 3).grad is None and not sg.ndarray(sg.f32, 3).has_grad()
    assert sg.Vector.field(2, sg.f32, 3, needs_dual=True).dual.shape == (3,)


def test_storage_order() -> None:
    aos, soa = MAKERS["matrix AOS"](), MAKERS["matrix SOA"]()
    assert (aos.storage.shape, soa.storage.shape) == ((2, 4, 3, 2), (3, 2, 2, 4))
    assert (aos.layout, soa.layout) == (sg.Layout.AOS, sg.Layout.SOA)
    soa[1, 2] = [[1, 2], [3, 4], [5, 6]]
    assert soa.storage.memory[:, :, 1, 2].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_swizzles_write_through() -> None:
    v = sg.Vector.field(3, sg.f64, ())
    v[None].xy = [1, 2]
    v[None].z = 3
    v[None].bg = v[None].gr
    assert v[None].entries == [1, 1, 2]


def test_kinds() -> None:
    v, n, x = sg.Vector.field(2, sg.f32, 3), sg.Vector.ndarray(2, sg.f32, 3), sg.field(sg.f32, 3)
    assert isinstance(v, sg.MatrixField) and isinstance(v, sg.Field) and not isinstance(v, sg.Ndarray)
    assert isinstance(n, sg.Ndarray) and isinstance(n, sg.VectorNdarray) and not isinstance(n, sg.Field)
    assert isinstance(x, sg.ScalarField) and isinstance(x, sg.Field) and not isinstance(x, sg.Ndarray)
    assert all(isinstance(t, sg.Tensor) and sg.wrap(t) is t and bool(t) for t in (v, n, x))
    m = sg.Matrix.field(2, 2, sg.f32, 3)
    for tensor, kinds in ((v, (True, False)), (n, (True, False)), (m, (False, True)), (x, (False, False))):
        assert (isinstance(tensor, sg.VectorTensor), isinstance(tensor, sg.MatrixTensor)) == kinds
    assert not isinstance(sg.Matrix.ndarray(2, 2, sg.f32, 3), sg.VectorNdarray)
    assert isinstance(v[0], sg.Vector) and isinstance(v[0], sg.Matrix)
    with pytest.raises(TypeError, match="neither a field nor an ndarray"):
        sg.wrap([1])


def test_texts() -> None:
    assert repr(sg.Vector.field(3, sg.f32, 2)) == "<sg.Vector.field(3, f32, shape=(2,))>"
    assert repr(sg.Matrix.ndarray(3, 2, sg.f32, 2, needs_grad=True)) == (
        "<sg.Matrix.ndarray(3, 2, f32, shape=(2,), needs_grad=True)>"
    )
    assert repr(sg.field(sg.f32)) == "<sg.field(f32, not placed)>"


def v3(**options: Any) -> Any:
    return sg.Vector.field(3, sg.f32, 4, name="v", **options)


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: v3()[4], sg.OutOfBounds, "index 4 of axis 0 is outside field 'v', whose shape is (4,)"),
        (lambda: v3()[-1], sg.OutOfBounds, "index -1 of axis 0"),
        (lambda: v3()[1, 2], sg.FieldError, "got 2 indices"),
        (lambda: v3()[1.5], sg.FieldError, "got the index 1.5"),
        (lambda: v3()[1][3], sg.OutOfBounds, "index 3 is outside a value of shape (3,)"),
        (lambda: v3()[1][-1], sg.OutOfBounds, "index -1"),
        (lambda: v3()[1].__setitem__(5, 1), sg.OutOfBounds, "index 5"),
        (lambda: v3().__setitem__(0, [1, 2]), sg.FieldError, "give a vector of 3"),
        (lambda: v3().__setitem__(0, 1), sg.FieldError, "cannot be 1"),
        (lambda: v3().__setitem__(0, "abc"), sg.FieldError, "cannot be 'abc'"),
        (lambda: v3().from_numpy(np.zeros((3, 4))), sg.FieldError, "takes an array of shape (4, 3), not (3, 4)"),
        (lambda: v3().fill([1, 2]), sg.FieldError, "cannot be [1, 2]"),
        (lambda: v3().copy_from(np.zeros((4, 3))), sg.FieldError, "use from_numpy() for arrays"),
        (lambda: v3().get_scalar_field(0), sg.FieldError, "use x[i][k]"),
        (lambda: sg.Vector.field(3, sg.i32, 2).from_numpy(np.zeros((2, 3))), sg.FieldError, "lose their fraction"),
        (lambda: sg.Vector.field(3, sg.i32, 2)[0].__setitem__(0, 1.5), sg.FieldError, "lose their fraction"),
        (
            lambda: sg.Vector.field(3, sg.i32, 2, needs_grad=True),
            sg.FieldError,
            "i32 is not supported for fields with a gradient",
        ),
        (lambda: sg.Vector.field(0, sg.i32, 2), sg.MatrixError, "n cannot be 0"),
        (lambda: sg.Matrix.field(2, 1.5, sg.i32, 2), sg.MatrixError, "m cannot be 1.5"),
        (lambda: sg.Matrix.field(2, 2, [[sg.f32, sg.f64], [sg.f32, sg.f32]], 2), sg.FieldError, "different types"),
        (lambda: sg.Vector.field(2, sg.f32, 3, layout="SOA"), sg.FieldError, "use sg.Layout.AOS or sg.Layout.SOA"),
        (lambda: sg.Vector.field(2, sg.f32, 3, ndim=2), sg.FieldError, "ndim=2"),
        (lambda: len(sg.Vector.field(2, sg.f32, ())), TypeError, "no length"),
        (lambda: sg.ndarray(sg.types.struct(a=sg.f32), 3), sg.FieldError, "no struct elements"),
        (lambda: sg.tensor(sg.f32, 3, backend=7), sg.FieldError, "there is no backend 7"),
        (lambda: sg.tensor(sg.f32, (4, 5), layout=(0, 0)), sg.FieldError, "each of 2 axes once"),
        (lambda: sg.field(sg.f32, (4, 5), order="ik"), sg.FieldError, "each of 2 axes once"),
        (lambda: sg.field(sg.f32, order="ij"), sg.FieldError, "need a shape"),
    ],
)
def test_mistakes(act: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        act()
    assert words in str(caught.value)


def test_hints_of_nesting_are_kept() -> None:
    assert sg.field(sg.f32, (4, 5), order="ji").layout == (1, 0)
    t = sg.tensor(sg.f32, (4, 5), layout=(1, 0))
    assert t.layout == (1, 0) and t.shape == (4, 5) and pickle.loads(pickle.dumps(t)).layout == (1, 0)


def test_integer_tensors_have_no_gradient_even_if_asked() -> None:
    assert not sg.tensor(sg.i32, 3, needs_grad=True).has_grad()
    assert sg.tensor(sg.f32, 3, needs_grad=True).grad.shape == (3,)
