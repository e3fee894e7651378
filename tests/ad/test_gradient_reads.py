"""Test kernels that use x.grad of an array x by which they are differentiated: values read from it are constant.

The fixture `gradcheck` judges values and adjoints on every executor and by all oracles, which treat x.grad like any
other array.
"""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.capture import capture
from stackgrad.harness.testing.replay import replay

SIZES = (0, 1, 2, 3, 257)
PRECISIONS = (sg.f32, sg.f64)


class Fields:
    """Hold the arrays of one test: reals with a gradient whose contents and gradients are not zero, and integers.

    Attributes:
        fp: The type of the reals.
        x: The array whose gradient kernels use.
        y: The array that kernels write.
        w: A further real array with a gradient.
        total: A real with a gradient, without axes.
        p: A permutation of the indices of x.
    """

    def __init__(self, fp, n, values=None):
        self.fp = fp
        draw = np.random.default_rng(7 + n)
        self.x, self.y, self.w = (self.real(n, draw.uniform(0.5, 1.5, n)) for _ in range(3))
        self.total = self.real((), np.asarray(0.5))
        self.p = sg.field(sg.i32, shape=n)
        self.p.from_numpy(draw.permutation(n).astype(np.int32))
        grads = draw.uniform(-2.0, 2.0, n) if values is None else np.resize(values, n)
        self.x.grad.from_numpy(grads.astype(fp.dtype))

    def real(self, shape, values):
        field = sg.field(self.fp, shape=shape, needs_grad=True)
        field.from_numpy(values.astype(self.fp.dtype))
        return field


@pytest.fixture(params=PRECISIONS, ids=lambda p: p.name)
def make(request):
    """Return a function that makes the arrays of a test, of f32 or f64."""
    sg.init(arch=sg.cpu, default_fp=request.param)
    return lambda n, values=None: Fields(request.param, n, values)


def step(f):
    """Return a kernel x -= 0.25 x.grad, whose derivative does not read x.grad."""
    x = f.x

    @sg.kernel
    def run():
        for i in x:
            x[i] -= 0.25 * x.grad[i]

    return run


def nonlinear(f):
    """Return a kernel y = x² x.grad², whose derivative reads x.grad, which the reverse sweep updates."""
    x, y = f.x, f.y

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[i] * x[i] * x.grad[i] ** 2

    return run


def neighbor(f):
    """Return a kernel that reads the gradient of a neighbor, which another iteration of the reverse sweep updates."""
    x, y, p = f.x, f.y, f.p

    @sg.kernel
    def run():
        for i in x:
            y[i] = sg.sin(x[i]) * x.grad[p[i]] + x[p[i]] * x.grad[i]

    return run


def branch(f):
    """Return a kernel in which the sign of x.grad decides an `if` and a conditional expression."""
    x, y = f.x, f.y

    @sg.kernel
    def run():
        for i in x:
            if x.grad[i] > 0.0:
                y[i] = x[i] * x[i]
            else:
                y[i] += 3.0 * x[i]
            y[i] += x[i] if x.grad[i] < -1.0 else 0.0

    return run


def bound(f):
    """Return a kernel in which x.grad is the trip count of a loop, and so decides the depth of an adstack."""
    x, y = f.x, f.y

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(int(abs(x.grad[i]) * 2.0)):
                v = sg.sin(v) + 0.5 * v
            y[i] = v

    return run


def until(f):
    """Return a kernel that reads x.grad in the condition and the body of a while loop with an unknown trip count."""
    x, y = f.x, f.y

    @sg.kernel
    def run():
        for i in x:
            v, k = x[i], 0
            while k < 5 and v * x.grad[i] < 3.0:
                v = v * (1.5 + x.grad[i] * x.grad[i])
                k += 1
            y[i] = v

    return run


def index(f):
    """Return a kernel in which x.grad is the index of the element that is read."""
    x, y = f.x, f.y

    @sg.kernel
    def run():
        for i in x:
            j = int(abs(x.grad[i]) * 1000.0) % x.shape[0]
            y[i] = x[j] * x[j]

    return run


def scatter(f):
    """Return a kernel with an atomic sum whose terms have x.grad as a factor."""
    x, total = f.x, f.total

    @sg.kernel
    def run():
        for i in x:
            total[None] += x[i] ** 3 * x.grad[i] ** 2

    return run


def in_place(f):
    """Return a kernel that overwrites x, which its gradient needs, and reads x.grad."""
    x = f.x

    @sg.kernel
    def run():
        for i in x:
            x[i] = sg.exp(0.1 * x[i] * x.grad[i]) * x.grad[i]

    return run


def two_tasks(f):
    """Return a kernel with two parallel loops that read x.grad, which the reverse sweep of each of them updates."""
    x, y, w = f.x, f.y, f.w

    @sg.kernel
    def run():
        for i in x:
            y[i] = w[i] * x.grad[i] * x[i]
        for i in x:
            w[i] = y[i] * x.grad[i] + x[i] * x[i]

    return run


def cleared(f):
    """Return the step of an optimizer that sets x.grad to 0 after using it; its derivative needs the old value."""
    x = f.x

    @sg.kernel
    def run():
        for i in x:
            x[i] = x[i] * (1.0 - 0.1 * x.grad[i] * x.grad[i])
            x.grad[i] = 0.0

    return run


def scaled(f):
    """Return a kernel that writes x.grad and reads it afterwards, so that it reads its own value."""
    x, y = f.x, f.y

    @sg.kernel
    def run():
        for i in x:
            x.grad[i] = 2.0 * x.grad[i] + 1.0
            y[i] = x[i] * x.grad[i] ** 2

    return run


def summed(f):
    """Return a kernel that updates x.grad by atomics, which have no derivative."""
    x, y, p = f.x, f.y, f.p

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[i] * x[i]
            x.grad[p[i]] += y[i]

    return run


KERNELS = (
    step,
    nonlinear,
    neighbor,
    branch,
    bound,
    until,
    index,
    scatter,
    in_place,
    two_tasks,
    cleared,
    scaled,
    summed,
)


@pytest.mark.rotating
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_gradient(make, gradcheck, kernel, n):
    """Values and adjoints agree on every executor, with both lowerings, and with all oracles."""
    gradcheck(kernel(make(n)))


@pytest.mark.rotating
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_gradients_of_zero(make, gradcheck, kernel):
    """The same where x.grad is zero, as it is after a tape has cleared it."""
    gradcheck(kernel(make(3, [0.0])))


def test_recorded_gradients_are_replayed(make, executor_panel):
    """`stackgrad check` repeats a gradient of a tape and one by hand, each at the x.grad that it found."""
    f = make(3, [1.5, -0.75, 2.25])
    kernel = bound(f)
    with capture(limit=2) as made:
        with sg.ad.Tape(f.y, seed=np.ones(3), clear_gradients=False):
            kernel()
            kernel()
        kernel.grad()
    backward = [launch for launch in made.launches if launch.kind == "reverse"]
    assert ["$x.grad.state" in launch.before for launch in backward] == [True, True] and len(made.launches) == 4
    for launch in made.launches:
        for case in replay(launch, executor_panel):
            assert case.verdict == "ok", case


def test_state_by_hand_is_replayed(make, executor_panel):
    """The same for a gradient by hand, whose launch makes the copy itself."""
    f = make(3, [1.5, -0.75, 2.25])
    kernel = nonlinear(f)
    kernel()
    f.y.grad.fill(1.0)
    with capture() as made:
        kernel.grad()
    (launch,) = made.launches
    assert "$x.grad.state" not in launch.before
    for case in replay(launch, executor_panel):
        assert case.verdict == "ok", case
