"""This package is the manual of the kernel language: an entry for each name with parameters, meaning and derivative.

Docstrings, signatures, the stub for type checkers and the reference page are made from it. Nothing loads it before
someone asks for help. Refused names have no entry, because `refused_names.NAMES` describes all of them; `func` has
none, because its docstring describes it.
"""

from __future__ import annotations

from .control import CONTROL
from .entry import Entry
from .mathematics import MATHEMATICS
from .memory import MEMORY
from .numbers import NUMBERS

SECTIONS: dict[str, dict[str, Entry]] = {
    "Mathematical functions": MATHEMATICS,
    "Numbers and bits": NUMBERS,
    "Elements of arrays": MEMORY,
    "Compile time, loops and launches": CONTROL,
}
"""The rows by section of the reference page and by name."""

MANUAL: dict[str, Entry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
"""The rows by name."""

__all__ = ["MANUAL", "SECTIONS", "Entry"]
