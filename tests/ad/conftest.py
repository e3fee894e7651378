"""Define fixtures of the reverse-mode tests, which run every kernel on every host backend, in f32 and f64."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import GRAD, bounded, near
from stackgrad.capture import capture
from stackgrad.harness.testing.bounds import BoundedResult

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:  # the kernels of this folder are modules of their own
    sys.path.append(_HERE)

BACKENDS = ("reference", "cpu")
PRECISIONS = ("f64", "f32")


@pytest.fixture(params=[(b, p) for b in BACKENDS for p in PRECISIONS], ids=lambda p: f"{p[0]}-{p[1]}")
def machine(request):
    """Start a runtime on one backend and precision. Return an object with `real(values)` and `ints(values)`."""
    backend, precision = request.param
    fp = getattr(sg, precision)
    sg.init(arch=getattr(sg, backend), default_fp=fp)
    dtype = np.dtype(fp.dtype)

    def real(values, needs_grad=True):
        field = sg.field(fp, shape=np.shape(values), needs_grad=needs_grad)
        field.from_numpy(np.asarray(values, dtype))
        return field

    def ints(values):
        field = sg.field(sg.i32, shape=np.shape(values))
        field.from_numpy(np.asarray(values, np.int32))
        return field

    return SimpleNamespace(real=real, ints=ints, fp=fp, backend=backend)


class Gradient(np.ndarray):
    """Represent a gradient that tests compare with a closed form, evaluated in f64 at the inputs as rounded to f32."""

    def near(self, form):
        near(self.known, self.name, np.asarray(self), form)


def rounded(launch):
    """Return the arrays before a launch, with error bounds of half an ulp of their types."""
    arrays = {name: a for name, a in launch.before.items() if not name.endswith(GRAD)}
    halves = {
        k: np.spacing(np.abs(a)).astype(float) / 2 if a.dtype == np.float32 else np.zeros(a.shape)
        for k, a in arrays.items()
    }
    return BoundedResult(arrays, halves, None, 0, 0)


def gradients(kernel, seeds, wrt, *args):
    """Run a kernel and its gradient; return the gradients of the fields in `wrt` for the given seeds of adjoints."""
    with capture() as recorded:
        kernel(*args)
        for field in wrt:
            field.grad.fill(0)
        for field, seed in seeds.items():
            field.grad.from_numpy(np.broadcast_to(np.asarray(seed, field.dtype.dtype), field.shape).copy())
        kernel.grad(*args)
    first, last = recorded.launches
    known = bounded(last, bounded(first, rounded(first)))
    names = {id(array): name for name, array in kernel.cache().last.captured.items()}
    found = [field.grad.to_numpy().view(Gradient) for field in wrt]
    for gradient, field in zip(found, wrt):
        gradient.known, gradient.name = known, names[id(field)] + GRAD
    return found


@pytest.fixture
def backward():
    """Return the function `gradients`."""
    return gradients
