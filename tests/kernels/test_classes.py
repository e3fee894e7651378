"""Kernels and functions of classes: what they see of the object, when they are traced again, what lives how long."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import stackgrad as sg


class Settings:
    def __init__(self, dt: float) -> None:
        self.dt = dt


@sg.data_oriented
class Base:
    def __init__(self, n: int = 3) -> None:
        self.n = n
        self.settings = Settings(0.5)
        self.weights = [1.0, 2.0]
        self.steps = 0
        self.x = sg.field(sg.f64, n, needs_grad=True)
        self.loss = sg.field(sg.f64, (), needs_grad=True)

    @sg.func
    def force(self, v):  # type: ignore[no-untyped-def]
        return self.settings.dt * v * v

    @property
    def half(self) -> float:
        return self.n / 2

    @staticmethod
    @sg.func
    def twice(v):  # type: ignore[no-untyped-def]
        return 2 * v

    @sg.kernel
    def total(self, factor: sg.f64):  # type: ignore[no-untyped-def, valid-type]
        for i in range(self.n):
            self.loss[None] += factor * self.twice(self.force(self.x[i]))

    @sg.kernel
    def halves(self) -> sg.f64:  # type: ignore[valid-type]
        return self.half + self.weights[1]


@sg.data_oriented
class Derived(Base):
    @sg.func
    def force(self, v):  # type: ignore[no-untyped-def]
        return v * v * v

    @sg.kernel
    def fill(self, value: sg.f64, other: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        for i in self.x:
            self.x[i] = value + other.n


def test_a_method_sees_fields_numbers_and_functions_of_its_object() -> None:
    s = Base()
    s.x.from_numpy(np.array([1.0, 2.0, 3.0]))
    s.total(3.0)
    assert s.loss[None] == 3 * 2 * 0.5 * 14
    s.loss.grad.fill(1)
    s.total.grad(3.0)
    assert np.array_equal(s.x.grad.to_numpy(), 3 * 2 * 0.5 * 2 * np.array([1, 2, 3]))
    assert s.halves() == 3.5


def test_a_tape_records_methods() -> None:
    s = Base()
    s.x.fill(2)
    with sg.ad.Tape(s.loss):
        s.total(factor=1.0)
        s.total(2.0)
    assert s.x.grad.to_numpy().tolist() == [(1 + 2) * 2 * 0.5 * 2 * 2] * 3


def test_inherited_and_overridden_methods_and_objects_as_arguments() -> None:
    s = Derived()
    s.fill(1.0, Base(7))
    assert np.array_equal(s.x.to_numpy(), [8, 8, 8])
    s.total(1.0)
    assert s.loss[None] == 2 * 3 * 8**3
    s.fill(1.0, s)
    assert np.array_equal(s.x.to_numpy(), [4, 4, 4])


def test_each_object_has_its_own() -> None:
    a, b = Base(2), Base(4)
    for s in (a, b):
        s.x.fill(1)
        s.total(1.0)
    assert (a.loss[None], b.loss[None]) == (2, 4)
    assert len(Base.total.programs) == 2


def test_functions_of_classes_are_python_outside_kernels() -> None:
    assert Base().force(3.0) == 4.5 and Base.twice(4) == 8


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: setattr(s, "n", 5), 2.5 + 2),
        (lambda s: s.weights.__setitem__(1, 9.0), 1.5 + 9),
        (lambda s: setattr(s, "weights", (0.0, 1.0)), 1.5 + 1),
    ],
)
def test_a_change_of_the_object_is_seen(change: Any, expected: float) -> None:
    s = Base()
    assert s.halves() == 3.5
    change(s)
    assert s.halves() == expected


def test_a_change_deep_inside_and_a_new_field_are_seen() -> None:
    s = Base()
    s.x.fill(1)
    s.total(1.0)
    s.settings.dt = 10.0
    s.total(1.0)
    assert s.loss[None] == 3 + 60
    s.settings = Settings(0.0)
    s.total(1.0)
    assert s.loss[None] == 63
    s.settings.dt, s.loss = 0.5, sg.field(sg.f64, (), needs_grad=True)
    s.total(1.0)
    assert s.loss[None] == 3


def test_what_a_kernel_does_not_use_may_change() -> None:
    s = Base()
    s.total(1.0)
    program = s.total.program()
    s.steps += 1
    s.weights[0] = 7.0
    s.total(1.0)
    assert s.total.program() is program and len(Base.total.programs) == 1


def test_objects_and_their_fields_die_as_if_there_were_no_kernel() -> None:
    s = Base()
    s.total(1.0)
    s.total.grad(1.0)
    dead = [weakref.ref(s), weakref.ref(s.x)]
    del s
    gc.collect()
    assert [ref() for ref in dead] == [None, None]
    assert Base.total.programs == ()


def test_methods_know_their_kernel() -> None:
    s = Base()
    s.total(1.0)
    assert s.total.ir().name == "total" and s.total.stats().launches == 1
    assert repr(s.total) == "<sg.kernel total of Base>" and Base.total.stats().launches == 1


def test_mistakes_in_a_call_of_a_method() -> None:
    s = Base()
    with pytest.raises(sg.KernelTypeError, match=r"kernel total: takes 2 arguments, got 1"):
        s.total()
    with pytest.raises(sg.KernelTypeError, match="the parameter factor: cannot take str 'a'"):
        s.total("a")
    with pytest.raises(sg.KernelTypeError, match="there is no parameter 'facto'"):
        s.total(facto=1.0)


def test_an_unknown_attribute_is_located() -> None:
    class Wrong:
        @sg.kernel
        def k(self):  # type: ignore[no-untyped-def]
            self.y[None] = 1.0

    with pytest.raises(sg.KernelSyntaxError, match="has no attribute `y`") as caught:
        Wrong().k()
    assert "self.y" in str(caught.value) and "test_classes.py:" in str(caught.value)


def test_plain_methods_are_inlined_into_kernels() -> None:
    class Plain:
        def helper(self) -> float:
            return 1.0

        @sg.kernel
        def k(self) -> sg.f64:  # type: ignore[valid-type]
            return self.helper()

    assert Plain().k() == 1.0


def test_pyfunc_works_in_both_scopes() -> None:
    @sg.pyfunc
    def square(v):  # type: ignore[no-untyped-def]
        return v * v

    @sg.kernel
    def k(v: sg.f64) -> sg.f64:  # type: ignore[valid-type]
        return square(v)

    assert k(3.0) == square(3.0) == 9.0


@sg.data_oriented
class Rich:
    """Everything else that an object may hold."""

    table = {"a": 1.0}

    def __init__(self) -> None:
        self.x = sg.field(sg.f64, 3, needs_grad=True)
        self.out = sg.field(sg.f64, (), needs_grad=True)
        self.v = sg.Vector.field(3, sg.f64, 2, needs_grad=True)
        self.gravity = sg.Vector([0.0, -2.0, 0.0])
        self.fields = [sg.field(sg.f64, 3), sg.field(sg.f64, 3)]

    @property
    @sg.func
    def first(self):  # type: ignore[no-untyped-def]
        return self.x[0] * self.x[0]

    @sg.kernel
    def use_property(self):  # type: ignore[no-untyped-def]
        self.out[None] += 3 * self.first

    @sg.kernel
    def use_vectors(self, dt: float):  # type: ignore[no-untyped-def]
        for i in self.v:
            self.out[None] += (self.v[i] + dt * self.gravity).dot(self.gravity)

    @sg.kernel
    def fill_all(self, value: sg.f64):  # type: ignore[no-untyped-def, valid-type]
        for f in sg.static(self.fields):
            for i in f:
                f[i] = value

    @sg.kernel
    def look_up(self) -> sg.f64:  # type: ignore[valid-type]
        return self.table["a"]

    @classmethod
    @sg.kernel
    def of_class(cls) -> sg.f64:  # type: ignore[valid-type]
        return cls.table["a"] + 1.0

    @staticmethod
    @sg.kernel
    def of_nothing(a: sg.f64) -> sg.f64:  # type: ignore[valid-type]
        return 2 * a

    @sg.kernel
    def calls_a_kernel(self):  # type: ignore[no-untyped-def]
        self.fill_all(1.0)


def test_a_property_that_is_a_function_reads_memory_at_the_launch() -> None:
    s = Rich()
    s.use_property()
    s.x[0] = 4.0
    s.use_property()
    s.out.grad.fill(1)
    s.use_property.grad()
    assert s.out[None] == 48 and s.x.grad[0] == 3 * 2 * 4


def test_host_vectors_and_their_entries_are_seen_as_they_are() -> None:
    s = Rich()
    for entry, expected in ((-2.0, 4.0), (1.0, 1.0)):
        s.gravity[1] = entry
        s.out.fill(0)
        s.use_vectors(0.5)
        assert s.out[None] == expected
    s.out.grad.fill(1)
    s.use_vectors.grad(0.5)
    assert np.array_equal(s.v.grad.to_numpy(), [[0, 1, 0]] * 2)


def test_lists_of_fields_and_their_changes() -> None:
    s = Rich()
    s.fill_all(2.0)
    s.fields[1] = sg.field(sg.f64, 2)
    s.fill_all(3.0)
    assert [f.to_numpy().tolist() for f in s.fields] == [[3, 3, 3], [3, 3]]


def test_attributes_of_the_class_and_methods_without_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Rich()
    assert (s.look_up(), Rich.of_class(), s.of_class(), s.of_nothing(2.0), Rich.of_nothing(1.0)) == (1, 2, 2, 4, 2)
    monkeypatch.setitem(Rich.table, "a", 5.0)
    assert (s.look_up(), Rich.of_class()) == (5, 6)


def test_a_kernel_does_not_call_a_kernel() -> None:
    with pytest.raises(sg.KernelSyntaxError, match=r"the kernel `self.fill_all` is called from a kernel"):
        Rich().calls_a_kernel()


def test_a_destroyed_field_is_not_launched_on() -> None:
    @sg.kernel
    def k(x: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        x[0] = 1.0

    builder = sg.FieldsBuilder()
    x = sg.field(sg.f64)
    builder.dense(sg.i, 3).place(x)
    tree = builder.finalize()
    k(x)
    k(x)
    tree.destroy()
    with pytest.raises(sg.StaleFieldError):
        k(x)
