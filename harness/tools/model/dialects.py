"""This module lists how packages that run the same programs differ: imports, start, names, missing functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class NotInDialect(Exception):
    """Signal that a dialect cannot express a construct, which the message names."""


@dataclass(frozen=True)
class Dialect:
    """Represent how one package's kernel language differs from the language of the program model.

    Attributes:
        package: Name of the package; a file writes `import package as alias`.
        alias: Name of the package in the file.
        options: Text of further arguments of `init`, besides arch and default_fp.
        renamed: Functions that have another name in the package.
        written: Functions that the package lacks, each with an expression of its first argument in their place.
        missing: Functions and forms of loops that the package lacks.
        calls_types: True if `f32(x)` converts values as well as numbers, and Python's `round` is known.
    """

    package: str
    alias: str
    options: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    calls_types: bool = True

    def need(self, name: str) -> None:
        """Raise NotInDialect if the package's language lacks the function or kind of loop of this name."""
        if name in self.missing:
            raise NotInDialect(f"{self.package} has no `{name}`")

    def function(self, name: str) -> str:
        """Return the text that names a function of the language in the dialect.

        Raises:
            NotInDialect: The package lacks the function.
        """
        self.need(name)
        return f"{self.alias}.{self.renamed.get(name, name)}"


_PEER_NAMES = {
    "sgn": "math.sign",
    "popcnt": "math.popcnt",
    "clz": "math.clz",
    "isnan": "math.isnan",
    "isinf": "math.isinf",
}
_PEER_FORMS = {"inv": "(1.0 / ({}))", "rcp": "(1.0 / ({}))"}
_PEER_LACKS = frozenset(
    {
        "ffs",
        "frexp",
        "range with a step",
        "reversed",
        "ndrange with axes",
        "undecorated functions",
        "grouped without axes",
        "generator expressions",
        "slices backward",
        "atomic_exchange",
        "stop_grad",
        "volatile_load",
        "BufferView",
        "atomic_cas",
        "assume_unique",
    }
)

DIALECTS: dict[str, Dialect] = {
    "stackgrad": Dialect("stackgrad", "sg"),
    "quadrants": Dialect(
        "quadrants",
        "qd",
        ", offline_cache=False, log_level=qd.ERROR, ad_stack_experimental_enabled=True",
        _PEER_NAMES,
        _PEER_FORMS,
        _PEER_LACKS,
        calls_types=False,
    ),
    "taichi": Dialect(
        "taichi",
        "ti",
        ", offline_cache=False, log_level=ti.ERROR, ad_stack_size=256",
        _PEER_NAMES,
        _PEER_FORMS,
        _PEER_LACKS,
        calls_types=False,
    ),
}
"""All dialects by the name of their package."""
