# ruff: noqa: B007 - loops that only count
"""Static expressions that hand on values of the launch: loops and comprehensions over tuples of such values."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")
N = 5


def inputs() -> tuple[sg.Field, sg.Field]:
    """A field with a gradient that holds 1, 1.5, 2, ..., and one of zeros."""
    x, y = (sg.field(sg.f64, N, needs_grad=True) for _ in range(2))
    x.from_numpy(1.0 + 0.5 * np.arange(N))
    return x, y


def gradient(kernel, x, y, *args) -> np.ndarray:
    """The gradient of the sum of y, taken twice in a row, which must not differ."""
    for _ in range(2):
        x.grad.fill(0)
        y.grad.fill(1)
        kernel(*args)
        kernel.grad(*args)
    return x.grad.to_numpy()


def test_enumerate_of_arguments() -> None:
    y = sg.field(sg.i32, 3)

    @sg.kernel
    def k(a: sg.i32, b: sg.i32):
        for place, value in sg.static(enumerate((a, b, 7))):
            y[place] = value

    k(5, 6)
    assert y.to_numpy().tolist() == [5, 6, 7]
    k(8, 9)
    assert y.to_numpy().tolist() == [8, 9, 7], "the values are those of each launch"


@pytest.mark.parametrize("dtype", [sg.f32, sg.f64])
def test_zip_of_locals_has_a_gradient(dtype) -> None:
    x, y = (sg.field(dtype, N, needs_grad=True) for _ in range(2))
    x.from_numpy(1.0 + 0.5 * np.arange(N).astype(dtype.dtype))

    @sg.kernel
    def k():
        for i in x:
            a, b = x[i] * x[i], 3.0 * x[i]
            total = x[i] * 0.0
            for left, right in sg.static(zip((a, b), (b, 2.0))):
                total += left * right
            y[i] = total

    a = x.to_numpy()
    np.testing.assert_array_equal(gradient(k, x, y), 9 * a**2 + 6)
    np.testing.assert_array_equal(y.to_numpy(), 3 * a**3 + 6 * a)


def test_a_value_is_that_of_the_moment_of_the_loop() -> None:
    x, y = inputs()

    @sg.kernel
    def k():
        for i in x:
            a = x[i]
            for term in sg.static([a, a]):
                a += term
            y[i] = a

    np.testing.assert_array_equal(gradient(k, x, y), np.full(N, 3.0))


def test_entries_of_vectors_and_matrices() -> None:
    x, y = inputs()

    @sg.kernel
    def k():
        for i in x:
            v = sg.Vector([x[i], 2.0 * x[i], x[i] * x[i]])
            for position, entry in sg.static(enumerate(v)):
                y[i] += (position + 1) * entry

    np.testing.assert_array_equal(gradient(k, x, y), 5 + 6 * x.to_numpy())


def test_elements_of_arrays_and_members() -> None:
    x, y = inputs()

    @sg.kernel
    def k(w: sg.types.ndarray(sg.f64, 1)):
        for i in x:
            for factor, value in sg.static(tuple(zip((w[0], w[1]), (x[i], x[N - 1 - i])))):
                y[i] += factor * value

    got = gradient(k, x, y, np.array([2.0, 5.0]))
    np.testing.assert_array_equal(got, np.full(N, 7.0))


def test_comprehension_over_arguments() -> None:
    x, y = inputs()

    @sg.kernel
    def k(a: sg.i32, b: sg.i32):
        for i in range(1):
            v = sg.Vector([x[j] for j in sg.static((a, b))])
            y[i] = v[0] * v[1]

    assert gradient(k, x, y, 1, 3).tolist() == [0, 2.5, 0, 1.5, 0]
    assert gradient(k, x, y, 2, 2).tolist() == [0, 0, 4.0, 0, 0], "another launch takes its own values"


def test_forward_mode() -> None:
    x, loss = sg.field(sg.f64, N, needs_dual=True), sg.field(sg.f64, (), needs_dual=True)
    x.from_numpy(np.arange(1.0, N + 1))

    @sg.kernel
    def k():
        for i in x:
            for factor in sg.static((x[i], 2.0)):
                loss[None] += factor * x[i]

    for _ in range(2):
        loss[None] = 0.0
        with sg.ad.FwdMode(loss=loss, param=x, seed=[1.0] * N):
            k()
    assert loss.dual[None] == (2 * np.arange(1, N + 1) + 2).sum()


@pytest.mark.parametrize(
    "text",
    [
        "sg.static(a > 3)",
        "sg.static(a)",
        "sg.static((a, b)[0] + 1)",
        "sg.static([x[0]][0] * 2)",
        "sg.static(sum((a, b)))",
        "sg.static(max(a, b))",
        "sg.static(-b)",
        "sg.static(f'{a}')",
        "sg.static({a: 1})",
        "sg.static(a in (1, 2))",
    ],
)
def test_what_looks_into_a_value_is_refused(text: str, tmp_path, monkeypatch) -> None:
    (tmp_path / "looking.py").write_text(
        "import stackgrad as sg\n"
        "def make(x):\n"
        "    @sg.kernel\n"
        "    def k(a: sg.i32, b: sg.f64):\n"
        "        for i in range(1):\n"
        f"            x[0] = {text}\n"
        "    return k\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "looking", raising=False)
    import looking

    x = sg.field(sg.f64, 2)
    with pytest.raises(sg.KernelTypeError, match="is not known at compile time") as caught:
        looking.make(x)(1, 2.0)
    (found,) = caught.value.diagnostics
    assert found.span is not None and found.span.line == 6
    assert found.span.text[found.span.column : found.span.end_column] in ("a", "b", "x[0]")
