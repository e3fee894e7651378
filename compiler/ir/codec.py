"""Kernels, and the plain frozen dataclasses around them, as bytes and back: JSON, nothing that could run code.

A source span is written as its number in the table of locations of the kernel that all the rest was made of, so that
a kernel whose lines have moved reads its derivatives back with the lines of today. Invariant: `decode(encode(x, t), t)
== x`, whose spans are those of the table.

A document holds its classes, its values and the value it stands for. An object is a list whose head is a number: a
kind of `_HEADS`, or the place of a class. Where the class says that a field holds values or blocks, heads are left out.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import Span
from .depth import deep
from .nodes import ROLES, Kernel, Value
from .types import SCALARS, Scalar

Spans = Sequence[Span | None]
_PACKAGE = __name__.rpartition(".ir.")[0]
_TUPLE, _VALUE, _SCALAR, _SPAN, _SET, _MAPPING = _HEADS = range(6)
_PLAIN = (str, int, float, bool, type(None))
_PLAIN_NAMES = {"str", "int", "float", "bool", "None"}


class CodecError(ValueError):
    """What cannot be written, or bytes that this version cannot read."""


def set_identity(kernel: Kernel, identity: bytes) -> None:
    """Note what a kernel is: equal identities, made by one version of the compiler, are equal but for their spans."""
    vars(kernel)["identity"] = identity


def identity_of(kernel: Kernel) -> bytes | None:
    """What was noted of this very object; None if nothing was."""
    found: bytes | None = vars(kernel).get("identity")
    return found


def pattern(spans: Spans) -> tuple[int, ...]:
    """Which spans of a table are equal: tables of one pattern take each other's place in what is decoded."""
    first: dict[Span | None, int] = {}
    return tuple([first.setdefault(span, place) for place, span in enumerate(spans)])


@deep
def encode(value: object, spans: Spans = ()) -> bytes:
    """The bytes of a value. spans: of which each span in the value must be one. Raises CodecError."""
    with _without_collections():
        writer = _Writer(spans)
        body = writer.write(value)
        return json.dumps([writer.names, list(writer.values), body], separators=(",", ":")).encode()


@deep
def decode(data: bytes, spans: Spans = ()) -> Any:
    """The value of these bytes, with the spans of this table. Raises CodecError."""
    try:
        with _without_collections():
            names, values, body = json.loads(data)
            return _Reader([_class_of(name) for name in names], values, spans).read(body)
    except CodecError:
        raise
    except Exception as error:
        raise CodecError(f"not a value of this version: {type(error).__name__}: {error}") from error


@contextmanager
def _without_collections() -> Iterator[None]:
    """Thousands of objects are made and none is garbage: looking for some would take longer than making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Field(NamedTuple):
    """kind: "plain" (as JSON has it), "values", "block" or "any"."""

    name: str
    kind: str


def _fields_of(cls: type) -> tuple[_Field, ...]:
    roles = {name: "block" if role == "block" else "values" for name, role in ROLES.get(cls, ())}
    return tuple([_Field(f.name, roles.get(f.name) or _kind_of(f.type)) for f in fields(cls)])


def _kind_of(annotation: Any) -> str:
    is_plain = isinstance(annotation, str) and _PLAIN_NAMES.issuperset(annotation.split(" | "))
    return "plain" if is_plain else "any"


class _Writer:
    def __init__(self, spans: Spans) -> None:
        self.names: list[str] = []
        self.values: dict[tuple[int, str], int] = {}
        self.heads: dict[type, tuple[int, tuple[_Field, ...]]] = {}
        self.places: dict[Span | None, int] = {}
        for place, span in enumerate(spans):
            self.places.setdefault(span, place)
        self.rows: dict[str, Callable[[Any], Any]] = {
            "plain": lambda found: found,
            "values": self._values,
            "block": self._block,
            "any": self.write,
        }

    def write(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        known = self.heads.get(kind)
        if known is not None:
            return [known[0], *[self.rows[f.kind](getattr(value, f.name)) for f in known[1]]]
        if kind is tuple:
            return [_TUPLE, *map(self.write, value)]
        return self._rare(kind, value)

    def _values(self, found: Any) -> Any:
        """Place of a value, -1 for none; places of several."""
        if found is None:
            return -1
        if type(found) is tuple:
            return [*map(self._values, found)]
        return self.values.setdefault((found.id, found.type.name), len(self.values))

    def _block(self, found: Any) -> Any:
        return [*map(self.write, found)]

    def _rare(self, kind: type, value: Any) -> list[Any]:
        if kind is Value:
            return [_VALUE, self._values(value)]
        if kind is Scalar:
            return [_SCALAR, value.name]
        if kind is Span:
            return [_SPAN, self._place(value)]
        if kind is frozenset:
            return [_SET, *sorted(map(self.write, value))]
        if isinstance(value, Mapping):
            return [_MAPPING, *[[self.write(key), self.write(found)] for key, found in value.items()]]
        self._enter(kind)
        return self.write(value)  # type: ignore[no-any-return]

    def _place(self, span: Span) -> int:
        try:
            return self.places[span]
        except KeyError:
            raise CodecError(f"a span that is not in the table: {span.file}:{span.line}") from None

    def _enter(self, kind: type) -> None:
        name = f"{kind.__module__}:{kind.__qualname__}"
        if _class_of(name) is not kind:
            raise CodecError(f"{name} has no place in a document")
        self.heads[kind] = len(_HEADS) + len(self.names), _fields_of(kind)
        self.names.append(name)


def _class_of(name: str) -> type:
    """A frozen dataclass of the compiler, and nothing else, by its name."""
    module, _, path = name.partition(":")
    if module.startswith(f"{_PACKAGE}.") and path.isidentifier():
        if module not in sys.modules:
            import_module(module)
        found = getattr(sys.modules[module], path, None)
        if isinstance(found, type) and is_dataclass(found) and found.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return found
    raise CodecError(f"{name} is not a frozen dataclass of the compiler")


class _Reader:
    """Objects are made without their `__init__`, which is slow where the class is frozen; its check runs."""

    def __init__(self, classes: list[type], values: list[tuple[int, str]], spans: Spans) -> None:
        made: list[Any] = [Value(number, SCALARS[name]) for number, name in values]
        value = [*made, None].__getitem__  # -1: none
        rows: list[Callable[[list[Any]], Any]] = []

        def read(item: Any) -> Any:
            return rows[item[0]](item) if type(item) is list else item

        self.read = read
        self.kinds: dict[str, Callable[[Any], Any] | None] = {
            "plain": None,
            "any": read,
            "values": lambda found: value(found) if type(found) is int else tuple(map(value, found)),
            "block": lambda found: tuple([rows[item[0]](item) for item in found]),
        }
        rows += [
            lambda item: tuple(map(read, item[1:])),
            lambda item: value(item[1]),
            lambda item: SCALARS[item[1]],
            lambda item: spans[item[1]],
            lambda item: frozenset(map(read, item[1:])),
            lambda item: {read(key): read(found) for key, found in item[1:]},
            *map(self._maker, classes),
        ]

    def _maker(self, cls: type) -> Callable[[list[Any]], Any]:
        known = _fields_of(cls)
        names, count = tuple([f.name for f in known]), len(known)
        found = [(place, self.kinds[f.kind]) for place, f in enumerate(known)]
        readers = [(place, reader) for place, reader in found if reader is not None]
        check = getattr(cls, "__post_init__", None)
        new = object.__new__

        def make(item: list[Any]) -> Any:
            del item[0]
            if len(item) != count:
                raise CodecError(f"{cls.__name__} has {count} fields, not {len(item)}")
            for place, reader in readers:
                item[place] = reader(item[place])
            made: Any = new(cls)
            vars(made).update(zip(names, item))
            if check is not None:
                check(made)
            return made

        return make
