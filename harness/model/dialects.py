"""DIALECTS: where the packages that run our programs differ: imports, start, names of functions, what is missing."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class NotInDialect(Exception):
    """The dialect has no way to say this; the message names what."""


@dataclass(frozen=True)
class Dialect:
    """package, alias: `import package as alias`. options: of init, beside arch and default_fp.

    renamed: functions under another name. missing: functions it lacks. types: scalar types it has; None for all.
    """

    package: str
    alias: str
    options: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    types: frozenset[str] | None = None

    def function(self, name: str) -> str:
        """How a function of the language is written. Raises NotInDialect."""
        if name in self.missing:
            raise NotInDialect(f"{self.package} has no function `{name}`")
        return f"{self.alias}.{self.renamed.get(name, name)}"


_PEER_NAMES = {
    "sgn": "math.sign", "popcnt": "math.popcnt", "clz": "math.clz", "isnan": "math.isnan", "isinf": "math.isinf",
}  # fmt: skip
_PEER_LACKS = frozenset({"inv", "rcp", "ffs", "frexp", "static_assert"})

DIALECTS: dict[str, Dialect] = {
    "stackgrad": Dialect("stackgrad", "sg"),
    "quadrants": Dialect(
        "quadrants", "qd", ", offline_cache=False, log_level=qd.ERROR, ad_stack_experimental_enabled=True",
        _PEER_NAMES, _PEER_LACKS,
    ),
    "taichi": Dialect(
        "taichi", "ti", ", offline_cache=False, log_level=ti.ERROR, ad_stack_size=256", _PEER_NAMES, _PEER_LACKS
    ),
}  # fmt: skip
