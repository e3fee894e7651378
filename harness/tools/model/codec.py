"""Write programs as JSON and read them back without any loss.

A dataclass becomes an object with the name of its class under "is", a tuple a list, and a scalar type {"type": name}. A
real becomes {"real": hex}: reals are written in hexadecimal so that every bit survives. The reader accepts only the
words and numbers that `words` allows, so reading and rendering a text runs none of it, whoever wrote the text.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

from ....compiler.ir.types import Scalar
from ..plain_data import Schema
from . import nodes as m
from .coherence import check
from .words import LIMITS, WORDS

_RECORDS = (m.Param, m.Function, m.Kernel, m.View, m.Field, m.Inputs, m.StructType, m.Program)
CLASSES: dict[str, type] = {cls.__name__: cls for cls in (*m.EXPRESSIONS, *m.STATEMENTS, *m.DOMAINS, *_RECORDS)}
"""Every class that may occur in a stored program, by name."""


SCHEMA = Schema(WORDS, LIMITS, CLASSES.values())
"""The schema that a stored program must follow."""


def to_json(program: m.Program, indent: int | None = None) -> str:
    """Return a program as JSON text.

    Args:
        program: The program to write.
        indent: Number of spaces per level of nesting; None writes everything on one line.
    """
    return json.dumps(_encode(program), indent=indent, allow_nan=False)


def from_json(text: str) -> m.Program:
    """Return the program that a JSON text describes, after checks that make texts of unknown origin safe to read.

    Raises:
        Malformed: The text describes no program. This class is a ValueError.
    """
    program: m.Program = SCHEMA.parse(text, m.Program)
    check(program)
    return program


def _encode(value: Any) -> Any:
    """Return a value of the program model as data that `json` can write."""
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
        # All NaNs are one value, because no program depends on the payload of a NaN.
        return {"real": "nan" if math.isnan(value) else value.hex()}
    return value
