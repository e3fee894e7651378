"""Programs as JSON and back, exactly: reals are written in hexadecimal, so every bit survives.

A dataclass is an object with its class under "is"; a tuple is a list; a real is {"real": hex}; a scalar type is
{"type": name}.
"""
from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

from ...compiler.ir.types import SCALARS, Scalar
from . import nodes as m

_RECORDS = (m.Param, m.Function, m.Kernel, m.View, m.Field, m.Inputs, m.StructType, m.Program)
CLASSES: dict[str, type] = {
    cls.__name__: cls for cls in (*m.EXPRESSIONS, *m.STATEMENTS, *m.DOMAINS, *_RECORDS)
}
"""Every class that may occur in a stored program."""


def to_json(program: m.Program, indent: int | None = None) -> str:
    """The program as JSON text."""
    return json.dumps(_encode(program), indent=indent, allow_nan=False)


def from_json(text: str) -> m.Program:
    """The program of a JSON text. Raises ValueError if it is none."""
    made = _decode(json.loads(text))
    if not isinstance(made, m.Program):
        raise ValueError(f"the text holds a {type(made).__name__}, not a Program")
    return made


def _encode(value: Any) -> Any:
    if isinstance(value, Scalar):
        return {"type": value.name}
    if is_dataclass(value):
        return {"is": type(value).__name__} | {f.name: _encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, float):
        return {"real": "nan" if math.isnan(value) else value.hex()}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "real" in value:
        return float.fromhex(value["real"])
    if "type" in value:
        return SCALARS[value["type"]]
    if value.get("is") not in CLASSES:
        raise ValueError(f"there is no class {value.get('is')!r} in the program model")
    given = {name: _decode(item) for name, item in value.items() if name != "is"}
    return CLASSES[value["is"]](**given)
