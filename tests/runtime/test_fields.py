"""Fields: every type and rank, conversions with their checks, versions, lifetime."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.ir.types import SCALARS, Scalar
from table_rows import each_row

TYPES = sorted(SCALARS.values(), key=lambda t: t.name)
RANKS = [(), (3,), (2, 3), (2, 1, 3), (2, 1, 2, 2)]


@each_row("dtype", TYPES, ids=str)
@each_row("shape", RANKS, ids=str)
def test_round_trip_of_every_type_and_rank(dtype: Scalar, shape: tuple[int, ...]) -> None:
    x = sg.field(dtype, shape)
    content = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype.dtype)
    assert not x.to_numpy().any()
    x.from_numpy(content)
    assert x.to_numpy().dtype == dtype.dtype and (x.to_numpy() == content).all()
    last = tuple(extent - 1 for extent in shape)
    x[last or None] = 1
    assert x[last or None] == 1
    assert type(x[last or None]) is (float if dtype.is_real else bool if dtype.is_bool else int)


def test_attributes() -> None:
    x = sg.field(sg.f32, (2, 3), needs_grad=True, name="x")
    assert (x.dtype, x.shape, x.ndim, x.needs_grad, x.name) == (sg.f32, (2, 3), 2, True, "x")
    assert (x.grad.dtype, x.grad.shape, x.grad.needs_grad) == (sg.f32, (2, 3), False)
    assert repr(x) == "<sg.field(f32, shape=(2, 3), needs_grad=True, name='x')>"
    assert sg.field(sg.f32, 4).shape == (4,) and sg.field(sg.f32, 0).to_numpy().size == 0


def test_python_types_mean_the_defaults() -> None:
    sg.init(arch=sg.reference, default_fp=sg.f16, default_ip=sg.i64)
    assert (sg.field(float, ()).dtype, sg.field(int, ()).dtype, sg.field(bool, ()).dtype) == (sg.f16, sg.i64, sg.u1)
    assert sg.field(np.float32, ()).dtype == sg.f32


def test_to_numpy_is_a_copy() -> None:
    x = sg.field(sg.f32, 2)
    x.to_numpy()[0] = 5
    given = np.ones(2, np.float32)
    x.from_numpy(given)
    given[0] = 7
    assert x[0] == 1


def test_fill_and_copy() -> None:
    x, y = sg.field(sg.f64, 3), sg.field(sg.f32, 3)
    y.fill(2.5)
    x.copy_from(y)
    assert x.to_numpy().tolist() == [2.5] * 3


@pytest.mark.parametrize(
    ("given", "dtype", "result"),
    [
        (np.array([1, 2]), "f32", [1.0, 2.0]),
        (np.array([1.5, 2.5], np.float64), "f16", [1.5, 2.5]),
        (np.array([250, 3]), "u8", [250, 3]),
        (np.array([True, False]), "i32", [1, 0]),
        (np.array([2, 0]), "u1", [True, False]),
        ([[1], [2]], "i64", None),
        (np.array([1e300, 0.0]), "f32", [np.inf, 0.0]),
    ],
)
def test_casts(given: object, dtype: str, result: list[float] | None) -> None:
    x = sg.field(SCALARS[dtype], 2 if result else (2, 1))
    x.from_numpy(given)
    assert x.to_numpy().tolist() == (result or given)


@pytest.mark.parametrize(
    ("given", "dtype", "words"),
    [
        (np.array([1.5, 2.0]), "i32", "lose their fraction"),
        (np.array([300, 0]), "u8", "0 .. 300 do not fit"),
        (np.array([-1, 0]), "u32", "-1 .. 0 do not fit"),
        (np.array([1j, 0]), "f64", "complex128"),
        (np.array(["a", "b"]), "f64", "<U1"),
        (np.zeros(3), "f64", "(2,), the array has (3,)"),
        (np.zeros((2, 1)), "f64", "(2,), the array has (2, 1)"),
    ],
)
def test_refused_arrays(given: np.ndarray, dtype: str, words: str) -> None:
    x = sg.field(SCALARS[dtype], 2, name="x")
    before = x.version
    with pytest.raises(sg.FieldError) as caught:
        x.from_numpy(given)
    assert words in str(caught.value) and "'x'" in str(caught.value) and "cure:" in str(caught.value)
    assert x.version == before and not x.to_numpy().any()


@pytest.mark.parametrize("index", [(0,), None, (), (0, 0, 0), (0, 1.5), (slice(None), 0), ("a", 0)], ids=repr)
def test_bad_indices(index: object) -> None:
    x = sg.field(sg.f32, (2, 3))
    with pytest.raises(sg.FieldError):
        x[index]
    with pytest.raises(sg.FieldError):
        x[index] = 1


@pytest.mark.parametrize("index", [(2, 0), (0, 3), (-1, 0)], ids=repr)
def test_indices_outside(index: tuple[int, int]) -> None:
    x = sg.field(sg.f32, (2, 3), name="x")
    with pytest.raises(sg.OutOfBounds, match="outside field 'x', whose shape is"):
        x[index]
    with pytest.raises(IndexError):
        x[index] = 1


@pytest.mark.parametrize(("dtype", "value"), [("i32", 1.5), ("i8", 200), ("f32", [1.0]), ("f32", "1"), ("i64", 2**70)])
def test_refused_elements(dtype: str, value: object) -> None:
    x = sg.field(SCALARS[dtype], 1)
    with pytest.raises(sg.FieldError):
        x[0] = value
    with pytest.raises(sg.FieldError):
        x.fill(value)
    assert x[0] == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sg.field("f99"), "not a scalar type"),
        (lambda: sg.field(complex), "not a scalar type"),
        (lambda: sg.field(sg.i32, (), needs_grad=True), "i32 is not supported for fields with a gradient"),
        (lambda: sg.field(sg.u1, (), needs_grad=True), "u1 is not supported for fields with a gradient"),
        (lambda: sg.field(sg.f32, (2, -1)), "negative extent"),
        (lambda: sg.field(sg.f32, 2.5), "not a shape"),
        (lambda: sg.field(sg.f64, (1 << 40, 1 << 20)), "GiB"),
        (lambda: sg.field(sg.f32, 2).copy_from(np.zeros(2)), "takes a field"),
        (lambda: sg.field(sg.f32, 2).copy_from(sg.field(sg.f32, 3)), "the array has (3,)"),
    ],
)
def test_misuse(make: object, words: str) -> None:
    with pytest.raises(sg.FieldError) as caught:
        make()  # type: ignore[operator]
    assert words in str(caught.value)


def test_missing_gradient_says_how_to_get_it() -> None:
    with pytest.raises(sg.GradientError, match="needs_grad=True"):
        sg.field(sg.f32, (), name="x").grad  # noqa: B018
    with pytest.raises(sg.GradientError, match="it is a gradient itself"):
        sg.field(sg.f32, (), name="x", needs_grad=True).grad.grad  # noqa: B018


def test_every_write_gives_a_new_version() -> None:
    x, y = sg.field(sg.f32, 2), sg.field(sg.f32, 2)
    seen = {x.version, y.version}
    for write in (lambda: x.fill(1), lambda: x.__setitem__(0, 1), lambda: x.from_numpy([1, 2]), lambda: x.copy_from(y)):
        write()
        assert x.version not in seen
        seen.add(x.version)
    before = x.version
    x.to_numpy()
    x[0]
    assert x.version == before


def test_fields_are_stale_after_init() -> None:
    x = sg.field(sg.f32, 2, name="x")
    sg.init(arch=sg.reference)
    for use in (lambda: x[0], lambda: x.fill(0), x.to_numpy, lambda: x.from_numpy([0, 0]), lambda: x.__setitem__(0, 1)):
        with pytest.raises(sg.StaleFieldError, match="field 'x' is from before"):
            use()
    assert sg.field(sg.f32, 2)[0] == 0


def test_gradients_of_live_fields_are_cleared() -> None:
    x, y = sg.field(sg.f32, 2, needs_grad=True), sg.field(sg.f32, 2)
    x.grad.fill(3)
    y.fill(4)
    sg.ad.clear_all_gradients()
    assert x.grad[0] == 0 and y[0] == 4
