"""The text that a `print` makes of its template and its values.

"x = {}, y = {:.3f}"   a place for each value, with Python's format or, without one, in the shortest form that
                       reads back as the same value of its type
"...{;}"               no newline at the end
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .types import Scalar

PLACE = re.compile(r"\{(:[^{}]*)?\}")
OPEN_END = "{;}"
"""What a template ends with if its line goes on."""


def places(template: str) -> list[str]:
    """The format of each value, `""` if it has none."""
    return [(spec or ":")[1:] for spec in PLACE.findall(template)]


_LONG = re.compile(r"[0-9]{4}")
"""Of a width or a precision: nobody reads a number of a thousand digits."""


def fits(spec: str, dtype: Scalar) -> bool:
    """Whether values of a type can be printed in this format."""
    try:
        return not _LONG.search(spec) and format(dtype.dtype.type(1).item(), spec) is not None
    except (TypeError, ValueError):
        return False


def printed(template: str, values: Sequence[Any]) -> str:
    """The text, newline included. values: NumPy scalars, one for each place."""
    end = "" if template.endswith(OPEN_END) else "\n"
    given = iter(values)

    def word(place: re.Match[str]) -> str:
        value, spec = next(given), (place[1] or ":")[1:]
        return format(value.item(), spec) if spec else str(value)

    return PLACE.sub(word, template.removesuffix(OPEN_END)) + end
