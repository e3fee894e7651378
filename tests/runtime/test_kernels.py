"""Python functions as kernels: when they are traced, how arguments are checked, what errors say and where."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import sines
from recorded_support import forward, gradients, memory_of, near
from stackgrad.launch.kernels import definition_span
from stackgrad.runtime.session import RUNTIME

HERE = "test_kernels.py:"


class Sines:
    """y[i] = sin applied to x[i], `n[None]` times in `bounded`, `times` times in `counted`."""

    def __init__(self) -> None:
        x, y = (sg.field(sg.f64, 3, needs_grad=True, name=name) for name in "xy")
        n = sg.field(sg.i32, (), name="n")
        loss = sg.field(sg.f64, (), needs_grad=True, name="loss")
        self.x, self.y, self.n, self.loss = x, y, n, loss
        x.from_numpy([0.1, 0.2, 0.3])

        @sg.kernel
        def bounded():  # type: ignore[no-untyped-def]
            for i in x:
                v = x[i]
                for _ in range(n[None]):
                    v = sg.sin(v)
                y[i] = v

        @sg.kernel
        def counted(times: sg.i32, scale: sg.f64):  # type: ignore[no-untyped-def, valid-type]
            for i in x:
                v = x[i]
                for _ in range(times):
                    v = sg.sin(v)
                y[i] = v * scale

        @sg.kernel
        def total():  # type: ignore[no-untyped-def]
            for i in y:
                loss[None] += y[i]

        self.bounded, self.counted, self.total = bounded, counted, total

    def check(self, times: int, scale: float = 1.0) -> None:
        """y is what `counted` makes of x."""
        known = forward(self.counted.ir(), memory_of(x=self.x, y=self.y), {"times": times, "scale": scale})
        near(known, "y", self.y.to_numpy(), scale * sines(self.x.to_numpy(), times)[0])

    def check_grad(self, *times: int, seed: float = 1.0) -> None:
        """x.grad is the sum of gradients for so many sines, the last one first, from 0."""
        changes = [{"n": np.array(n, np.int32), "y.grad": np.full(3, seed)} for n in reversed(times)]
        memory = memory_of(x=self.x, y=self.y) | {"x.grad": np.zeros(3)}
        slope = sum(sines(self.x.to_numpy(), n)[1] for n in times)
        near(gradients(self.bounded.ir(), memory, changes), "x.grad", self.x.grad.to_numpy(), seed * slope)


@pytest.fixture
def s() -> Sines:
    return Sines()


def test_arguments_by_position_and_name(s: Sines) -> None:
    s.counted(1, 1)
    s.check(1)
    s.counted(times=1, scale=2.5)
    s.check(1, 2.5)
    s.counted(np.int64(1), scale=np.float32(0.5))
    s.check(1, 0.5)


def test_gradient_by_hand(s: Sines) -> None:
    s.counted(3, 2.0)
    s.y.grad.fill(1)
    s.counted.grad(3, scale=2.0)
    s.check_grad(3, seed=2.0)
    assert not s.y.grad.to_numpy().any()


@pytest.mark.parametrize(
    ("args", "named", "words"),
    [
        ((1,), {}, "takes 2 arguments, got 1"),
        ((1, 2.0, 3), {}, "takes 2 arguments, got 3"),
        ((), {}, "its parameters: times: i32, scale: f64"),
        ((1.5, 1.0), {}, "the parameter times: i32 cannot take float 1.5"),
        ((1 << 31, 1.0), {}, "the parameter times: i32 cannot take 2147483648: it does not fit"),
        ((1, "a"), {}, "the parameter scale: f64 cannot take str 'a'"),
        ((1,), {"sclae": 1.0}, "there is no parameter 'sclae'"),
        ((1,), {"times": 1}, "'times' is given twice"),
        ((), {"times": 1}, "takes 2 arguments, got 1"),
        ((1, 2.0, 3), {"scale": 1.0}, "'scale' is given twice"),
    ],
)
def test_mistakes_in_a_call_point_at_the_def(
    s: Sines, args: tuple[Any, ...], named: dict[str, Any], words: str
) -> None:
    for call in (s.counted, s.counted.grad):
        with pytest.raises(sg.KernelTypeError) as caught:
            call(*args, **named)
        text = str(caught.value)
        assert words in text and HERE in text and "def counted" in text and "^" in text and "cure:" in text
    assert s.counted.stats().launches == 0


@pytest.mark.lowering("lean")
def test_constant_bound_is_evaluated_once_and_a_changed_one_again(s: Sines) -> None:
    s.n[None] = 3
    for _ in range(4):
        s.bounded()
        s.y.grad.fill(1)
        s.bounded.grad()
    stats = s.bounded.stats()
    assert (stats.launches, stats.grad_launches, stats.evaluations, stats.cache_hits) == (4, 4, 1, 3)
    s.n[None] = 5
    s.bounded.grad()
    s.bounded.grad()
    assert s.bounded.stats().evaluations == 2 and s.bounded.stats().countings == 0
    assert s.bounded.stats().bytes["real"] == 3 * 5 * 8


def test_tape_over_kernels_and_a_bound_that_changes(s: Sines) -> None:
    with sg.ad.Tape(s.loss) as tape:
        for times in (2, 5):
            s.n[None] = times
            s.bounded()
            s.total()
        s.n[None] = 0
    s.check_grad(2, 5)
    assert s.n[None] == 0 and tape.used_bytes == 8


def test_the_default_arch_runs_tape_and_count_alike() -> None:
    sg.init(default_fp=sg.f64, precise=True)
    s = Sines()
    with sg.ad.Tape(s.loss):
        for times in (2, 5):
            s.n[None] = times
            s.bounded()
            s.total()
        s.n[None] = 0
    assert RUNTIME.backend.name == "cpu"
    s.check_grad(2, 5)
    assert s.bounded.stats().evaluations == 2 and s.bounded.stats().compile_seconds > 0
    assert sg.adstack_report().peak > 0
    backend = RUNTIME.backend
    sg.reset()
    assert [slab["current"] for slab in backend.heap_report().values()] == [0, 0, 0]


def test_kernels_are_traced_once_per_init(s: Sines) -> None:
    s.bounded()
    program = s.bounded.program()
    s.bounded()
    assert s.bounded.program() is program
    with pytest.raises(sg.StaleFieldError):
        sg.init(arch=sg.reference)
        s.bounded()
    assert s.bounded.stats().launches == 0


def test_default_types_are_those_of_init() -> None:
    out: Any = None

    @sg.kernel
    def third():  # type: ignore[no-untyped-def]
        v = 1.0
        out[None] = v / 3

    for dtype, value in ((sg.f32, float(np.float32(1) / np.float32(3))), (sg.f64, 1 / 3)):
        sg.init(arch=sg.reference, default_fp=dtype)
        out = sg.field(sg.f64, ())
        third()
        assert out[None] == value


def test_a_kernel_that_did_not_trace_is_traced_again() -> None:
    x: Any = 3

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        x[None] = 1.0

    for _ in range(2):
        with pytest.raises(sg.StackgradError) as caught:
            k()
        assert HERE in str(caught.value)
    assert not RUNTIME.tracing
    x = sg.field(sg.f64, ())
    k()
    assert x[None] == 1


def test_missing_gradient_points_at_the_def() -> None:
    x = sg.field(sg.f64, 3)

    @sg.kernel
    def plain():  # type: ignore[no-untyped-def]
        for i in x:
            x[i] = 2.0

    plain()
    with pytest.raises(sg.NotDifferentiable) as caught:
        plain.grad()
    assert "missing gradient" in str(caught.value) and "def plain" in str(caught.value)
    assert "needs_grad=True" in str(caught.value)


def test_a_kernel_without_gradients_runs_under_a_tape_and_is_watched(s: Sines) -> None:
    n = s.n

    @sg.kernel
    def more():  # type: ignore[no-untyped-def]
        n[None] += 2

    s.n[None] = 1
    with sg.ad.Tape(s.loss):
        s.bounded()
        s.total()
        more()
    s.check_grad(1)
    assert s.n[None] == 3


def test_a_kernel_that_cannot_be_differentiated_raises_at_its_launch(s: Sines) -> None:
    x, y = s.x, s.y

    @sg.kernel
    def overwrite():  # type: ignore[no-untyped-def]
        for i in range(x.shape[0] - 1):
            y[i] = x[i] * x[i + 1]
            x[i] = 100.0

    before = x.to_numpy()
    with pytest.raises(sg.NotDifferentiable) as caught, sg.ad.Tape(s.loss):
        overwrite()
    assert HERE in str(caught.value) and (x.to_numpy() == before).all()


def test_gradients_as_data(s: Sines) -> None:
    """A descent step reads x.grad as an array like any other."""
    x = s.x

    @sg.kernel
    def descend(rate: sg.f64):  # type: ignore[no-untyped-def, valid-type]
        for i in x:
            x[i] -= rate * x.grad[i]

    x.fill(1)
    x.grad.from_numpy([1, 2, 3])
    descend(0.5)
    assert x.to_numpy().tolist() == [0.5, 0, -0.5]


def test_use_of_a_missing_gradient_in_a_kernel_is_located(s: Sines) -> None:
    n, y = s.n, s.y

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        y[0] = n.grad[None]

    with pytest.raises(sg.StackgradError) as caught:
        k()
    assert HERE in str(caught.value) and "y[0] = n.grad[None]" in str(caught.value)


def test_debug_verifies_and_checks(s: Sines) -> None:
    sg.init(arch=sg.reference, default_fp=sg.f64, debug=True)
    again = Sines()
    again.counted(2, 1.0)
    again.y.grad.fill(1)
    again.counted.grad(2, 1.0)
    again.check_grad(2)


def test_ir_access_and_names(s: Sines) -> None:
    assert s.counted.ir().name == "counted" == s.counted.__name__
    assert [p.name for p in s.counted.ir().params][:2] == ["times", "scale"]
    assert "x.grad" in {p.name for p in s.counted.lowered_grad().kernel.params}
    assert s.counted.lowered().counting is None and s.counted.lowered_grad().counting is not None
    assert repr(s.counted) == "<sg.kernel counted>"


def test_threads_may_launch_the_same_kernel(s: Sines) -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                s.counted(2, 1.0)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    s.check(2)


def test_warnings_of_the_compiler_are_python_warnings(s: Sines, monkeypatch: pytest.MonkeyPatch) -> None:
    from stackgrad.compiler.errors import Diagnostic
    from stackgrad.compiler.frontend import trace as frontend

    traced = frontend.trace(s.total.__wrapped__)
    warned = frontend.Traced(traced.kernel, traced.arrays, traced.arguments, (Diagnostic("odd", "do else"),))
    monkeypatch.setattr(frontend, "trace", lambda *_, **__: warned)
    with pytest.warns(sg.KernelWarning, match="odd"):
        s.total()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s.total()


def test_functions_without_source() -> None:
    scope: dict[str, Any] = {}
    exec("def k():\n    pass", scope)  # noqa: S102
    with pytest.raises(sg.KernelSyntaxError):
        sg.kernel(scope["k"])()
    assert definition_span(scope["k"]) is None
