"""Find the value of a peer's name: in the modules of this package, in stackgrad, or among the refused names.

Invariant: a refused name has a value too, so that `from quadrants import NAME` works in a program that never uses the
name; each use of the value raises an error with a cure.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ..compiler.frontend.refused_names import exported_names
from ..runtime.cures import CURES
from .peers import modules_of, paths_of
from .refused import RefusedPeerName, refusal_at
from .tables import ERRORS, HOMES, PASSING, RENAMED

_PACKAGE = __name__.rpartition(".compat.")[0]
_NOTHING = object()


class MissingName(AttributeError):
    """Signal that a module of a peer has no such name here; the message says what to write instead, if known."""


def value_of(peer: str, path: str, name: str) -> tuple[Any, bool]:
    """Return the value of a peer's name, and True if the value may be cached.

    Args:
        peer: The peer.
        path: Path of the module below the peer.
        name: The name in this module.

    Raises:
        MissingName: stackgrad has nothing for the name.
    """
    source = source_of(peer, path, name)
    if source is None:
        raise MissingName(f"module {f'{peer}.{path}'.rstrip('.')!r} has no attribute {name!r}{_cure(name)}")
    kind, at = source
    if kind == "module":
        return import_module(f"{peer}.{at}"), True
    if kind == "refused":
        return RefusedPeerName(f"{peer}.{at}", refusal_at(at)), True
    module, _, attribute = at.partition(":")
    value = getattr(_home(module), attribute)
    return (value(), False) if name in PASSING and path in PASSING[name] else (value, True)


def source_of(peer: str, path: str, name: str) -> tuple[str, str] | None:
    """Return the kind and the place of the value of a peer's name, or None if stackgrad has no such value.

    Returns:
        A kind and a place: ("value", "MODULE:NAME") with a module relative to stackgrad, ("module", PATH) for a
        module of the peer, or ("refused", PATH) for a name that raises when it is used.
    """
    full = f"{path}.{name}".lstrip(".")
    if full in paths_of(peer) and _value(path, name, only_tables=True) is None:
        return "module", full
    if (error := ERRORS.get(name.removeprefix(peer.capitalize()))) and name.startswith(peer.capitalize()):
        return "value", error
    if (found := _value(path, name)) is not None:
        return "value", found
    if refusal_at(full) is not None or name in modules_of(peer).get(path, ()) and refusal_at(name) is not None:
        return "refused", full if refusal_at(full) is not None else name
    return None


def _value(path: str, name: str, only_tables: bool = False) -> str | None:
    """Return the place "MODULE:NAME" of the value that stackgrad has for a peer's name, or None if it has none."""
    renamed = RENAMED.get(f"{path}.{name}".lstrip(".")) or (RENAMED.get(name) if _is_general(path) else None)
    if renamed is not None or only_tables:
        return renamed
    for home in homes_of(path):
        if name in _names(home):
            return f"{home}:{name}"
    return None


def homes_of(path: str) -> tuple[str, ...]:
    """Return the modules of stackgrad, by relative name, that are searched for the names of a peer's module."""
    parts = path.split(".")
    for length in range(len(parts), -1, -1):
        found = HOMES.get(".".join(parts[:length]))
        if found is not None:
            return found
    return HOMES[""]


def _is_general(path: str) -> bool:
    """Return True if the table of renamings that are not tied to a module applies to names of this module of a peer."""
    return "" in homes_of(path) or path.partition(".")[0] == "types"


@cache
def _names(home: str) -> frozenset[str]:
    """Return the public names of a module of stackgrad, without refused ones."""
    module = _home(home)
    refused = exported_names()
    listed = dir(module) if not home else getattr(module, "__all__", dir(module))
    return frozenset(name for name in listed if home or name not in refused)


def _cure(name: str) -> str:
    """Return the end of an error message that says what to write instead of a name, or "" if nothing is known."""
    known = CURES.get(name)
    return f"; cure: {known}" if known else ""


def _home(name: str) -> Any:
    """Return a module of stackgrad by its name relative to the package, or the package itself for ""."""
    return import_module(name, _PACKAGE) if name else import_module(_PACKAGE)
