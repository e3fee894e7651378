"""Templates, dataclasses and tensors as arguments: what is known when the kernel is traced, and what is not."""

from __future__ import annotations

import dataclasses
import enum
import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
import stackgrad as sg


class Mode(enum.Enum):
    ADD = 1
    SCALE = 2


@sg.func
def square(v):  # type: ignore[no-untyped-def]
    return v * v


@sg.kernel
def apply(x: sg.template(), f: sg.template(), n: sg.template()):  # type: ignore[no-untyped-def, valid-type]
    for i in x:
        for _ in sg.static(range(n)):
            x[i] = f(x[i]) + 1.0


@sg.kernel
def either(x: sg.Tensor, y: sg.Tensor):  # type: ignore[no-untyped-def]
    for i in x:
        y[i] += 3.0 * x[i]


@dataclasses.dataclass(frozen=True)
class Inner:
    v: sg.template()  # type: ignore[valid-type]
    offset: sg.f64  # type: ignore[valid-type]
    direction: sg.types.vector(2, sg.f64)  # type: ignore[valid-type]


@dataclasses.dataclass(frozen=True)
class State:
    x: sg.types.ndarray(ndim=1)  # type: ignore[valid-type]
    inner: Inner
    substeps: int
    scaled: bool = True

    @sg.func
    def at(self, i):  # type: ignore[no-untyped-def]
        return self.x[i] * self.inner.v[i]


@sg.kernel
def advance(s: State, dt: sg.f64):  # type: ignore[no-untyped-def, valid-type]
    for i in s.x:
        for _ in sg.static(range(s.substeps)):
            if sg.static(s.scaled):
                s.x[i] += dt * s.inner.v[i] * s.inner.direction[1] + s.inner.offset
            else:
                s.x[i] -= 1.0


@sg.kernel
def product(s: sg.template(), out: sg.types.ndarray()):  # type: ignore[no-untyped-def, valid-type]
    for i in s.x:
        out[i] += s.at(i)


def test_functions_and_numbers_by_value() -> None:
    x = sg.field(sg.f64, 2)
    apply(x, square, 2)
    assert np.array_equal(x.to_numpy(), [2, 2])
    x.fill(6.25)
    apply(x, sg.sqrt, 1)
    assert x.to_numpy().tolist() == [3.5, 3.5]
    apply(x, square, 2)
    assert len(apply.programs) == 2


def test_numbers_of_one_value_and_two_types_are_two() -> None:
    seen = []

    @sg.kernel
    def k(n: sg.template()) -> sg.f64:  # type: ignore[valid-type]
        return sg.static(1 if isinstance(n, bool) else 2 if isinstance(n, int) else 3)

    for value in (True, 1, 1.0, 1, -0.0, 0.0):
        seen.append(k(value))
    assert seen == [1, 2, 3, 2, 3, 3] and len(k.programs) == 5


def test_fields_of_one_type_and_shape_share_a_program() -> None:
    for _ in range(3):
        apply(sg.field(sg.f64, 4), square, 1)
    assert len(apply.programs) == 1
    apply(sg.field(sg.f64, 5), square, 1)
    assert len(apply.programs) == 2


def test_the_shape_of_a_template_field_is_known_when_it_is_traced() -> None:
    @sg.kernel
    def corners(x: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for i in sg.static(range(x.shape[0])):
            x[i] = i * 2.0

    for n in (2, 3):
        x = sg.field(sg.f64, n)
        corners(x)
        assert np.array_equal(x.to_numpy(), 2 * np.arange(n))


def test_texts_enumerations_tuples_and_none() -> None:
    @sg.kernel
    def k(text: sg.template(), mode: sg.template(), sizes: sg.template(), none: sg.template()) -> sg.i32:  # type: ignore[valid-type]
        total = 0
        if sg.static(text == "yes"):
            total += 1
        if sg.static(mode == Mode.SCALE):
            total += 10
        if sg.static(none is None):
            total += 100
        for n in sg.static(sizes):
            total += n * 1000
        return total

    assert k("yes", Mode.ADD, (1, 2), None) == 3101
    assert k("no", Mode.SCALE, [4], 1) == 4010


def test_gradients_through_template_fields_of_vectors() -> None:
    @sg.kernel
    def k(v: sg.template(), loss: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for i in v:
            loss[None] += v[i].dot(v[i])

    for layout in (sg.Layout.AOS, sg.Layout.SOA):
        v = sg.Vector.field(3, sg.f64, 4, needs_grad=True, layout=layout)
        loss = sg.field(sg.f64, (), needs_grad=True)
        v.from_numpy(np.arange(12.0).reshape(4, 3))
        with sg.ad.Tape(loss):
            k(v, loss)
        assert np.array_equal(v.grad.to_numpy(), 2 * np.arange(12.0).reshape(4, 3))


def test_struct_fields_as_templates() -> None:
    s = sg.Struct.field({"p": sg.types.vector(2, sg.f64), "m": sg.f64}, shape=3, needs_grad=True)
    loss = sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k(s: sg.template(), loss: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for i in s:
            loss[None] += s[i].m * s[i].p.norm_sqr()

    s.m.fill(2)
    s.p.from_numpy(np.ones((3, 2)))
    k(s, loss)
    loss.grad.fill(1)
    k.grad(s, loss)
    assert loss[None] == 12 and s.m.grad.to_numpy().tolist() == [2] * 3
    assert s.p.grad.to_numpy().tolist() == [[4, 4]] * 3


def test_tensor_takes_fields_ndarrays_and_numpy_arrays() -> None:
    kinds = [sg.field(sg.f64, 3), sg.ndarray(sg.f64, 3), np.zeros(3)]
    for x in kinds:
        (x.fill if not isinstance(x, np.ndarray) else x.fill)(1)
        for y in (sg.field(sg.f64, 3), sg.ndarray(sg.f64, 3), np.zeros(3)):
            either(x, y)
            assert np.array_equal(y if isinstance(y, np.ndarray) else y.to_numpy(), [3, 3, 3])


def _state(n: int, **options: Any) -> State:
    v = sg.field(sg.f64, n, needs_grad=True)
    v.fill(2)
    x = sg.ndarray(sg.f64, n, needs_grad=True)
    return State(x, Inner(v, 0.5, sg.Vector([0.0, 10.0])), **{"substeps": 2, **options})


def test_a_dataclass_of_arrays_numbers_and_constants() -> None:
    s = _state(3)
    advance(s, 0.125)
    assert s.x.to_numpy().tolist() == [2 * (0.125 * 2 * 10 + 0.5)] * 3
    s.x.grad.fill(1)
    advance.grad(s, 0.125)
    assert s.inner.v.grad.to_numpy().tolist() == [2 * 0.125 * 10] * 3 and s.x.grad.to_numpy().tolist() == [1] * 3


def test_numbers_of_a_dataclass_are_of_the_launch_or_of_the_program() -> None:
    s = _state(3)
    advance(s, 0.125)
    other = dataclasses.replace(s, inner=Inner(s.inner.v, -1.0, sg.Vector([0.0, 0.0])))
    advance(other, 0.125)
    assert len(advance.programs) == 1 and s.x.to_numpy().tolist() == [2 * 3 - 2] * 3
    advance(dataclasses.replace(s, scaled=False), 0.125)
    assert len(advance.programs) == 2 and s.x.to_numpy().tolist() == [2] * 3


def test_methods_of_a_dataclass() -> None:
    s, out = _state(3), np.zeros(3)
    s.x.fill(5)
    product(s, out)
    assert np.array_equal(out, [10, 10, 10])


def test_a_number_of_the_launch_is_not_static() -> None:
    @sg.kernel
    def k(s: State):  # type: ignore[no-untyped-def]
        for i in sg.static(range(int(s.inner.offset))):
            s.x[i] = 1.0

    with pytest.raises(sg.KernelTypeError, match="known at launch only"):
        k(_state(3))


def test_a_dataclass_of_the_wrong_class_or_member() -> None:
    with pytest.raises(sg.KernelTypeError, match="is no State"):
        advance(3, 0.1)
    wrong = State(np.zeros((2, 2)), _state(2).inner, 1)
    with pytest.raises(sg.KernelTypeError, match="its member x: an array with 2 axes is given where 1"):
        advance(wrong, 0.1)


def test_templates_die_as_if_there_were_no_kernel() -> None:
    class Anything:
        n = 2

    @sg.kernel
    def k(x: sg.template(), y: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for i in x:
            x[i] += y.n

    x, y = sg.field(sg.f64, 3, needs_grad=True), Anything()
    k(x, y)
    k.grad(x, y)
    dead = [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [ref() for ref in dead] == [None, None] and k.programs == ()


def test_arguments_without_a_type_are_refused() -> None:
    @sg.kernel
    def untyped(x):  # type: ignore[no-untyped-def]
        x[0] = 1.0

    @sg.kernel
    def variadic(*x: sg.f32):  # type: ignore[no-untyped-def, valid-type]
        pass

    with pytest.raises(sg.KernelSyntaxError, match="`sg.template\\(\\)`"):
        untyped(1)
    with pytest.raises(sg.KernelSyntaxError, match="takes `\\*x`"):
        variadic(1.0)


def test_kernels_traced_for_their_arguments_have_no_ir_before_a_launch() -> None:
    @sg.kernel
    def k(x: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        x[0] = 1.0

    with pytest.raises(sg.UsageError, match="was not launched"):
        k.ir()
    k(sg.field(sg.f64, 1))
    assert k.ir().name == "k" and len(k.lowered().writes) == 1


def test_a_captured_field_as_template() -> None:
    shared = sg.field(sg.f64, 3, needs_grad=True)
    shared.fill(2)

    @sg.kernel
    def k(x: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for i in x:
            x[i] += 2 * shared[i]

    k(shared)
    assert np.array_equal(shared.to_numpy(), [6, 6, 6])
    shared.grad.fill(1)
    k.grad(shared)
    assert np.array_equal(shared.grad.to_numpy(), [3, 3, 3])


def test_dictionaries_and_host_structs_by_content() -> None:
    kind = sg.types.struct(m=sg.f64, v=sg.types.vector(2, sg.f64))

    @sg.kernel
    def k(options: sg.template(), s: sg.template()) -> sg.f64:  # type: ignore[valid-type]
        return options["n"] * s.m + s.v[1]

    options, s = {"n": 2}, kind(m=3.0, v=[0.0, 0.5])
    assert k(options, s) == 6.5
    options["n"], s.m = 4, 1.0
    assert k(options, s) == 4.5
    s.v[1] = 8.0
    assert k(options, s) == 12


def test_numbers_of_numpy_are_numbers() -> None:
    @sg.kernel
    def k(n: sg.template()) -> sg.i32:  # type: ignore[valid-type]
        total = 0
        for i in sg.static(range(n)):
            total += i
        return total

    assert k(np.int64(4)) == k(4) == 6 and len(k.programs) == 1


def test_a_frozen_dataclass_again_and_with_another_number() -> None:
    s = _state(3)
    for dt in (0.125, 0.25, 0.125):
        advance(s, dt)
    assert s.x.to_numpy().tolist() == [2 * (0.5 * 20 + 3 * 0.5)] * 3
    assert advance.stats().launches == 3


def test_types_that_are_local_to_a_function() -> None:
    pair = sg.types.vector(2, sg.f64)

    @dataclasses.dataclass(frozen=True)
    class Local:
        x: sg.types.ndarray()  # type: ignore[valid-type]

    @sg.kernel
    def k(s: Local, by: pair) -> pair:  # type: ignore[valid-type]
        for i in s.x:
            s.x[i] += by[0]
        return 2.0 * by

    x = np.zeros(2)
    assert k(Local(x), [1.0, 2.0]).to_numpy().tolist() == [2, 4] and x.tolist() == [1, 1]


def test_a_data_oriented_dataclass_is_an_object() -> None:
    @sg.data_oriented
    @dataclasses.dataclass
    class Sizes:
        n: int
        scale: sg.f64  # type: ignore[valid-type]

        @sg.kernel
        def total(self) -> sg.f64:  # type: ignore[valid-type]
            s = 0.0
            for _ in sg.static(range(self.n)):
                s += sg.static(self.scale)
            return s

    sizes = Sizes(3, 1.5)
    assert sizes.total() == 4.5
    sizes.scale = 2.0
    assert sizes.total() == 6


def test_a_class_as_annotation() -> None:
    class Solver:
        n = 4

    @sg.kernel
    def k(s: Solver) -> sg.i32:  # type: ignore[valid-type]
        return s.n

    assert k(Solver()) == 4
    with pytest.raises(sg.KernelTypeError, match="the parameter s: int 3 is no Solver"):
        k(3)


def test_a_number_that_changes_as_a_template_is_warned_of() -> None:
    @sg.kernel
    def k(dt: sg.template()) -> sg.f64:  # type: ignore[valid-type]
        return dt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(64):
            assert k(step + 0.5) == step + 0.5
        with pytest.raises(sg.KernelWarning, match="the 65th kind of arguments"):
            k(0.25)
