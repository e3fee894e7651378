"""Test kernels that read x.grad, for arrays of all extents, types and owners."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.testing.executors import present_backends
from stackgrad.interop.wrapping import WrappedKernel
from stackgrad.launch.text_kernels import kernel_from_text

sys.path.insert(0, str(Path(__file__).parent))

from gradient_read_programs import G, W, X  # noqa: E402


@pytest.fixture(params=["reference", "cpu", "vulkan"], autouse=True)
def arch(request):
    if request.param == "vulkan" and not present_backends(["vulkan"])[0]:
        pytest.skip("no Vulkan device")
    sg.init(arch=request.param, default_fp=sg.f64)
    yield request.param
    sg.reset()


@pytest.mark.rotating
@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000])
@pytest.mark.parametrize("fp", [sg.f32, sg.f64], ids=["f32", "f64"])
def test_extents(fp, n):
    """The rule holds for every number of elements, with a loop whose trip count x.grad decides."""
    x, y = (sg.field(fp, shape=n, needs_grad=True) for _ in range(2))
    counts = np.arange(n) % 4
    x.fill(2.0)
    x.grad.from_numpy(counts.astype(fp.dtype))

    @sg.kernel
    def powers():
        for i in x:
            v = x[i]
            for _ in range(int(x.grad[i])):
                v = v * x[i]
            y[i] = v

    slopes = (counts + 1) * 2.0**counts
    with sg.ad.Tape(y, seed=np.ones(n), clear_gradients=False):
        powers()
    assert y.to_numpy().tolist() == (2.0 ** (counts + 1)).tolist()
    assert x.grad.to_numpy().tolist() == (counts + slopes).tolist()
    x.grad.from_numpy(counts.astype(fp.dtype))
    y.grad.fill(1.0)
    powers.grad()
    assert x.grad.to_numpy().tolist() == (counts + slopes).tolist()


def test_vectors():
    """x.grad of a field of vectors is read as a vector."""
    v = sg.Vector.field(2, sg.f64, shape=2, needs_grad=True)
    out = sg.field(sg.f64, shape=2, needs_grad=True)

    @sg.kernel
    def run():
        for i in v:
            out[i] = v[i].dot(v.grad[i]) * v.grad[i].norm_sqr()

    value, gradient = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([[2.0, -1.0], [0.5, 4.0]])
    v.from_numpy(value)
    v.grad.from_numpy(gradient)
    with sg.ad.Tape(out, seed=np.ones(2), clear_gradients=False):
        run()
        run()
    size = (gradient**2).sum(axis=1, keepdims=True)
    assert v.grad.to_numpy().tolist() == (gradient + gradient * size).tolist()


def test_half_precision():
    """The gradient of an f16 field is one of f32, and so is the copy."""
    x, y = (sg.field(sg.f16, shape=2, needs_grad=True) for _ in range(2))
    x.fill(2.0)
    x.grad.from_numpy(np.array([0.5, 3.0], np.float32))

    @sg.kernel
    def run():
        for i in x:
            y[i] = sg.f16(sg.f32(x[i]) * x.grad[i] * x.grad[i])

    with sg.ad.Tape(y, seed=np.ones(2), clear_gradients=False):
        run()
    assert x.grad.to_numpy().tolist() == [0.75, 12.0]


def test_torch_tensor():
    """The gradient of a tensor is copied too."""
    torch = pytest.importorskip("torch")
    loss = sg.field(sg.f64, shape=(), needs_grad=True)

    @sg.kernel
    def run(x: sg.types.ndarray()):
        for i in x:
            loss[None] += x[i] * x.grad[i] ** 2

    x = torch.tensor(X, requires_grad=True)
    x.grad = torch.tensor(G)
    with sg.ad.Tape(loss):
        run(x)
        run(x)
    assert x.grad.tolist() == (G + 2 * G**2).tolist()


def test_adjoint_that_is_no_parameter():
    """A kernel of text may use x.grad without declaring it, as a grad kernel; it has no gradient then."""
    kernel = kernel_from_text(
        "kernel k(x: f64[1] grad) { serial { %0: i32 = const 0  %1: f64 = load x.grad[%0]  store x[%0], %1 } }"
    )
    x = sg.field(sg.f64, shape=1, needs_grad=True)
    reason = r"'x\.grad' is used in a kernel that is differentiated with respect to 'x', and is none of its parameters"
    with pytest.raises(sg.NotDifferentiable, match=reason):
        kernel.grad(x=x)


def test_arrays_of_numpy():
    """Gradients that are NumPy arrays, whose writes nobody sees, are copied for each launch."""
    weigh = kernel_from_text(
        """kernel weigh(x: f64[1] grad, x.grad: f64[1], loss: f64[0] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: f64 = load x.grad[%2]
    %5: f64 = mul %4, %4
    %6: f64 = mul %3, %5
    %7: f64 = atomic add loss[], %6
  }
}
"""
    )
    x, grad = X.copy(), G.copy()
    loss = sg.field(sg.f64, shape=(), needs_grad=True)
    arrays = {"x": x, "x.grad": grad, "loss": loss}
    with sg.ad.Tape(loss):
        weigh(arrays)
        grad += 1.0
        weigh(arrays)
    assert loss[None] == (X * G**2).sum() + (X * (G + 1) ** 2).sum()
    assert grad.tolist() == (G + 1 + G**2 + (G + 1) ** 2).tolist()
    grad[:] = G
    loss.grad[None] = 2.0
    weigh.grad(arrays)
    assert grad.tolist() == (G + 2 * G**2).tolist()
    grad[:] = G
    with sg.ad.FwdMode(loss, loss, seed=[0.0]), sg.ad.Tape(loss):
        weigh(arrays)
    assert grad.tolist() == (G + G**2).tolist()


@pytest.mark.parametrize("fp", [sg.f16, sg.f64], ids=["f16", "f64"])
def test_copies_between_an_array_and_its_gradient(fp):
    """Under a tape a copy is a launch: x gets constants, so its adjoint ends; x.grad gets data, which has none."""
    x, y = (sg.field(fp, shape=3, needs_grad=True) for _ in range(2))
    x.from_numpy(X.astype(fp.dtype))
    x.grad.from_numpy(G.astype(x.grad.dtype.dtype))

    @sg.kernel
    def square():
        for i in x:
            y[i] += x[i] * x[i]

    with sg.ad.Tape(y, seed=np.ones(3), clear_gradients=False):
        square()
        x.copy_from(x.grad)
        square()
    assert x.to_numpy().tolist() == G.tolist()
    assert x.grad.to_numpy().tolist() == (2 * X).tolist()
    x.from_numpy(X.astype(fp.dtype))
    with sg.ad.Tape(y, seed=np.ones(3)):
        square()
        x.grad.copy_from(x)
        square()
    assert x.grad.to_numpy().tolist() == (X + 4 * X).tolist()


def test_copies_of_vectors():
    """A field of vectors is copied by its storage."""
    v = sg.Vector.field(2, sg.f64, shape=2, needs_grad=True)
    out = sg.field(sg.f64, shape=2, needs_grad=True)
    value, gradient = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([[2.0, -1.0], [0.5, 4.0]])
    v.from_numpy(value)
    v.grad.from_numpy(gradient)

    @sg.kernel
    def run():
        for i in v:
            out[i] += v[i].norm_sqr()

    with sg.ad.Tape(out, seed=np.ones(2), clear_gradients=False):
        run()
        v.copy_from(v.grad)
        run()
    assert v.to_numpy().tolist() == gradient.tolist()
    assert v.grad.to_numpy().tolist() == (2 * value).tolist()


@pytest.mark.parametrize("uses_x", [False, True])
def test_wrapped_kernels(uses_x):
    """A kernel wrapped for torch reads x.grad of a field, which the gradient of another call has updated since."""
    x = sg.field(sg.f64, shape=3, needs_grad=True)

    @sg.kernel
    def weigh(w: sg.types.ndarray(), y: sg.types.ndarray()):
        for i in w:
            y[i] = w[i] * x.grad[i] ** 2 * (x[i] if sg.static(uses_x) else 1.0)

    wrapped = WrappedKernel(weigh, "y")
    x.from_numpy(X)
    x.grad.from_numpy(G)
    made = [np.zeros(3), np.zeros(3)]
    launched = [wrapped.forward({"w": W}, {"y": y}) for y in made]
    x.grad[0] += 1.0
    factor = X if uses_x else np.ones(3)
    for y, launch in zip(made, launched):
        grads = wrapped.backward({"w": W}, {"y": y}, {"y": np.ones(3)}, launch)
        assert grads["w"].tolist() == (factor * G**2).tolist()
    assert x.grad.to_numpy().tolist() == (G + [1.0, 0.0, 0.0] + (2 * W * G**2 if uses_x else 0.0)).tolist()


@pytest.mark.parametrize("uses_x", [False, True])
def test_trip_counts_of_two_launches(uses_x):
    """Each launch has stacks of the size that x.grad decided then, also where x.grad has become smaller since."""
    x, w, y = (sg.field(sg.f64, shape=3, needs_grad=True) for _ in range(3))
    counts = np.array([3, 2, 0])

    @sg.kernel
    def powers():
        for i in w:
            v = w[i]
            for _ in range(int(x.grad[i])):
                v = v * v
            y[i] += v * (x[i] if sg.static(uses_x) else 1.0)

    x.fill(1.0)
    w.from_numpy(W)
    x.grad.from_numpy(counts.astype(np.float64))
    with sg.ad.Tape(y, seed=np.ones(3), clear_gradients=False):
        powers()
        x.grad.fill(0.0)
        powers()
    exponents = 2**counts
    assert y.to_numpy().tolist() == (W**exponents + W).tolist()
    assert w.grad.to_numpy().tolist() == (exponents * W ** (exponents - 1) + 1).tolist()
