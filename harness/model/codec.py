"""Programs as JSON and back, exactly: reals are written in hexadecimal, so every bit survives.

A dataclass is an object with its class under "is"; a tuple is a list; a real is {"real": hex}; a scalar type is
{"type": name}. A text is read as what it may say and no more, see `words`: whoever wrote it, reading and
rendering it runs nothing of it.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

from ...compiler.ir.types import Scalar
from ..plain_data import Schema
from . import nodes as m
from .coherence import check
from .words import LIMITS, WORDS

_RECORDS = (m.Param, m.Function, m.Kernel, m.View, m.Field, m.Inputs, m.StructType, m.Program)
CLASSES: dict[str, type] = {cls.__name__: cls for cls in (*m.EXPRESSIONS, *m.STATEMENTS, *m.DOMAINS, *_RECORDS)}
"""Every class that may occur in a stored program."""


SCHEMA = Schema(WORDS, LIMITS, CLASSES.values())


def to_json(program: m.Program, indent: int | None = None) -> str:
    """The program as JSON text."""
    return json.dumps(_encode(program), indent=indent, allow_nan=False)


def from_json(text: str) -> m.Program:
    """The program of a JSON text, whoever wrote it. Raises Malformed, a ValueError, if it is none."""
    program: m.Program = SCHEMA.parse(text, m.Program)
    check(program)
    return program


def _encode(value: Any) -> Any:
    if isinstance(value, Scalar):
        return {"type": value.name}
    if is_dataclass(value):
        made: dict[str, Any] = {"is": type(value).__name__}
        for f in fields(value):
            made[f.name] = _encode(getattr(value, f.name))
        return made
    if isinstance(value, tuple):
        items = []
        for item in value:
            items.append(_encode(item))
        return items
    if isinstance(value, float):
        return {"real": "nan" if math.isnan(value) else value.hex()}
    return value
