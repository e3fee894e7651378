"""DIALECTS: where the packages that run our programs differ: imports, start, names of functions, what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class NotInDialect(Exception):
    """The dialect has no way to say this; the message names what."""


@dataclass(frozen=True)
class Dialect:
    """package, alias: `import package as alias`. options: of init, beside arch and default_fp.

    renamed: functions under another name. written: functions that are an expression of the first argument there.
    missing: functions and forms of loops it lacks. calls_types: `f32(x)` converts values as well as numbers, and
    Python's `round` is known.
    """

    package: str
    alias: str
    options: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    calls_types: bool = True

    def need(self, name: str) -> None:
        """Raise NotInDialect if this is missing."""
        if name in self.missing:
            raise NotInDialect(f"{self.package} has no `{name}`")

    def function(self, name: str) -> str:
        """How a function of the language is written. Raises NotInDialect."""
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
