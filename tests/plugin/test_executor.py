"""Test that an executor defined outside of the package takes part in both checks."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from forward_mode import ForwardMode


class Doubles(ForwardMode):
    """Represent a wrong executor, whose gradients are twice the right ones."""

    def gradient(self, *args):
        return {name: 2.0 * array for name, array in super().gradient(*args).items()}


@pytest.fixture
def extra_executors(request):
    return [getattr(request, "param", ForwardMode())]


def paths(x, w, y):
    """y[i] = the larger of two, the sum of a loop that may stop early."""

    @sg.kernel
    def run():
        for i in range(3):
            s = 0.0
            for j in range(3):
                if x[j] < 0.0:
                    break
                s += x[i] * w[i, j]
            y[i] = max(s, w[i, 0])

    return run


def fields(fp):
    x, w, y = (sg.field(fp, shape=s, needs_grad=True) for s in (3, (3, 3), 3))
    x.from_numpy(np.array([0.5, 0.25, -1.0], fp.dtype))
    w.from_numpy(np.linspace(-1.0, 2.0, 9, dtype=fp.dtype).reshape(3, 3))
    return x, w, y


def outcomes(cases, name):
    return {(c.direction, c.precision): [k.verdict for k in c.comparisons if k.executor == name] for c in cases}


@pytest.mark.expensive
@pytest.mark.backends("cpu")
def test_it_is_judged_like_a_backend(backend, differential, gradcheck):
    backend.init(default_fp=sg.f32)
    run = paths(*fields(sg.f32))
    ok, limit = ["ok"], ["unsupported"]
    assert outcomes(differential(run), "forward mode") == {("forward", "f64"): ok, ("forward", "f32"): limit}
    found = outcomes(gradcheck(run), "forward mode")
    assert found["reverse", "f64"] == ok and found["reverse", "f32"] == limit


@pytest.mark.backends("cpu")
@pytest.mark.parametrize("extra_executors", [Doubles("doubles")], indirect=True, ids=["doubles"])
def test_it_is_found_when_it_is_wrong(backend, gradcheck, extra_executors):
    backend.init(default_fp=sg.f64)
    with pytest.raises(AssertionError, match=r"gradient f64: doubles: \w\[.*\]: doubles has"):
        gradcheck(paths(*fields(sg.f64)))
