"""Test `Tape(validation=True)`: it finds unannounced writes, with array, element and launch, and reports no others."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.autodiff.tape_state import StateLog
from stackgrad.compiler.errors import InternalError

HERE = "test_validation.py:"


def program(kind):
    """Return the arrays and kernels of a program: y = x², loss += sum of y², and x = x + 1 in place.

    The arrays are fields or ndarrays, as `kind` says.
    """

    def array(shape, name):
        if kind == "field":
            return sg.field(sg.f64, shape, needs_grad=True, name=name)
        return sg.ndarray(sg.f64, shape, needs_grad=True)

    x, y, loss = array(3, "x"), array(3, "y"), array((), "loss")
    Tensor = sg.types.ndarray()

    @sg.kernel
    def square(x: Tensor, y: Tensor):
        for i in x:
            y[i] = x[i] * x[i]

    @sg.kernel
    def total(y: Tensor, loss: Tensor):
        for i in y:
            loss[None] += y[i] * y[i]

    @sg.kernel
    def shift(x: Tensor):
        for i in x:
            x[i] = x[i] + 1.0

    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    return SimpleNamespace(
        x=x, y=y, loss=loss, square=lambda: square(x, y), total=lambda: total(y, loss), shift=lambda: shift(x)
    )


@pytest.fixture(params=["field", "ndarray"])
def p(request, arch):
    return program(request.param)


def scribble(array, how, place, value):
    """Overwrite an element in a way of which tapes are not notified."""
    if how == "view":
        array.to_numpy(copy=False)[place] = value
    elif how == "dlpack":
        np.from_dlpack(array)[place] = value
    else:  # by a pointer, as foreign code would
        memory = np.frombuffer(
            (np.ctypeslib.ctypes.c_char * array.memory.nbytes).from_address(
                array.memory.__array_interface__["data"][0]
            ),
            array.memory.dtype,
        )
        memory[place] = value


def test_a_result_written_unseen(p):
    """Without validation the adjoint of the replaced element reaches x, of which it does not depend."""

    def run(validation):
        with sg.ad.Tape(p.loss, validation=validation):
            p.square()
            scribble(p.y, "pointer", 1, 5.0)
            p.total()

    with pytest.raises(sg.ad.ValidationError) as caught:
        run(True)
    error, text = caught.value, str(caught.value)
    assert isinstance(error, sg.TapeError) and error.element == (1,) and error.launch == 1
    assert p.y.label == error.array and error.array in text
    assert "element [1] was 4.0 after launch 1 (kernel square" in text and "is 5.0 before launch 2" in text
    assert "kernel total" in text and text.count(HERE) == 4 and "cure: write it by a kernel" in text
    run(False)
    assert p.x.grad.to_numpy()[1] != 0, "which is what validation is for"


@pytest.mark.parametrize("how", ["view", "dlpack"])
def test_a_result_written_through_a_view(p, how):
    """The tape looks for it itself, and the gradient is right; validation says so, and that the view may be read."""
    with (
        pytest.warns(sg.ad.ValidationWarning, match=r"element \[1\] was 4.0 .* ends the adjoint") as seen,
        sg.ad.Tape(p.loss, validation=True),
    ):
        p.square()
        scribble(p.y, how, 1, 5.0)
        p.total()
    kinds = [warning.category for warning in seen]
    assert p.x.grad.to_numpy().tolist() == [4.0, 0.0, 108.0] and all(w.filename == __file__ for w in seen)
    assert kinds == [sg.ad.LostGradientWarning, sg.ad.ValidationWarning]


def test_following_the_cure(p):
    """Written as the tape sees it, the same program is right: the adjoint ends at the element."""
    with sg.ad.Tape(p.loss, validation=True):
        p.square()
        p.y[1] = 5.0
        p.total()
    assert p.x.grad.to_numpy().tolist() == [4.0, 0.0, 108.0]


@pytest.mark.parametrize("launches", [1, 2, 4])
def test_which_launch_of_several(p, launches):
    with pytest.raises(sg.ad.ValidationError) as caught, sg.ad.Tape(p.loss, validation=True):
        for k in range(6):
            if k == launches:
                scribble(p.x, "pointer", 2, -1.0)
            p.shift()
    assert caught.value.launch == launches and caught.value.element == (2,)
    assert f"before launch {launches + 1}" in str(caught.value)


def test_at_the_end_of_the_block(p):
    """Nothing uses it afterwards, but the gradient would read it."""
    with pytest.raises(sg.ad.ValidationError, match="when the tape's block ended"), sg.ad.Tape(p.loss, validation=True):
        p.square()
        p.total()
        scribble(p.x, "pointer", 0, 9.0)
    assert p.x.grad.to_numpy().tolist() == [0, 0, 0], "no gradient ran"


def test_views_that_nothing_uses_any_more_are_no_error(p):
    """What is exported is copied when it is read: the gradient is right, and says so."""
    view = p.x.to_numpy(copy=False)
    with (
        pytest.warns(sg.ad.ValidationWarning, match="the tape has a copy") as seen,
        sg.ad.Tape(p.loss, validation=True),
    ):
        p.square()
        p.total()
        view[0] = 9.0
    assert p.x.grad.to_numpy().tolist() == [4.0, 32.0, 108.0] and seen[0].filename == __file__


def test_written_while_the_tape_runs_backward(p):
    """Between the gradients of two launches, by a gradient function that writes through a pointer."""

    @sg.ad.grad_replaced
    def nothing():
        pass

    @sg.ad.grad_for(nothing)
    def scribbles():
        scribble(p.x, "pointer", 1, 0.5)

    with pytest.raises(sg.ad.ValidationError) as caught, sg.ad.Tape(p.loss, validation=True):
        p.square()
        nothing()
        p.total()
    text = str(caught.value)
    assert "element [1] was 2.0 after launch 1" in text
    assert "is 0.5 before the gradient of launch 1, of kernel square" in text


def test_a_state_that_the_tape_lost(p, monkeypatch):
    """A tape that forgets to save is a defect of ours: each launch's state is checked by its hash."""
    monkeypatch.setattr(StateLog, "_save", lambda log, array, *rest: log._loose.add(array))
    with (
        pytest.raises(InternalError, match="gradient of launch 1, of kernel square.* not at the state"),
        sg.ad.Tape(p.loss, validation=True),
    ):
        p.square()
        p.total()
        p.shift()


def test_arguments_of_numpy():
    """Without a gradient, what the caller changes is flagged, and its gradient right; written by a kernel, neither."""
    x, loss = (sg.field(sg.f64, n, needs_grad=True) for n in (3, ()))
    x.fill(2.0)
    w = np.ones(3)

    @sg.kernel
    def dot(w: sg.types.ndarray()):
        for i in x:
            loss[None] += x[i] * w[i]

    @sg.kernel
    def grow(w: sg.types.ndarray()):
        for i in w:
            w[i] = w[i] * 10.0

    with pytest.warns(sg.ad.ValidationWarning) as seen, sg.ad.Tape(loss, validation=True):
        dot(w)
        w[1] = 5.0
        dot(w)
    text = str(seen[0].message)
    assert len(seen) == 1 and "argument 'w' of kernel dot" in text and "element [1] was 1.0 after launch 1" in text
    assert HERE in text and x.grad.to_numpy().tolist() == [2.0, 6.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sg.ad.Tape(loss, validation=True):
            dot(w)
            grow(w[:2])
            dot(w)
    assert x.grad.to_numpy().tolist() == [11.0, 55.0, 2.0]


def test_arguments_of_numpy_with_gradients():
    """The adjoint of what was replaced would pass to whoever wrote the array before: an error."""
    square = sg.kernel_from_text(
        "kernel square(a: f64[1] grad, y: f64[1] grad) {\n  bounds { %0: i32 = const 0  %1: i32 = shape a, 0 } "
        "parallel %2: i32 in %0 .. %1 { %3: f64 = load a[%2]  %4: f64 = mul %3, %3  store y[%2], %4 }\n}"
    )
    a, b, grad, other = np.ones(3), np.ones(3), np.zeros(3), np.zeros(3)
    y = sg.field(sg.f64, 3, needs_grad=True)
    with (
        pytest.raises(sg.ad.ValidationError, match="argument 'y' of kernel square") as caught,
        sg.ad.Tape(y, seed=np.ones(3), validation=True),
    ):
        square({"a": a, "a.grad": grad, "y": b, "y.grad": other})
        b[2] = 7.0
        square({"a": b, "a.grad": other, "y": y})
    assert caught.value.element == (2,)


# ---- no alarm -------------------------------------------------------------------------------------------------------


def quiet(p, block, expected, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sg.ad.Tape(p.loss, validation=True, **options) as tape:
            block()
    assert p.x.grad.to_numpy().tolist() == expected
    return tape


def test_overwriting_in_sight(p):
    def block():
        for _ in range(2):
            p.square()
            p.total()
            p.shift()
        p.x.fill(0.0)
        p.y[2] = 1.0

    tape = quiet(p, block, [4.0 * (v**3 + (v + 1) ** 3) for v in (1.0, 2.0, 3.0)])
    assert tape.used_bytes > 0 and p.x.to_numpy().tolist() == [0, 0, 0]


def test_the_tape_inside_and_again(p):
    def block():
        p.square()
        with sg.ad.Tape(p.loss):
            p.square()
            p.total()
        p.total()

    quiet(p, block, [8.0, 64.0, 216.0])
    tape = quiet(p, lambda: (p.square(), p.total(), p.shift()), [4.0, 32.0, 108.0], retain=True)
    tape.grad()
    assert p.x.grad.to_numpy().tolist() == [4.0, 32.0, 108.0]
    tape.replay()
    assert p.x.grad.to_numpy().tolist() == [32.0, 108.0, 256.0]


def test_views_written_before_anything_used_them(p):
    """Input given through a view, element by element."""
    view = p.x.to_numpy(copy=False)

    def block():
        view[...] = [3.0, 2.0, 1.0]
        p.square()
        p.total()

    quiet(p, block, [108.0, 32.0, 4.0])


def test_functions_without_gradient(p):
    @sg.ad.no_grad
    def constant():
        p.shift()
        p.y.fill(1.0)

    quiet(p, lambda: (constant(), p.square(), p.total()), [32.0, 108.0, 256.0])


def test_vectors_written_by_component():
    a = sg.Vector.field(3, sg.f64, shape=2, needs_grad=True)
    loss = sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def total():
        for i in a:
            loss[None] += a[i].dot(a[i])

    a.fill(1.0)
    with sg.ad.Tape(loss, validation=True):
        total()
        a[1].xz = [2.0, 3.0]
        total()
    with pytest.raises(sg.ad.ValidationError) as caught, sg.ad.Tape(loss, validation=True):
        total()
        scribble(a.storage, "pointer", 5, 0.0)
        total()
    assert caught.value.element == (1, 2)


def test_no_debug_mode_is_needed(p):
    assert not sg.runtime.session.RUNTIME.settings.debug
