"""This module defines the text that a `print` statement makes from its template and its values.

    "x = {}, y = {:.3f}"   a placeholder for each value, with Python's format or, without a format, in the shortest
                           form that reads back as the same value of its type
    "...{;}"               no newline at the end

The module also makes the message of an index that is outside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .types import Scalar

PLACE = re.compile(r"\{(:[^{}]*)?\}")
OPEN_END = "{;}"
"""This mark at the end of a template means that no newline follows."""


INDEX, EXTENT = "{index}", "{extent}"
"""These places in the message of a `within` receive the index and the extent."""


def index_message(message: str, index: int, extent: int) -> str:
    """Return the message of a failed index check; a negative extent is shown as 0."""
    return message.replace(INDEX, str(index)).replace(EXTENT, str(max(extent, 0)))


def place_formats(template: str) -> list[str]:
    """Return the format of each placeholder of a template, `""` for a placeholder without a format."""
    return [(spec or ":")[1:] for spec in PLACE.findall(template)]


_LONG = re.compile(r"[0-9]{4}")
"""This pattern finds a width or precision of four digits: nobody reads a number of a thousand digits."""


def is_printable(spec: str, dtype: Scalar) -> bool:
    """Return True if values of a type can be printed in this format."""
    try:
        return not _LONG.search(spec) and format(dtype.dtype.type(1).item(), spec) is not None
    except (TypeError, ValueError):
        return False


def printed_text(template: str, values: Sequence[Any]) -> str:
    """Return the printed text, with a newline unless the template ends with `{;}`.

    Args:
        template: template of the `print`.
        values: NumPy scalars, one for each placeholder.
    """
    end = "" if template.endswith(OPEN_END) else "\n"
    given = iter(values)

    def word(place: re.Match[str]) -> str:
        value, spec = next(given), (place[1] or ":")[1:]
        return format(value.item(), spec) if spec else str(value)

    return PLACE.sub(word, template.removesuffix(OPEN_END)) + end
