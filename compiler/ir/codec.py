"""This module serializes kernels and related frozen dataclasses to bytes, and deserializes them.

The format is JSON, so that reading bytes can never run code.

A source span is written as its number in the table of locations of the source kernel from which everything else was
made. A kernel whose lines have moved therefore reads its derivatives back with the lines of today. Invariant:
`decode(encode(x, t), t) == x`, and the spans of the decoded object are those of the table.

A document holds its classes, its values and its body, which encodes the object. An object is a list whose head is a
number: a kind of `_HEADS`, or the place of a class. Heads are left out where the annotation of a field shows
that it holds values or blocks.
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
from .depth import with_stack_room
from .kernels import Kernel
from .nodes import ROLES
from .statement import Value
from .types import SCALARS, Scalar

Spans = Sequence[Span | None]
_PACKAGE = __name__.rpartition(".ir.")[0]
_TUPLE, _VALUE, _SCALAR, _SPAN, _SET, _MAPPING = _HEADS = range(6)
_PLAIN = (str, int, float, bool, type(None))
_PLAIN_NAMES = {"str", "int", "float", "bool", "None"}


class CodecError(ValueError):
    """This error means that an object cannot be serialized, or that this version cannot deserialize the bytes."""


def set_identity(kernel: Kernel, identity: bytes) -> None:
    """Attach identifying bytes, such as a hash, to a kernel object.

    Two kernels with equal identities, made by one version of the compiler, are equal except for their spans.
    """
    vars(kernel)["identity"] = identity


def identity_of(kernel: Kernel) -> bytes | None:
    """Return the bytes that `set_identity` attached to this kernel object, or None if none were attached."""
    found: bytes | None = vars(kernel).get("identity")
    return found


def first_equal_spans(spans: Spans) -> tuple[int, ...]:
    """Return, for each source span of a table, the index of the first equal span in the table.

    Two tables with the same result have equal spans at the same places, so a document that was encoded with one of them
    can be decoded with the other.
    """
    first: dict[Span | None, int] = {}
    return tuple([first.setdefault(span, place) for place, span in enumerate(spans)])


@with_stack_room
def encode(value: object, spans: Spans = ()) -> bytes:
    """Return a value serialized to bytes.

    Args:
        value: a kernel, a frozen dataclass of the compiler, or a container of these.
        spans: table of locations that must contain every span in the value.

    Raises:
        CodecError: the value holds an object or a span that a document cannot express.
    """
    with _without_collections():
        writer = _Encoder(spans)
        body = writer.write(value)
        return json.dumps([writer.names, list(writer.values), body], separators=(",", ":")).encode()


@with_stack_room
def decode(data: bytes, spans: Spans = ()) -> Any:
    """Return the value that serialized bytes describe.

    Args:
        data: result of `encode`.
        spans: table of locations whose entries become the spans of the value.

    Raises:
        CodecError: this version cannot read the bytes.
    """
    try:
        with _without_collections():
            names, values, body = json.loads(data)
            return _Decoder([_class_of(name) for name in names], values, spans).read(body)
    except CodecError:
        raise
    except Exception as error:
        raise CodecError(f"not a value of this version: {type(error).__name__}: {error}") from error


@contextmanager
def _without_collections() -> Iterator[None]:
    """Switch the garbage collector off for the duration of the `with`.

    Coding makes thousands of objects, none of which is garbage: searching for garbage would take longer than making
    them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Field(NamedTuple):
    """A `_Field` describes how one attribute of a dataclass is serialized.

    Attributes:
        name: name of the field.
        kind: "plain" (written as JSON writes it), "values", "block" or "any".
    """

    name: str
    kind: str


def _fields_of(cls: type) -> tuple[_Field, ...]:
    """Return a `_Field` for each attribute of a dataclass: its name and how it is serialized."""
    roles = {name: "block" if role == "block" else "values" for name, role in ROLES.get(cls, ())}
    return tuple([_Field(f.name, roles.get(f.name) or _kind_of(f.type)) for f in fields(cls)])


def _kind_of(annotation: Any) -> str:
    """Return "plain" if JSON can store values of the annotated type directly, and "any" if it cannot."""
    is_plain = isinstance(annotation, str) and _PLAIN_NAMES.issuperset(annotation.split(" | "))
    return "plain" if is_plain else "any"


class _Encoder:
    """An `_Encoder` turns objects into lists and numbers for JSON, and collects the classes and values in them.

    Attributes:
        names: names of the classes of the document, in order of first use.
        values: index of each IR value in the document, by its id and the name of its type.
        heads: number and fields of each class that the document has used so far.
        places: place of each span in the table of locations.
        rows: function that writes a field, by the kind of the field.
    """

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
        """Return the index of a value in the document's table, -1 for None, or a list of indices for a tuple."""
        if found is None:
            return -1
        if type(found) is tuple:
            return [*map(self._values, found)]
        # A value is written once, in the order of first use; everything else refers to its place.
        return self.values.setdefault((found.id, found.type.name), len(self.values))

    def _block(self, found: Any) -> Any:
        return [*map(self.write, found)]

    def _rare(self, kind: type, value: Any) -> list[Any]:
        """Return the encoding of an IR value, type, span, set or mapping, or of the first object of a class."""
        if kind is Value:
            return [_VALUE, self._values(value)]
        if kind is Scalar:
            return [_SCALAR, value.name]
        if kind is Span:
            return [_SPAN, self._place(value)]
        if kind is frozenset:
            # Sorting makes the bytes of a set independent of its order in memory.
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
        """Add a class to the serialized document; raise CodecError if the decoder could not find the class by name."""
        name = f"{kind.__module__}:{kind.__qualname__}"
        # The check runs when the class is written, so that a document that cannot be read never comes into being.
        if _class_of(name) is not kind:
            raise CodecError(f"{name} has no place in a document")
        self.heads[kind] = len(_HEADS) + len(self.names), _fields_of(kind)
        self.names.append(name)


def _class_of(name: str) -> type:
    """Return the frozen dataclass of the compiler with this name. Raise CodecError if there is none."""
    module, _, path = name.partition(":")
    if module.startswith(f"{_PACKAGE}.") and path.isidentifier():
        if module not in sys.modules:
            import_module(module)
        found = getattr(sys.modules[module], path, None)
        if isinstance(found, type) and is_dataclass(found) and found.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return found
    raise CodecError(f"{name} is not a frozen dataclass of the compiler")


class _Decoder:
    """A `_Decoder` turns the lists and numbers of a document back into objects.

    Objects are made without their `__init__`, because that is slow for frozen classes; `__post_init__` still runs.
    """

    def __init__(self, classes: list[type], values: list[tuple[int, str]], spans: Spans) -> None:
        made: list[Any] = [Value(number, SCALARS[name]) for number, name in values]
        # The writer encodes a missing value as -1, which is the index of the trailing None.
        value = [*made, None].__getitem__
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
        """Return a function that makes an object of the class from its encoded attributes."""
        known = _fields_of(cls)
        names, count = tuple([f.name for f in known]), len(known)
        found = [(place, self.kinds[f.kind]) for place, f in enumerate(known)]
        readers = [(place, reader) for place, reader in found if reader is not None]
        check = getattr(cls, "__post_init__", None)
        new = object.__new__

        def make(item: list[Any]) -> Any:
            # The head goes; the list of encoded fields is reused for the decoded ones.
            del item[0]
            if len(item) != count:
                raise CodecError(f"{cls.__name__} has {count} fields, not {len(item)}")
            for place, reader in readers:
                item[place] = reader(item[place])
            # Fields of a frozen dataclass are set through its dictionary, because assignment is forbidden.
            made: Any = new(cls)
            vars(made).update(zip(names, item))
            if check is not None:
                check(made)
            return made

        return make
