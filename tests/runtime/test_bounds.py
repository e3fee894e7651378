"""An index outside an array: an error on every backend, forward and backward, and memory is whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.compiler.ir.parser import parse_kernel

SIZE = 100
everywhere = pytest.mark.backends("reference", "cpu", optional=("vulkan", "cuda"))


def fields(backend: Any, **options: Any) -> tuple[Any, Any, Any]:
    backend.init(default_fp=sg.f64, **options)
    x = sg.field(sg.f64, SIZE, needs_grad=True)
    y = sg.field(sg.f64, SIZE - 1, needs_grad=True)
    at = sg.field(sg.i32, SIZE)
    x.from_numpy(np.linspace(0.0, 1.0, SIZE))
    y.grad.fill(1.0)
    return x, y, at


def stencil(x: Any, y: Any, at: Any) -> sg.Kernel:
    @sg.kernel
    def k(shift: int):
        for i in y:
            y[i] = x[i] + 0.5 * x[i + shift]

    return k


def serial(x: Any, y: Any, at: Any) -> sg.Kernel:
    @sg.kernel
    def k(shift: int):
        for _ in range(1):
            s = 0.0
            for j in range(SIZE):
                s += x[j + shift] * 2.0
            y[0] = s

    return k


def rows(x: Any, y: Any, at: Any) -> sg.Kernel:
    """The inner bound leads outside; the check stands before the loop."""

    @sg.kernel
    def k(more: int):
        for i in y:
            s = 0.0
            for j in range(SIZE + more):
                s += x[j]
            y[i] = s

    return k


def ragged(x: Any, y: Any, at: Any) -> sg.Kernel:
    """Every iteration has bounds of its own."""

    @sg.kernel
    def k(more: int):
        for i in y:
            s = 0.0
            for j in range(i, SIZE + more):
                s += x[j] * x[j]
            y[i] = s

    return k


def searching(x: Any, y: Any, at: Any) -> sg.Kernel:
    """A loop that would never end among zeros."""

    @sg.kernel
    def k(step: int):
        for i in y:
            j = 0
            while x[j] < 0.5:
                j += 1
            y[i] = x[j * (1 + 2 * step)] + x[i]

    return k


def through(x: Any, y: Any, at: Any) -> sg.Kernel:
    """An index from memory."""

    @sg.kernel
    def k(outside: int):
        for i in y:
            y[i] = x[at[i] + outside * SIZE]

    return k


def gated(x: Any, y: Any, at: Any) -> sg.Kernel:
    """What selects iterations leads outside."""

    @sg.kernel
    def k(shift: int):
        for i in y:
            if at[i + shift] == 0:
                v = x[i]
                for _ in range(at[0] + 3):
                    v = sg.sin(v)
                y[i] = v

    return k


def total(x: Any, y: Any, at: Any) -> sg.Kernel:
    """All iterations add to one element, which is not there."""

    @sg.kernel
    def k(shift: int):
        for i in x:
            y[shift * SIZE] += x[i] + 1.0

    return k


KERNELS: dict[str, tuple[Callable[..., sg.Kernel], int, int]] = {
    "stencil": (stencil, 1, -1),
    "far": (stencil, 0, 1 << 20),
    "serial": (serial, 0, 1),
    "rows": (rows, 0, 1),
    "ragged": (ragged, 0, 1),
    "searching": (searching, 0, 1),
    "through": (through, 0, 1),
    "gated": (gated, 1, -1),
    "total": (total, 0, 1),
}
"""Kernels, each with an argument that is right and one that leads outside."""


@pytest.mark.rotating
@everywhere
@pytest.mark.parametrize("name", KERNELS)
def test_is_an_error_and_the_next_launch_is_right(name: str, backend: Any) -> None:
    made, right, wrong = KERNELS[name]
    x, y, at = fields(backend)
    kernel = made(x, y, at)
    for launch in (kernel, kernel.grad):
        launch(right)
        sg.sync()
        with pytest.raises(sg.OutOfBounds, match=r"test_bounds\.py:\d+:\d+: index -?\d+ ") as caught:
            launch(wrong)
            sg.sync()
        assert "cure: " in str(caught.value)
        launch(right)
        sg.sync()


@pytest.mark.rotating
@everywhere
@pytest.mark.parametrize("debug", [False, True])
def test_gradients_are_as_they_are_without_checks(debug: bool, backend: Any) -> None:
    """To the last bit."""
    found = []
    for options in ({"debug": debug}, {"bounds": "off"}):
        x, y, at = fields(backend, precise=True, deterministic=True, **options)
        at.from_numpy(np.arange(SIZE, dtype=np.int32)[::-1].copy())
        for made, right, _ in KERNELS.values():
            if made is not total:
                kernel = made(x, y, at)
                y.grad.fill(1.0)
                kernel(right), kernel.grad(right)
        found.append(x.grad.to_numpy())
    np.testing.assert_array_equal(*found)


@everywhere
def test_axes_are_compared_one_by_one(backend: Any) -> None:
    """An index that is outside its axis is an error though another element lies there."""
    backend.init()
    a = sg.field(sg.f32, (4, 8))

    @sg.kernel
    def k(i: int, j: int):
        a[i, j] = 1.0

    k(3, 7)
    for at in ((1, 9), (1, -1), (4, 0), (-1, 8)):
        with pytest.raises(sg.OutOfBounds):
            k(*at)
            sg.sync()
    assert a.to_numpy().sum() == 1.0


@everywhere
def test_an_empty_array_has_no_element(backend: Any) -> None:
    backend.init()
    y = sg.field(sg.f32, 4)

    @sg.kernel
    def k(x: sg.types.ndarray(sg.f32, 1)):  # type: ignore[valid-type]
        for i in y:
            y[i] = x[i % 4]

    with pytest.raises(sg.OutOfBounds, match="index 0 "):
        k(np.zeros(0, np.float32))
        sg.sync()
    k(np.ones(4, np.float32))
    assert y.to_numpy().tolist() == [1, 1, 1, 1]


def test_can_be_switched_off() -> None:
    with pytest.raises(sg.OptionError, match="bounds cannot be 'of'"):
        sg.init(bounds="of")
    sg.init(bounds="off", default_fp=sg.f64)
    assert not sg.runtime.session.RUNTIME.options.bounds
    x = np.zeros(64)
    part = x[8:16]

    @sg.kernel
    def k(y: sg.types.ndarray(sg.f64, 1), i: int):  # type: ignore[valid-type]
        y[i] = 3.0

    k(part, -1)  # of the memory of x, so nothing is damaged
    assert x.tolist().index(3.0) == 7


PROGRAM = """
import numpy as np
import stackgrad as sg
sg.init(arch=sg.{arch}, default_fp=sg.f64)
y = sg.field(sg.f64, 4, needs_grad=True)
@sg.kernel
def k(x: sg.types.ndarray()):
    for i in x:
        y[i] = x[i] + 0.5 * x[i - 1]
errors = 0
for _ in range(40):
    x = sg.ndarray(sg.f64, 4, needs_grad=True)
    for launch in (k, k.grad):
        try:
            launch(x)
            sg.sync()
        except sg.OutOfBounds as error:
            errors += "index -1" in str(error)
    del x
print(errors)
"""


@pytest.mark.expensive
def test_a_gradient_that_leads_outside_damages_no_heap(tmp_path: Any) -> None:
    """The gradient of x[i - 1] would add to x.grad[-1]."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(arch="cpu"))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "80\n"), done.stderr


@pytest.mark.parametrize(("first", "second"), [("x", "x.dual"), ("x.grad", "x.dual"), ("x.grad", "x.grad.dual")])
def test_what_is_taken_to_be_of_one_shape_must_be(first: str, second: str) -> None:
    """An index that is inside x is not compared again for its adjoint and its tangent."""
    text = f"""kernel k({first}: f32[1], {second}: f32[1]) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape {first}, 0 }} parallel %2: i32 in %0 .. %1 {{
        %3: f32 = load {first}[%2] store {second}[%2], %3 }} }}"""
    made = CpuBackend().compile(parse_kernel(text), Options())
    arrays = {first: np.ones(9, np.float32), second: np.zeros(9, np.float32)}
    made.run(arrays, {}, Sizes(), Draws())
    assert arrays[second].all()
    with pytest.raises(sg.KernelTypeError, match=r"has shape \(2,\), but .* has \(9,\)"):
        made.run({**arrays, second: np.zeros(2, np.float32)}, {}, Sizes(), Draws())
