"""Define ways in which a kernel reads a number of the program, and programs that change it between launches.

A *source* is an expression that gives a number: an attribute, an element of an array, the result of a function. Kernels
are made as text from drawn sources; Python evaluates the same text, which gives the expected results.
"""

from __future__ import annotations

import functools
import itertools
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import stackgrad as sg
from hypothesis import strategies as st

COUNT = 3
_FILES = itertools.count()


class Inner:
    """Hold a number; the class has a method and a class attribute."""

    shared = 1.0

    def __init__(self) -> None:
        self.value = 1.0

    def give(self) -> float:
        return self.value

    def __call__(self) -> float:
        return self.value


class Slotted:
    """An object that allows no weak reference."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 1.0


class Asked:
    """An object whose attributes are computed by `__getattr__`."""

    def __init__(self) -> None:
        self.content = {"value": 1.0}

    def __getattr__(self, name: str) -> float:
        try:
            return self.__dict__["content"][name]
        except KeyError:
            raise AttributeError(name) from None


class Table:
    """An object with items and a length."""

    def __init__(self) -> None:
        self.items = [1.0]

    def __getitem__(self, key: str) -> float:
        return self.items[0]

    def __len__(self) -> int:
        return int(self.items[0])


@sg.data_oriented
class Holder:
    """Represent the object `self` of the kernels."""

    constant = 1.0

    def __init__(self) -> None:
        self.x, self.y = (sg.field(sg.f64, COUNT, needs_grad=True) for _ in range(2))
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        self.x.from_numpy(np.array([0.5, -1.25, 2.0]))
        self.number, self.list, self.table = 1.0, [0.0, 1.0], {"value": 1.0}
        self.array, self.large, self.arrays = np.ones(2), np.ones(100), [np.zeros(1), np.ones(2)]
        self.inner, self.slotted, self.asked, self.items = Inner(), Slotted(), Asked(), Table()
        self.objects = [Inner(), Inner()]
        self.tuple = (0.0, Inner())
        self.partial = functools.partial(dict.get, self.table, "value")
        self.function: Callable[[], float] = lambda: self.number
        self.vector, self.struct = sg.Vector([1.0, 0.0]), SimpleNamespace(deep=SimpleNamespace(value=1.0))

    @property
    def computed(self) -> float:
        return self.inner.value

    @property
    def made(self) -> Any:
        return SimpleNamespace(value=self.inner.value)

    def method(self) -> float:
        return self.number

    @classmethod
    def of_class(cls) -> float:
        return cls.constant

    @sg.func
    def scaled(self, v):  # type: ignore[no-untyped-def]
        return v * self.number


@dataclass(frozen=True)
class Source:
    """A way to read a number: the text in the kernel, and a function that changes the number."""

    text: str
    change: Callable[[Holder, dict[str, Any], float], None]


def _item(holder: str, key: Any) -> Callable[[Holder, dict[str, Any], float], None]:
    return lambda h, names, v: getattr(h, holder).__setitem__(key, v)


def _attribute(path: str) -> Callable[[Holder, dict[str, Any], float], None]:
    def change(h: Holder, names: dict[str, Any], v: float) -> None:
        owner: Any = h
        *way, last = path.split(".")
        for name in way:
            owner = getattr(owner, name)
        setattr(owner, last, v)

    return change


def _named(name: str, make: Callable[[float], Any] = float) -> Callable[[Holder, dict[str, Any], float], None]:
    return lambda h, names, v: names.__setitem__(name, make(v))


def _object(take: Callable[[Holder, dict[str, Any]], Any], name: str) -> Callable[..., None]:
    return lambda h, names, v: setattr(take(h, names), name, v)


OF_SELF: dict[str, Source] = {
    "attribute": Source("self.number", _attribute("number")),
    "nested": Source("self.struct.deep.value", _attribute("struct.deep.value")),
    "method": Source("sg.static(self.method())", _attribute("number")),
    "class method": Source("sg.static(self.of_class())", lambda h, n, v: setattr(Holder, "constant", v)),
    "class attribute": Source("self.constant", lambda h, n, v: setattr(Holder, "constant", v)),
    "attribute of a class inside": Source("self.inner.shared", lambda h, n, v: setattr(Inner, "shared", v)),
    "lambda": Source("sg.static(self.function())", _attribute("number")),
    "another lambda": Source("sg.static(self.function())", lambda h, n, v: setattr(h, "function", lambda: v)),
    "callable": Source("sg.static(self.inner())", _attribute("inner.value")),
    "method inside": Source("sg.static(self.inner.give() + 0.0)", _attribute("inner.value")),
    "partial": Source("sg.static(self.partial())", _item("table", "value")),
    "array": Source("self.array[1]", _item("array", 1)),
    "array in static": Source("sg.static(float(self.array[1]))", _item("array", 1)),
    "array as a vector": Source("self.array.sum()", _item("array", 1)),
    "sum in static": Source("sg.static(float(self.array.sum()))", _item("array", 0)),
    "large array": Source("self.large[70]", _item("large", 70)),
    "list": Source("self.list[1]", _item("list", 1)),
    "list in static": Source("sg.static(sum(self.list))", _item("list", 1)),
    "table": Source("self.table['value']", _item("table", "value")),
    "list of arrays": Source("self.arrays[1][1]", lambda h, n, v: h.arrays[1].__setitem__(1, v)),
    "list of objects": Source("self.objects[1].value", lambda h, n, v: setattr(h.objects[1], "value", v)),
    "comprehension": Source(
        "sg.static(sum([o.value for o in self.objects]))", lambda h, n, v: setattr(h.objects[0], "value", v)
    ),
    "object in a tuple": Source("sg.static(self.tuple[1].value)", lambda h, n, v: setattr(h.tuple[1], "value", v)),
    "property": Source("self.computed", _attribute("inner.value")),
    "object that is made": Source("self.made.value", _attribute("inner.value")),
    "object that is made, in static": Source("sg.static(self.made).value", _attribute("inner.value")),
    "slots": Source("self.slotted.value", _attribute("slotted.value")),
    "made up": Source("self.asked.value", lambda h, n, v: h.asked.content.__setitem__("value", v)),
    "item": Source("self.items['any']", lambda h, n, v: h.items.items.__setitem__(0, v)),
    "length": Source("len(self.items)", lambda h, n, v: h.items.items.__setitem__(0, round(v))),
    "function of the class": Source("self.scaled(1.0)", _attribute("number")),
    "host vector": Source("self.vector[0]", _item("vector", 0)),
    "getattr": Source("sg.static(getattr(self, 'number'))", _attribute("number")),
    "lambda in static": Source("sg.static((lambda: self.number)())", _attribute("number")),
}
"""Numbers that a kernel reaches through its object."""

NAMED: dict[str, Source] = {
    "name": Source("number", _named("number")),
    "array by name": Source("array[0]", lambda h, n, v: n["array"].__setitem__(0, v)),
    "another array": Source("array[0]", _named("array", lambda v: np.full(2, v))),
    "list by name": Source("items[0]", lambda h, n, v: n["items"].__setitem__(0, v)),
    "table by name": Source("table['value']", lambda h, n, v: n["table"].__setitem__("value", v)),
    "object by name": Source("inner.value", _object(lambda h, n: n["inner"], "value")),
    "another object": Source("inner.value", lambda h, n, v: n.__setitem__("inner", SimpleNamespace(value=v))),
    "callable by name": Source("sg.static(inner())", _object(lambda h, n: n["inner"], "value")),
    "lambda by name": Source("sg.static(function())", lambda h, n, v: n["table"].__setitem__("value", v)),
    "another function": Source("sg.static(function())", lambda h, n, v: n.__setitem__("function", lambda: v)),
    "default": Source("sg.static(defaulted())", lambda h, n, v: n["defaulted"].__defaults__[0].__setitem__(0, v)),
    "partial by name": Source("sg.static(partial())", lambda h, n, v: n["table"].__setitem__("value", v)),
    "class by name": Source("Inner.shared", lambda h, n, v: setattr(Inner, "shared", v)),
    "inlined": Source("helper(1.0)", _named("number")),
    "default of an inlined function": Source(
        "with_default(1.0)", lambda h, n, v: n["with_default"].function.__defaults__[0].__setitem__(0, v)
    ),
    "numpy scalar": Source("number", _named("number", np.float64)),
}
"""Numbers that a kernel reaches through names."""

SOURCES = {**OF_SELF, **NAMED}

_TEXT = """
def defaulted(values=[1.0]):
    return values[0]

def helping(v):
    return v * number

def defaulting(v, values=[1.0]):
    return v * values[0]

helper, with_default = sg.func(helping), sg.func(defaulting)

class Made(Base):
    @sg.kernel
    def run(self):
        for i in self.x:
            self.y[i] += self.x[i] * ({expression})
"""


class Program:
    """A kernel that reads several numbers, with the objects that hold them and the expected result."""

    def __init__(self, sources: list[str]) -> None:
        self.sources = [SOURCES[name] for name in sources]
        Holder.constant = Inner.shared = 1.0
        table = {"value": 1.0}
        self.names: dict[str, Any] = {
            "sg": sg,
            "number": 1.0,
            "array": np.ones(2),
            "items": [1.0],
            "table": table,
            "inner": Inner(),
            "Inner": Inner,
            "function": lambda: table["value"],
            "partial": functools.partial(table.get, "value"),
            "Base": Holder,
        }
        self.text = _TEXT.format(expression=" + ".join(f"{k + 2}.0 * {s.text}" for k, s in enumerate(self.sources)))
        self._define(self.names)
        self.holder = self.names["Made"]()
        self.kernel = self.holder.run

    def _define(self, names: dict[str, Any]) -> None:
        file = f"<constants {next(_FILES)}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        exec(compile(self.text, file, "exec", dont_inherit=True), names)

    def change(self, which: int, value: float) -> None:
        """Change the number that one of the sources reads."""
        self.sources[which % len(self.sources)].change(self.holder, self.names, value)

    def right(self, how: str) -> list[str]:
        """Return the expected result of a launch, computed by Python, which is exact for these numbers."""
        given = {**self.names, "self": self.holder}
        factor = sum((k + 2.0) * eval(source.text, given) for k, source in enumerate(self.sources))
        return in_words(0.25 + self.holder.x.to_numpy() * factor if how == "forward" else np.full(COUNT, factor))

    def anew(self) -> Any:
        """Return a new kernel over the same objects, which was never launched."""
        text = self.text[self.text.index("class Made") :].replace("class Made(Base)", "class Again(Base)")
        file = f"<constants {next(_FILES)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec", dont_inherit=True), self.names)
        return functools.partial(self.names["Again"].run, self.holder), self.names["Again"].run


def in_words(values: np.ndarray) -> list[str]:
    """Return the bits of numbers."""
    return [float(v).hex() for v in values]


def observed(holder: Holder, launch: Callable[[], None], grad: Callable[[], None], how: str) -> list[str]:
    """Return the results of a launch of one kind: values, gradients or tangents."""
    holder.y.fill(0.25)
    sg.ad.clear_all_gradients()
    if how == "forward":
        launch()
        return in_words(holder.y.to_numpy())
    if how == "gradient":
        holder.y.grad.fill(1.0)
        grad()
        return in_words(holder.x.grad.to_numpy())
    if how == "tape":
        with sg.ad.Tape(holder.y, seed=np.ones(COUNT)):
            launch()
        return in_words(holder.x.grad.to_numpy())
    with sg.ad.FwdMode(loss=holder.y, param=holder.x, seed=[1.0] * COUNT):
        launch()
    return in_words(holder.y.dual.to_numpy())


HOW = ("forward", "gradient", "tape", "forward mode")


# ---- drawn programs -------------------------------------------------------------------------------------------------

VALUES = (0.5, 1.0, 2.0, 3.0)


@dataclass(frozen=True)
class Step:
    """A step of a program: the source that changes first, if any, and the launches that follow."""

    which: int | None
    value: float
    how: str
    times: int = 1


def run(sources: list[str], steps: list[Step], anew: bool = False) -> str:
    """Run a program; return "" if each launch gave Python's result at that moment, else the difference.

    If `anew` is True, a kernel that is traced at that moment must give the same result, too.
    """
    program = Program(sources)
    for number, step in enumerate(steps):
        if step.which is not None:
            program.change(step.which, step.value)
        right = program.right(step.how)
        for _ in range(step.times):
            found = observed(program.holder, program.kernel, program.kernel.grad, step.how)
            if found != right:
                break
        if found != right:
            return f"step {number}, {step}: {found}, and right is {right}"
        if anew:
            launch, kernel = program.anew()
            again = observed(program.holder, launch, functools.partial(kernel.grad, program.holder), step.how)
            assert again == right, f"traced anew, the kernel gives {again}, and right is {right}"
    return ""


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[str], list[Step]]:
    """Yield programs with some sources and changes; after a few launches of a kind, ready launches exist."""
    sources = draw(st.lists(st.sampled_from(sorted(SOURCES)), min_size=1, max_size=3, unique=True))
    step = st.builds(
        Step,
        st.none() | st.integers(0, len(sources) - 1),
        st.sampled_from(VALUES),
        st.sampled_from((*HOW, "forward", "gradient")),
        st.sampled_from((1, 2, 6)),
    )
    return sources, draw(st.lists(step, min_size=2, max_size=6))
