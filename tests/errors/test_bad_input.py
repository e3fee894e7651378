"""Bad input, one test each: the class of the error, file, line, caret, variable and cure; then work goes on."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

HERE = "test_bad_input.py:"


@pytest.fixture(params=["reference", "cpu"], autouse=True)
def runtime(request):
    sg.init(arch=getattr(sg, request.param), default_fp=sg.f64)


def message_of(kind, call, *args):
    """The text of the error that the call raises, which must be of this class and located."""
    with pytest.raises(kind) as caught:
        call(*args)
    text = str(caught.value)
    assert HERE in text and "^" in text and "cure:" in text, text
    still_works()
    return text


def still_works():
    """Nothing is lost: the next kernel compiles, runs and differentiates."""
    x, y = (sg.field(sg.f64, shape=3, needs_grad=True) for _ in range(2))
    x.fill(3.0)

    @sg.kernel
    def square():
        for i in x:
            y[i] = x[i] * x[i]

    square()
    y.grad.fill(1.0)
    square.grad()
    assert x.grad.to_numpy().tolist() == [6.0] * 3


def test_kernel_without_source():
    namespace = {"sg": sg}
    exec("@sg.kernel\ndef lost():\n    pass\n", namespace)
    with pytest.raises(sg.KernelSyntaxError) as caught:
        namespace["lost"]()
    assert "lost" in str(caught.value) and "source" in str(caught.value) and "cure:" in str(caught.value)
    still_works()


def test_unknown_name():
    x = sg.field(sg.f64, shape=3)

    @sg.kernel
    def run():
        for i in x:
            value = 2.0
            x[i] = value + valeu  # noqa: F821

    text = message_of(sg.StackgradError, run)
    assert "`valeu`" in text and "`value`" in text


def test_type_clash():
    x = sg.field(sg.f64, shape=3)

    @sg.kernel
    def run():
        for i in x:
            x[i] = x[i] << 2

    text = message_of(sg.KernelTypeError, run)
    assert "<<" in text and "f64" in text


def test_field_of_the_wrong_rank():
    x = sg.field(sg.f64, shape=(3, 3))

    @sg.kernel
    def run():
        for i in range(3):
            x[i] = 1.0

    text = message_of(sg.KernelTypeError, run)
    assert "'x'" in text or "x" in text and "2" in text


def test_index_out_of_range_under_debug(request):
    arch = sg.reference if "reference" in request.node.name else sg.cpu
    sg.init(arch=arch, default_fp=sg.f64, debug=True)
    x = sg.field(sg.f64, shape=3, name="x")

    @sg.kernel
    def run(shift: sg.i32):
        for i in range(3):
            x[i + shift] = 1.0

    run(0)
    with pytest.raises(sg.OutOfBounds) as caught:
        run(2)
    text = str(caught.value)
    assert HERE in text and "x" in text and "3" in text
    assert isinstance(caught.value, IndexError)
    run(0)
    still_works()


def test_missing_gradient():
    x, y = sg.field(sg.f64, shape=3), sg.field(sg.f64, shape=3)

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[i]

    run()
    with pytest.raises(sg.NotDifferentiable) as caught:
        run.grad()
    assert "missing gradient" in str(caught.value) and "needs_grad=True" in str(caught.value)
    with pytest.raises(sg.StackgradError, match="needs_grad"):
        _ = x.grad
    still_works()


def test_loss_that_is_no_scalar():
    loss = sg.field(sg.f64, shape=3, needs_grad=True, name="loss")
    with pytest.raises(sg.StackgradError, match="(?s)loss.*one element.*0-d"), sg.ad.Tape(loss):
        pass
    still_works()


def test_unsupported_statement():
    x = sg.field(sg.f64, shape=3)

    @sg.kernel
    def run():
        for i in x:
            try:
                x[i] = 1.0
            finally:
                x[i] = 2.0

    text = message_of(sg.StackgradError, run)
    assert "try" in text


def test_five_mistakes_are_reported_at_once():
    x = sg.field(sg.f64, shape=3)

    @sg.kernel
    def run():
        for i in range(3):
            x[i, 0] = 1.0
            x[i] = unknown_one  # noqa: F821
            x[i] = x[i] & 1
            del i
            x[0.5] = 2.0

    with pytest.raises(sg.StackgradError) as caught:
        run()
    text = str(caught.value)
    assert text.count(HERE) == 5 and text.count("cure:") == 5
    still_works()


def test_overflow_names_kernel_variable_and_depth():
    """A stack with too small a capacity of its own, in IR text: an exception, and the next launch is right."""
    text = """kernel deep(x: f64[1], n: i32[0]) {
  bounds { %0: i32 = const 0  %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f64 capacity 2 of history
    %3: f64 = load x[%2]
    %4: i32 = load n[]
    %5: i32 = const 0
    for %6: i32 in %5 .. %4 { adstack_push s, %3 }
    for %7: i32 in %5 .. %4 { %8: f64 = adstack_load_top s  store x[%2], %8  adstack_pop s }
  }
}"""
    kernel = sg.kernel_from_text(text)
    x, n = np.ones(3), np.array(3, np.int32)
    with pytest.raises(sg.AdstackOverflow) as caught:
        kernel(x=x, n=n)
    assert "deep" in str(caught.value) and "history" in str(caught.value) and "2" in str(caught.value)
    kernel(x=x, n=np.array(2, np.int32))
    still_works()
