"""This module lists the allowed strings and numbers in stored programs, for each text attribute of a node class.

Names become Python text. Therefore a name is a plain identifier that has no meaning in Python, in the packages, or in
the files that programs are rendered into. All other words come from the tables of the language.
"""

from __future__ import annotations

import builtins
import keyword
import re

from ....compiler.frontend.functions import EXPORTS
from ....compiler.ir.ops import ATOMIC_OPS, OPS
from ..plain_data import LONGEST_NAME, AllowedWords, FieldKey, NumberLimits, one_of
from .dialects import DIALECTS
from .lower_calls import FUNCTIONS
from .lower_expressions import COMPARISONS, OPERATORS, PRODUCTS
from .lower_places import SWIZZLES
from .lower_vectors import METHODS

OF_FILES = frozenset(
    """
    json sys np numpy arch is_array fill numbers result error name version PACKAGE ARRAYS KINDS BEFORE SEEDS RIGHT
    loss differences gradient close launch launch_backward measured found status right agrees
    """.split()
)
"""Names that the files use into which programs are rendered."""
_DIALECTS = [name for dialect in DIALECTS.values() for name in (dialect.alias, dialect.package)]
RESERVED = frozenset((*dir(builtins), *keyword.kwlist, *OF_FILES, *_DIALECTS))
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NAME = "a name of its own: a short ASCII identifier that neither Python nor the rendered file uses"
_MESSAGE = "a printable line of at most 200 characters"


def is_name(text: str) -> bool:
    """Return True if a text is a legal name of a field, local or function: an identifier that is not reserved."""
    return len(text) <= LONGEST_NAME and bool(_IDENTIFIER.fullmatch(text)) and text not in RESERVED


def _is_path(text: str) -> bool:
    """Return True if a text is a name, optionally with dots and members or entry numbers after it."""
    first, *rest = text.split(".")
    return len(text) <= 4 * LONGEST_NAME and is_name(first) and all(is_name(t) or _is_index(t) for t in rest)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4


def _is_swizzle(text: str) -> bool:
    return 0 < len(text) <= 4 and any(set(text) <= set(alphabet) for alphabet in SWIZZLES)


NAME = AllowedWords(_NAME, is_name)
NAME_IF_ANY = AllowedWords(f"{_NAME}, or empty", lambda text: not text or is_name(text))
PATH = AllowedWords(f"{_NAME}, with members after points", _is_path)
MESSAGE = AllowedWords(_MESSAGE, lambda text: len(text) <= 200 and text.isprintable())

CALLED = frozenset((*FUNCTIONS, *(name for name, op in OPS.items() if op.arity == 1 and name in EXPORTS)))
"""Functions of the language that a program may call."""
ATOMIC = frozenset((*(op.removeprefix("bit_") for op in ATOMIC_OPS), "sub"))

WORDS: dict[FieldKey, AllowedWords] = {
    ("Name", "name"): NAME,
    ("Element", "field"): NAME,
    ("Extent", "field"): NAME,
    ("Walrus", "name"): NAME,
    ("Unary", "op"): one_of(("-", "+", "~", "not")),
    ("Binary", "op"): one_of((*OPERATORS, *PRODUCTS)),
    ("Compare", "ops"): one_of(COMPARISONS),
    ("Logic", "op"): one_of(("and", "or")),
    ("Call", "function"): one_of(CALLED),
    ("Invoke", "function"): NAME,
    ("Cast", "spelling"): one_of(("type", "cast", "int", "float", "bool")),
    ("Random", "function"): one_of(("random", "randn")),
    ("AtomicCall", "op"): one_of(ATOMIC),
    ("Comprehension", "form"): one_of(("Vector", "sum")),
    ("Comprehension", "name"): NAME,
    ("Filled", "function"): one_of(("zero", "one", "identity")),
    ("Swizzle", "letters"): AllowedWords("up to four letters of one of " + ", ".join(SWIZZLES), _is_swizzle),
    ("Method", "name"): one_of(METHODS),
    ("Make", "struct"): NAME,
    ("Member", "name"): NAME,
    ("Range", "stride"): NAME_IF_ANY,
    ("Over", "field"): NAME,
    ("Declare", "name"): NAME,
    ("Augment", "op"): one_of(OPERATORS),
    ("For", "indices"): NAME,
    ("Assert", "message"): MESSAGE,
    ("Param", "name"): NAME,
    ("Param", "struct"): NAME_IF_ANY,
    ("StructType", "name"): NAME,
    ("Function", "name"): NAME,
    ("Kernel", "name"): NAME,
    ("View", "name"): NAME,
    ("Field", "name"): PATH,
    ("Field", "struct"): NAME_IF_ANY,
    ("Inputs", "arrays"): PATH,
    ("Inputs", "scalars"): PATH,
    ("Inputs", "seeds"): PATH,
    ("Program", "profile"): one_of(("smooth", "wild", "operations")),
}
"""The allowed words of each field of text."""

_CONTENT = NumberLimits(-(1 << 63), (1 << 64) - 1)
_SMALL = NumberLimits(0, 64)
_EXTENT = NumberLimits(0, 1 << 20)
LIMITS: dict[FieldKey, NumberLimits] = {
    ("Number", "value"): NumberLimits(-(1 << 63), (1 << 64) - 1, finite=True),
    ("Inputs", "arrays"): _CONTENT,
    ("Inputs", "scalars"): _CONTENT,
    ("Inputs", "seeds"): _CONTENT,
    ("Field", "shape"): _EXTENT,
    ("Field", "element"): _SMALL,
    ("Field", "offset"): NumberLimits(-(1 << 20), 1 << 20),
    ("View", "first"): _EXTENT,
    ("View", "size"): _EXTENT,
    ("Extent", "axis"): NumberLimits(0, 7),
    ("Param", "shape"): _SMALL,
    ("Function", "shape"): _SMALL,
    ("Filled", "shape"): _SMALL,
    ("Comprehension", "count"): _SMALL,
    ("Slice", "begin"): NumberLimits(-64, 64),
    ("Slice", "end"): NumberLimits(-64, 64),
    ("Slice", "step"): NumberLimits(-64, 64),
    ("Unrolled", "begin"): NumberLimits(-1024, 1024),
    ("Unrolled", "end"): NumberLimits(-1024, 1024),
    ("Unrolled", "step"): NumberLimits(-1024, 1024),
}
"""The allowed numbers of each field that needs tighter limits than 32 bits."""
