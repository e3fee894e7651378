"""Define objects that a program creates anew for each launch, such as methods, closures, iterators and arguments."""

from __future__ import annotations

import enum
import functools
import itertools
import linecache
import operator
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import stackgrad as sg

COUNT = 3
_FILES = itertools.count()
Pair = namedtuple("Pair", "first second")


class Color(enum.Enum):
    RED = 1.0
    BLUE = 2.0


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Options:
    value: float


@dataclass(slots=True)
class SlottedOptions:
    value: float


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def give(self) -> float:
        return self.value


class Plain:
    """Represent a plain Python object, which a test creates for each launch or keeps."""

    shared = 1.0

    def __init__(self, value: Any) -> None:
        self.value = value

    def give(self) -> Any:
        return self.value

    def __call__(self) -> Any:
        return self.value

    @property
    def same(self) -> Any:
        return self.value

    @classmethod
    def of_class(cls) -> float:
        return cls.shared

    @staticmethod
    def of_nothing() -> float:
        return Plain.shared

    @sg.func
    def scaled(self, v):  # type: ignore[no-untyped-def]
        return v * self.value


class Extents(tuple[int, ...]):
    """Represent the shape of a tensor of another library, a subclass of tuple."""


class Tensor:
    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def shape(self) -> Extents:
        return Extents((self.count,))

    def size(self) -> Extents:
        return Extents((self.count,))


def passed(v: float) -> float:
    return v


def times(factor: float) -> Callable[[float], float]:
    def closure(v):  # type: ignore[no-untyped-def]
        return v * factor

    return closure


def of_module() -> Callable[[float], float]:
    """Return a new function that reads a name of this module."""
    return lambda v: v * number  # type: ignore[name-defined]  # noqa: F821


class Base:
    number: float

    def inherited(self) -> float:
        return self.number


@sg.data_oriented
class Holder(Base):
    """Represent the object `self` of the kernels; each property creates a new object at each read."""

    shared = 1.0

    def __init__(self) -> None:
        self.x, self.y = (sg.field(sg.f64, COUNT, needs_grad=True) for _ in range(2))
        self.x.fill(1.0)
        self.number, self.plain, self.slotted = 1.0, Plain(1.0), Slotted(1.0)
        self.table, self.objects = {"key": 1.0, "other": 5.0}, {"key": Plain(1.0)}
        self.color, self.level, self.list, self.array = Color.RED, Level.LOW, [Plain(1.0), Plain(4.0)], np.ones(2)
        self.tensor = Tensor(1)

    def method(self) -> float:
        return self.number

    @classmethod
    def of_class(cls) -> float:
        return cls.shared

    @staticmethod
    def of_nothing() -> float:
        return Holder.shared

    @sg.func
    def scaled(self, v):  # type: ignore[no-untyped-def]
        return v * self.number

    def box(self) -> Any:
        return sg.ndrange(int(self.number), 1)

    def make(self) -> Plain:
        return Plain(self.number)

    def closures(self) -> list[Any]:
        return [times(self.number)]

    a_partial = property(lambda self: functools.partial(passed, self.number))
    a_list = property(lambda self: [self.number, 0.0])
    a_tuple = property(lambda self: (self.number, 0.0))
    a_dict = property(lambda self: {"key": self.number})
    some_options = property(lambda self: Options(self.number))
    slotted_options = property(lambda self: SlottedOptions(self.number))
    a_slotted = property(lambda self: Slotted(self.number))
    a_pair = property(lambda self: Pair(self.number, 0.0))
    a_vector = property(lambda self: sg.Vector([self.number, 0.0]))
    a_closure = property(lambda self: times(self.number))
    a_method = property(lambda self: Plain(self.number).give)
    a_bound_func = property(lambda self: Plain(self.number).scaled)
    a_func = property(lambda self: sg.func(times(self.number)))
    a_plain = property(lambda self: Plain(self.number))
    plains = property(lambda self: [Plain(self.number)])
    nested = property(lambda self: (Plain(Options(self.number)),))
    a_set = property(lambda self: {self.number})
    a_space = property(lambda self: SimpleNamespace(value=self.number))
    a_zip = property(lambda self: zip([self.number], [0.0]))
    an_array = property(lambda self: np.array([self.number]))
    a_range = property(lambda self: range(int(self.number)))
    a_deque = property(lambda self: deque([self.number]))
    a_fraction = property(lambda self: Fraction(self.number))
    some_items = property(lambda self: {"key": self.number}.items())
    a_getter = property(lambda self: operator.itemgetter(int(self.number) - 1))

    @property
    def a_lambda(self) -> Callable[[float], float]:
        return lambda v: v * self.number

    @property
    def a_generator(self) -> Iterator[float]:
        return (v for v in [self.number])

    def __getattr__(self, name: str) -> Any:
        if name == "made_up":
            return [self.number]
        raise AttributeError(name)


Change = Callable[[Holder], None]


def _number(holder: Holder) -> None:
    holder.number = 2.0


def _of(path: str, name: str, value: Any = 2.0) -> Change:
    return lambda holder: setattr(operator.attrgetter(path)(holder) if path else holder, name, value)


def _holder_class(holder: Holder) -> None:
    Holder.shared = 2.0


def _plain_class(holder: Holder) -> None:
    Plain.shared = 2.0


def _item(holder: Holder) -> None:
    holder.table["key"] = 2.0


def _object(holder: Holder) -> None:
    holder.objects["key"].value = 2.0


def _first(holder: Holder) -> None:
    holder.list[0].value = 2.0


READ: dict[str, tuple[str, Change]] = {
    "method": ("sg.static(self.method())", _number),
    "method, inlined": ("self.method()", _number),
    "method as a value": ("sg.static(self.method)()", _number),
    "method of an object": ("sg.static(self.plain.give())", _of("plain", "value")),
    "method of an object, inlined": ("self.plain.give()", _of("plain", "value")),
    "method of an object with slots": ("sg.static(self.slotted.give())", _of("slotted", "value")),
    "method of a base": ("self.inherited()", _number),
    "super": ("sg.static(super(Holder, self).inherited())", _number),
    "func": ("self.scaled(1.0)", _number),
    "class method": ("sg.static(self.of_class())", _holder_class),
    "class method, inlined": ("self.of_class()", _holder_class),
    "class method of a name": ("Plain.of_class()", _plain_class),
    "class method of an object": ("self.plain.of_class()", _plain_class),
    "static method": ("sg.static(self.of_nothing())", _holder_class),
    "static method, inlined": ("self.of_nothing()", _holder_class),
    "class attribute": ("self.plain.shared", _plain_class),
    "class attribute of the type": ("sg.static(type(self).shared)", _holder_class),
    "dictionary of a class": ("sg.static(vars(Plain)['shared'])", _plain_class),
    "dictionary of an object": ("sg.static(vars(self.plain)['value'])", _of("plain", "value")),
    "callable": ("sg.static(self.plain())", _of("plain", "value")),
    "partial": ("sg.static(self.a_partial())", _number),
    "partial as a value": ("sg.static(sg.static(self.a_partial)())", _number),
    "partial in static": ("sg.static(functools.partial(passed, self.number)())", _number),
    "list": ("self.a_list[0]", _number),
    "list in static": ("sg.static(self.a_list)[0]", _number),
    "tuple": ("self.a_tuple[0]", _number),
    "dictionary": ("self.a_dict['key']", _number),
    "values of a dictionary": ("sg.static(sum(self.a_dict.values()))", _number),
    "dataclass": ("self.some_options.value", _number),
    "dataclass with slots": ("self.slotted_options.value", _number),
    "object with slots": ("self.a_slotted.value", _number),
    "object with slots, method": ("self.a_slotted.give()", _number),
    "named tuple": ("self.a_pair.first", _number),
    "vector": ("self.a_vector[0]", _number),
    "lambda": ("self.a_lambda(1.0)", _number),
    "lambda in static": ("sg.static(self.a_lambda(1.0))", _number),
    "lambda of the expression": ("sg.static(lambda v: v * self.number)(1.0)", _number),
    "closure": ("self.a_closure(1.0)", _number),
    "closure as a value": ("sg.static(self.a_closure)(1.0)", _number),
    "closure in a list": ("sg.static(self.closures())[0](1.0)", _number),
    "func that is made": ("self.a_func(1.0)", _number),
    "method of an object that is made": ("self.a_method()", _number),
    "func of an object that is made": ("self.a_bound_func(1.0)", _number),
    "object": ("self.a_plain.value", _number),
    "object, method": ("self.a_plain.give()", _number),
    "object, property": ("self.a_plain.same", _number),
    "object, call": ("sg.static(self.a_plain())", _number),
    "objects in a list": ("self.plains[0].give()", _number),
    "objects in objects": ("self.nested[0].value.value", _number),
    "method that returns an object": ("sg.static(self.make()).give()", _number),
    "namespace": ("self.a_space.value", _number),
    "set": ("sg.static(sum(self.a_set))", _number),
    "zip": ("sg.static(self.a_zip)[0][0]", _number),
    "zip in static": ("sg.static(list(self.a_zip)[0][0])", _number),
    "generator": ("sg.static(self.a_generator)[0]", _number),
    "generator expression": ("sg.static(sum(o.value for o in self.list[:1]))", _first),
    "zip of objects": ("sg.static([o.value for o, k in zip(self.list, (1, 2))])[0]", _first),
    "enumerate": ("sg.static([(k, o) for k, o in enumerate(self.list)])[0][1].value", _first),
    "map": ("sg.static(list(map(lambda o: o.value, self.list))[0])", _first),
    "sorted": ("sg.static(sorted(self.list, key=lambda o: o.value)[0]).value", _first),
    "range": ("len(self.a_range)", _number),
    "box": ("sg.static(self.box().axes[0][1]) * 1.0", _number),
    "array": ("self.an_array[0]", _number),
    "array method": ("sg.static(self.array.copy())[0]", lambda holder: holder.array.__setitem__(0, 2.0)),
    "shape of a tensor": ("sg.static(self.tensor.shape[0]) * 1.0", _of("tensor", "count", 2)),
    "size of a tensor": ("sg.static(self.tensor.size()[0]) * 1.0", _of("tensor", "count", 2)),
    "deque": ("self.a_deque[0]", _number),
    "fraction": ("sg.static(float(sg.static(self.a_fraction)))", _number),
    "view of a dictionary": ("sg.static(list(sg.static(self.some_items))[0][1])", _number),
    "items of a dictionary": ("sg.static([v for k, v in self.table.items()][0])", _item),
    "objects of a dictionary": ("sg.static(list(self.objects.values()))[0].value", _object),
    "item getter": ("sg.static(self.a_getter((1.0, 2.0)))", _number),
    "made up": ("self.made_up[0]", _number),
    "text": ("sg.static(getattr(self, f'{chr(110)}umber'))", _number),
    "enum": ("self.color.value", _of("", "color", Color.BLUE)),
    "enum by name": ("sg.static(Color[self.color.name].value)", _of("", "color", Color.BLUE)),
    "enum in static": ("sg.static(1.0 if self.color is Color.RED else 2.0)", _of("", "color", Color.BLUE)),
    "enum of integers": ("self.level * 1.0", _of("", "level", Level.HIGH)),
}
"""Texts that read 1 of a holder through an object that is new at each look, and what makes them read 2."""

GIVEN: dict[str, tuple[Callable[[float], Any], str]] = {
    "number": (float, "a"),
    "tuple": (lambda v: (v, 0.0), "a[0]"),
    "named tuple": (lambda v: Pair(v, 0.0), "a.first"),
    "list of objects": (lambda v: [Plain(v)], "a[0].give()"),
    "range": (lambda v: range(int(v)), "len(a)"),
    "set": (lambda v: frozenset([v]), "sg.static(sum(a))"),
    "box": (lambda v: sg.ndrange(int(v), 1), "sg.static(a.axes[0][1]) * 1.0"),
    "complex number": (complex, "sg.static(a.real)"),
    "type of elements": (lambda v: np.dtype([("a", "f8", int(v))]), "sg.static(a.itemsize) / 8"),
    "enum": (Color, "a.value"),
    "dataclass": (Options, "a.value"),
    "dataclass with slots": (SlottedOptions, "a.value"),
    "object": (Plain, "a.value"),
    "object, method": (Plain, "a.give()"),
    "object, property": (Plain, "a.same"),
    "object, in static": (Plain, "sg.static(a.give())"),
    "object, class attribute": (Plain, "a.value * a.shared"),
    "object in an object": (lambda v: Plain(Plain(v)), "a.value.give()"),
    "object with slots": (Slotted, "a.give()"),
    "namespace": (lambda v: SimpleNamespace(value=v), "a.value"),
    "vector": (lambda v: sg.Vector([v, 0.0]), "a[0]"),
    "array": (lambda v: np.array([v]), "a[0]"),
    "object with an array": (lambda v: Plain(np.array([v])), "a.value[0]"),
    "closure": (times, "a(1.0)"),
    "closure in static": (times, "sg.static(a(1.0))"),
    "func": (lambda v: sg.func(times(v)), "a(1.0)"),
    "method": (lambda v: Plain(v).give, "a()"),
    "func of an object": (lambda v: Plain(v).scaled, "a(1.0)"),
    "partial": (lambda v: functools.partial(passed, v), "sg.static(a())"),
    "deque": (lambda v: deque([v]), "sg.static(a[0])"),
    "fraction": (Fraction, "sg.static(float(a))"),
}
"""Functions that make a new argument from a number, and texts that read the number from the argument `a`."""

_METHOD = """
class Made(Holder):
    @sg.kernel
    def run(self{parameter}):
        for i in self.x:
            self.y[i] = self.x[i] * ({text})
"""
_FUNCTION = """
@sg.kernel
def run(x: sg.template(), y: sg.template(){parameter}):
    for i in x:
        y[i] = x[i] * ({text})
"""


def defined(text: str, parameter: str = "", is_method: bool = True) -> dict[str, Any]:
    """Return the names of a new module with a kernel `run` that multiplies by the value of a text."""
    Holder.shared = Plain.shared = 1.0
    names, source = {**globals()}, (_METHOD if is_method else _FUNCTION).format(text=text, parameter=parameter)
    file = f"<fresh {next(_FILES)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names
