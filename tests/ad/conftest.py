"""Fixtures of the reverse-mode tests: every kernel runs on every host backend, in f32 and f64."""
from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import stackgrad as sg

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:  # the kernels of this folder are modules of their own
    sys.path.append(_HERE)

BACKENDS = ("reference", "cpu")
PRECISIONS = ("f64", "f32")


@pytest.fixture(params=[(b, p) for b in BACKENDS for p in PRECISIONS], ids=lambda p: f"{p[0]}-{p[1]}")
def machine(request):
    """An initialised runtime. real(values), ints(values) make fields; rtol is a few hundred ulps of the precision."""
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

    return SimpleNamespace(real=real, ints=ints, fp=fp, rtol=256 * np.finfo(dtype).eps, backend=backend)


def gradients(kernel, seeds, wrt, *args):
    """Run forward, then backward; the gradients of `wrt` for seeds of 1 (or as given) in `seeds`."""
    kernel(*args)
    for field in wrt:
        field.grad.fill(0)
    for field, seed in seeds.items():
        field.grad.from_numpy(np.broadcast_to(np.asarray(seed, field.dtype.dtype), field.shape).copy())
    kernel.grad(*args)
    return [field.grad.to_numpy() for field in wrt]


@pytest.fixture
def backward():
    """The function above."""
    return gradients
