"""Give the names of the peers' module `lang.simt.warp`, which are those of `sg.simt.warp`."""

from __future__ import annotations

from ...compiler.frontend.simt_names import SimtFunction, functions_of

_OWN = functions_of("warp")


def __getattr__(name: str) -> SimtFunction:
    """Return a function of `sg.simt.warp`."""
    if name not in _OWN:
        raise AttributeError(name)
    return _OWN[name]


def __dir__() -> list[str]:
    return sorted(_OWN)
