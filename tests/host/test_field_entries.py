"""Entries of fields of vectors and matrices are placed one by one, as programs of peers do that choose the layout."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg


@sg.kernel
def double(x: sg.template(), y: sg.template()):
    for i, j in x:
        y[i, j] = 2 * x[i, j]


@pytest.mark.parametrize("make", [lambda: sg.Vector.field(3, sg.f64), lambda: sg.Matrix.field(2, 3, sg.f64)])
def test_a_field_is_placed_with_its_last_entry(make):
    x, y = make(), make()
    block = sg.root.dense(sg.i, 4)
    for field in (x, y):
        entries = [field.get_scalar_field(r, c) for r in range(field.n) for c in range(field.m)]
        for entry in entries[:-1]:
            block.dense(sg.j, 5).place(entry)
            with pytest.raises(sg.FieldError, match="place"):
                field[0, 0]
        block.dense(sg.j, 5).place(entries[-1])
        assert field.shape == (4, 5)
    sg.root.lazy_grad()
    given = np.random.default_rng(0).random(x.to_numpy().shape)
    x.from_numpy(given)
    double(x, y)
    assert np.array_equal(y.to_numpy(), 2 * given)
    y.grad.fill(1)
    double.grad(x, y)
    assert np.array_equal(x.grad.to_numpy(), np.full_like(given, 2))


def test_a_gradient_is_placed_with_the_last_entry():
    x = sg.Vector.field(2, sg.f32, needs_grad=True)
    sg.root.dense(sg.i, 3).place(x.get_scalar_field(0), [x.get_scalar_field(1)])
    assert x.grad.shape == x.shape == (3,)


def test_a_program_tells_entries_from_fields_of_vectors():
    x = sg.Vector.field(2, sg.f32)
    entry = x.get_scalar_field(1)
    assert isinstance(entry, sg.ScalarField) and not isinstance(x, sg.ScalarField) and repr(entry).startswith("<entry")


def test_entries_have_one_offset():
    x = sg.Vector.field(2, sg.f32)
    sg.root.dense(sg.i, 3).place(x.get_scalar_field(0), x.get_scalar_field(1), offset=-1)
    x[-1] = [1, 2]
    assert x.to_numpy()[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda x, node: [node.place(x.get_scalar_field(0)) for _ in range(2)], "entry (0, 0) of "),
        (
            lambda x, node: [node.place(x.get_scalar_field(0)), sg.root.dense(sg.i, 4).place(x.get_scalar_field(1))],
            "are placed with the shapes (3,) and (4,)",
        ),
        (
            lambda x, node: [node.place(x.get_scalar_field(0)), node.place(x.get_scalar_field(1), offset=1)],
            "are placed with the offsets",
        ),
        (lambda x, node: x.get_scalar_field(0)[1], "entry (0, 0) of field 'x' is no field of its own"),
        (lambda x, node: x.get_scalar_field(0).__setitem__(1, 1), "and has no 'element'"),
        (lambda x, node: x.get_scalar_field(0).to_numpy(), "and has no 'to_numpy'"),
        (lambda x, node: x.get_scalar_field(2), "has 2 entries, and none at (2,)"),
        (lambda x, node: x.get_scalar_field(0, 1), "has 2 entries, and none at (0, 1)"),
        (lambda x, node: x.get_scalar_field(), "has 2 entries, and none at ()"),
        (lambda x, node: sg.Matrix.field(2, 2, sg.f32).get_scalar_field(0, 2), "has 2 x 2 entries, and none at (0, 2)"),
        (lambda x, node: [entry := x.get_scalar_field(0), node.place(x), node.place(entry)], "is placed already"),
    ],
)
def test_mistakes_are_named(act, words):
    with pytest.raises(sg.FieldError) as told:
        act(sg.Vector.field(2, sg.f32, name="x"), sg.root.dense(sg.i, 3))
    assert words in str(told.value) and "cure: " in str(told.value)
