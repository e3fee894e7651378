"""What vectors become: scalar locals with readable names, no operation that a scalar program would not have."""

from __future__ import annotations

import pytest
import stackgrad as sg
from stackgrad.capture import capture
from stackgrad.compiler.ir.printer import print_kernel
from vectors_support import real, vectors

pytestmark = pytest.mark.backends("reference")


@pytest.fixture(autouse=True)
def double(backend):
    backend.init(default_fp=sg.f64)


def text_of(kernel, *args) -> str:
    with capture() as made:
        kernel(*args)
    return print_kernel(made.launches[0].kernel)


def test_names_of_locals(backend):
    y, x = real(4), vectors(2, 4)
    Body = sg.types.struct(pos=sg.types.vector(2, sg.f64), mass=sg.f64)

    @sg.kernel
    def k():
        for i in y:
            v = x[i]
            v *= 2
            b = Body(pos=v, mass=1.0)
            b.pos.x = 3.0
            m = sg.Matrix([[1.0, 2.0], [3.0, 4.0]])
            m[0, 1] += v.x
            y[i] = m[0, 1] + b.pos.sum()

    text = text_of(k)
    for name in ("v.0", "v.1", "b.pos.0", "b.pos.1", "b.mass", "m.0.0", "m.0.1", "m.1.0", "m.1.1"):
        assert f"local {name}: f64" in text, name


def test_two_vectors_of_one_name(backend):
    y = real(2)

    @sg.kernel
    def k():
        for i in y:
            v = sg.Vector([1.0, 2.0])
            y[i] = v.sum()
        for i in y:
            v = sg.Vector([3.0, 4.0])
            y[i] += v.sum()

    text = text_of(k)
    assert "local v.0: f64" in text and "local v.1: f64" in text
    assert len(set(line.split()[1] for line in text.splitlines() if line.strip().startswith("local "))) == 4


def test_entries_of_fields_are_indices_of_one_array(backend):
    y, x = real(4), vectors(3, 4)
    n = sg.field(sg.i32, shape=())

    @sg.kernel
    def k():
        for i in y:
            y[i] = x[i][n[None]]

    text = text_of(k)
    assert text.count("load x") == 1 and "select" not in text


def test_an_element_updated_by_a_vector_is_one_atomic_an_entry(backend):
    x = vectors(3, 4)

    @sg.kernel
    def k():
        for i in x:
            x[0] += x[i]

    assert text_of(k).count("atomic_add x") + text_of(k).count("atomic add x") == 3


def test_printed_vectors(backend, capfd):
    x = vectors(2)
    x[None] = [1.5, 2.5]

    @sg.kernel
    def k():
        v = x[None]
        print(v, f"<{v.y}>", sg.Matrix([[1, 2], [3, 4]]))

    k()
    sg.sync()
    assert capfd.readouterr().out == "[1.5, 2.5] <2.5> [[1, 2], [3, 4]]\n"
