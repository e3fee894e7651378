"""Give the names of the peers' module `lang.simt.block`, which are those of `sg.simt.block`."""

from __future__ import annotations

from ...compiler.frontend.simt_names import SimtFunction, functions_of

_OWN = functions_of("block")


def __getattr__(name: str) -> SimtFunction:
    """Return a function of `sg.simt.block`."""
    if name not in _OWN:
        raise AttributeError(name)
    return _OWN[name]


def __dir__() -> list[str]:
    return sorted(_OWN)
