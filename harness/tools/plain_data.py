"""This module reads JSON from untrusted sources into frozen dataclasses and refuses everything that their types forbid.

A file of a corpus may come from anybody. The annotations of the classes determine what the objects, lists, numbers and
words of the file may be. One table says which words a field of text may hold, another table how large the numbers of a
field may be. A field of text without an entry is refused, so a new field cannot be forgotten. Everything else (unknown
keys, keys that come twice, other types, deep nesting, very many objects) raises Malformed with the place in the JSON,
the reason and the cure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ...compiler.ir.types import SCALARS, Scalar

FieldKey = tuple[str, str]
"""The name of a class and the name of a field of that class."""
LONGEST_NAME = 64
LONGEST_TEXT = 1 << 20
_HEX = re.compile(r"-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}|-?inf|nan")
_SHOWN = 60


class MalformedDataError(ValueError):
    """Signal that data read from a file does not have the format in which this project writes it.

    Attributes:
        reason: what is wrong.
        cure: what would be right.
        place: the path in the JSON, innermost part first; it is filled in while the exception passes outward.
    """

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(reason)
        self.reason, self.cure = reason, cure
        self.place: list[str] = []

    def __str__(self) -> str:
        return f"${''.join(reversed(self.place))}: {self.reason}; cure: {self.cure}"


@dataclass(frozen=True)
class AllowedWords:
    """Define which strings a text attribute of a dataclass may contain, by a function that tests a string.

    Attributes:
        what: a description of the words, for messages.
        accepts: a function that returns a true value for a word that is allowed.
        clean: a function that makes an allowed word harmless.
    """

    what: str
    accepts: Callable[[str], Any]
    clean: Callable[[str], str] = str


def one_of(words: Iterable[str]) -> AllowedWords:
    """Return an AllowedWords object that accepts exactly the given strings."""
    known = frozenset(words)
    listed = ", ".join(map(repr, sorted(known)))
    return AllowedWords(
        f"one of {listed}" if len(listed) < 200 else f"one of {len(known)} known words", known.__contains__
    )


def matching(what: str, pattern: str) -> AllowedWords:
    """Return an AllowedWords object for strings of at most LONGEST_NAME characters that match a pattern."""
    return AllowedWords(what, re.compile(f"(?=.{{0,{LONGEST_NAME}}}\\Z)(?:{pattern})", re.ASCII).fullmatch)


def without_controls(text: str) -> str:
    """Return a text in which each character that is not printable is replaced by its escape sequence."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


TEXT = AllowedWords(f"at most {LONGEST_TEXT} characters", lambda text: len(text) <= LONGEST_TEXT, without_controls)
"""Words for text that is only shown."""


@dataclass(frozen=True)
class NumberLimits:
    """Represent the limits of the numbers that an attribute of a dataclass may contain.

    Attributes:
        low: the least integer.
        high: the greatest integer.
        finite: True if reals must be finite.
    """

    low: int = -(1 << 31)
    high: int = (1 << 31) - 1
    finite: bool = False


@dataclass
class _Shape:
    """Represent the JSON values that the type annotation of a dataclass attribute allows."""

    none: bool = False
    booleans: bool = False
    integers: bool = False
    reals: bool = False
    scalar: bool = False
    words: AllowedWords | None = None
    classes: dict[str, type] = field(default_factory=dict)
    items: _Shape | None = None
    fixed: tuple[_Shape, ...] | None = None
    values: tuple[_Shape, _Shape] | None = None
    limits: NumberLimits = NumberLimits()

    def __str__(self) -> str:
        names = [
            "null" * self.none,
            "a boolean" * self.booleans,
            "an integer" * self.integers,
            "a real" * self.reals,
            "a scalar type" * self.scalar,
            self.words.what if self.words else "",
            "a list" * (self.items is not None),
            f"a list of {len(self.fixed)}" if self.fixed is not None else "",
            "an object" * (self.values is not None),
            (" or ".join(self.classes) if len(self.classes) < 4 else "an object of the model") if self.classes else "",
        ]
        return " or ".join(filter(None, names))


class Schema:
    """Convert JSON data to objects of dataclasses, and refuse data that their types forbid.

    Attributes:
        words: the words that each field of text may hold, by class and field.
        limits: the numbers that a field may hold, by class and field.
        classes: the classes that data may name under "is". If there are none, data has the fields only, and reals are
            plain numbers.
        deepest: the largest number of objects nested in each other.
        most: the largest number of values in all.
    """

    def __init__(
        self,
        words: Mapping[FieldKey, AllowedWords],
        limits: Mapping[FieldKey, NumberLimits],
        classes: Iterable[type] = (),
        deepest: int = 160,
        most: int = 1 << 20,
    ) -> None:
        self.words, self.limits = words, limits
        self.classes = {cls.__name__: cls for cls in classes}
        self.deepest, self.most = deepest, most
        self._known: dict[type, dict[str, tuple[_Shape, bool]]] = {}

    def shapes(self, cls: type) -> dict[str, tuple[_Shape, bool]]:
        """Return for each attribute of a class its allowed JSON values, and True if the attribute is required.

        Raises:
            KeyError: a field of text has no entry in `words`.
        """
        if cls not in self._known:
            hints = get_type_hints(cls)
            self._known[cls] = {
                f.name: (
                    self._shape(hints[f.name], (cls.__name__, f.name)),
                    f.default is MISSING and f.default_factory is MISSING,
                )
                for f in fields(cls)
            }
        return self._known[cls]

    def _shape(self, hint: Any, key: FieldKey) -> _Shape:
        made = _Shape(limits=self.limits.get(key, NumberLimits()))
        alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        for each in alternatives:
            origin, args = get_origin(each), get_args(each)
            if origin is tuple and args[-1] is Ellipsis:
                made.items = self._shape(args[0], key)
            elif origin is tuple:
                made.fixed = tuple(self._shape(a, key) for a in args)
            elif origin is Literal:
                made.words = one_of(args)
            elif origin is dict:
                made.values = self._shape(args[0], key), self._shape(args[1], key)
            else:
                self._plain(made, each, key)
        return made

    def _plain(self, made: _Shape, hint: type, key: FieldKey) -> None:
        made.none |= hint is NoneType
        made.booleans |= hint is bool
        made.integers |= hint is int
        made.reals |= hint is float
        made.scalar |= hint is Scalar
        if hint is str:
            made.words = self.words[key]
        elif is_dataclass(hint) and hint is not Scalar:
            found = {n: c for n, c in self.classes.items() if issubclass(c, hint)} or {hint.__name__: hint}
            made.classes |= found

    def parse(self, text: str, cls: type) -> Any:
        """Parse a JSON text and return the object of the class that it describes.

        Raises:
            MalformedDataError: the text is not JSON, or holds something that the class does not allow.
        """
        try:
            data = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        except MalformedDataError:
            raise
        except RecursionError:
            raise MalformedDataError(
                "it is nested too deeply", f"at most {self.deepest} objects in each other"
            ) from None
        except ValueError as error:
            raise MalformedDataError(
                f"it is no JSON: {_short(str(error))}", "take a file that was written here"
            ) from None
        return self.read(data, cls)

    def read(self, data: Any, cls: type) -> Any:
        """Return the object of the class that parsed JSON data describes.

        Raises:
            MalformedDataError: the data holds something that the class does not allow.
        """
        return _DataReader(self).read(_Shape(classes={cls.__name__: cls}), data, 0)


class _DataReader:
    """Convert one piece of JSON data to objects of dataclasses, with a limit on the total number of values."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.left = schema.most

    def read(self, shape: _Shape, data: Any, depth: int) -> Any:
        """Return the object that JSON data describes. Raise MalformedDataError if `shape` does not allow it.

        Few Python calls lie between an object and the objects in it, since Python's recursion limit bounds the nesting.
        """
        kind = type(data)
        if kind in (list, tuple) and (shape.items or shape.fixed is not None):
            found: list[Any] = []
            try:
                for item_shape, item in zip(self._kinds(shape, data), data):
                    found.append(self.read(item_shape, item, depth))
            except MalformedDataError as error:
                # The item that failed is not in `found`, so the length is its index.
                error.place.append(f"[{len(found)}]")
                raise
            return tuple(found)
        if kind is dict and shape.classes and not self._is_plain(data):
            return self._instance(shape, data, depth)
        return self._plain(shape, data, depth)

    def _kinds(self, shape: _Shape, data: list[Any]) -> Sequence[_Shape]:
        self._take(len(data))
        if shape.fixed is None:
            assert shape.items is not None
            return [shape.items] * len(data)
        if len(data) != len(shape.fixed):
            raise MalformedDataError(f"{len(data)} items are not {shape}", f"write {shape}")
        return shape.fixed

    def _is_plain(self, data: dict[str, Any]) -> bool:
        """Return True if a JSON object encodes a real or a scalar type."""
        return bool(self.schema.classes) and data.keys() in ({"real"}, {"type"})

    def _plain(self, shape: _Shape, data: Any, depth: int) -> Any:
        kind = type(data)
        if kind is str and shape.words is not None:
            if not shape.words.accepts(data):
                raise MalformedDataError(f"{_short(data)} is not {shape.words.what}", "write such a word")
            return shape.words.clean(data)
        if kind is int and (shape.integers or shape.reals and not self.schema.classes):
            return _integer(shape, data)
        if kind is float and shape.reals and not self.schema.classes and math.isfinite(data):
            return data
        if kind is bool and shape.booleans or data is None and shape.none:
            return data
        if kind is dict and shape.values is not None:
            return self._mapping(shape.values, data, depth)
        if kind is dict and self._is_plain(data):
            if shape.reals and "real" in data:
                return _real(shape, data["real"])
            if shape.scalar and "type" in data:
                return _scalar(data["type"])
        raise MalformedDataError(f"{_short(data)} is not {shape}", f"write {shape}")

    def _mapping(self, shapes: tuple[_Shape, _Shape], data: dict[str, Any], depth: int) -> dict[Any, Any]:
        self._take(len(data))
        return {self.read(shapes[0], name, depth): self.read(shapes[1], value, depth) for name, value in data.items()}

    def _instance(self, shape: _Shape, data: dict[str, Any], depth: int) -> Any:
        if depth >= self.schema.deepest:
            raise MalformedDataError("it is nested too deeply", f"at most {self.schema.deepest} objects in each other")
        self._take(1)
        cls = self._class_of(shape, data)
        known = self.schema.shapes(cls)
        given: dict[str, Any] = {}
        for name, value in data.items():
            if name == "is" and self.schema.classes:
                continue
            if name not in known:
                raise MalformedDataError(f"{_short(name)} is no field of {cls.__name__}", f"fields: {', '.join(known)}")
            try:
                given[name] = self.read(known[name][0], value, depth + 1)
            except MalformedDataError as error:
                error.place.append(f".{name}")
                raise
        missing = [name for name, (_, needed) in known.items() if needed and name not in given]
        if missing:
            raise MalformedDataError(
                f"{cls.__name__} lacks {', '.join(missing)}", "write all fields that have no default"
            )
        return cls(**given)

    def _class_of(self, shape: _Shape, data: dict[str, Any]) -> type:
        if not self.schema.classes:
            return next(iter(shape.classes.values()))
        name = data.get("is")
        if type(name) is not str or name not in shape.classes:
            raise MalformedDataError(f"{_short(name)} is not the class of {shape}", f"write {shape}")
        return shape.classes[name]

    def _take(self, count: int) -> None:
        # The count bounds memory and time for data that is small in nesting but huge in number.
        self.left -= count
        if self.left < 0:
            raise MalformedDataError(f"there are more than {self.schema.most} values", "take a smaller one")


def _integer(shape: _Shape, value: int) -> int:
    if not shape.limits.low <= value <= shape.limits.high:
        reason = f"{_short(value)} is not from {shape.limits.low} to {shape.limits.high}"
        raise MalformedDataError(reason, "write a number within these limits")
    return value


def _scalar(name: Any) -> Scalar:
    if type(name) is not str or name not in SCALARS:
        raise MalformedDataError(f"{_short(name)} is no scalar type", f"types: {', '.join(SCALARS)}")
    return SCALARS[name]


def _real(shape: _Shape, text: Any) -> float:
    if type(text) is str and len(text) <= LONGEST_NAME and _HEX.fullmatch(text):
        try:
            value = float.fromhex(text)
        except OverflowError:
            value = math.inf
        if math.isfinite(value) or not shape.limits.finite and "x" not in text:
            return value
    cure = "write what float.hex gives" + " of a finite number" * shape.limits.finite
    raise MalformedDataError(f"{_short(text)} is not a real", cure)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise MalformedDataError("an object has a key twice", "write each key once")
    return made


def _no_constant(name: str) -> Any:
    raise MalformedDataError(f"{name} is no number of JSON", 'write {"real": "nan"}, "inf" or "-inf"')


def _short(value: Any) -> str:
    """Return a short text for a value in messages: a few ASCII characters, or a huge integer's number of bits."""
    if type(value) is int and abs(value) >= 1 << 256:
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
