"""Describe in a few words what stackgrad provides under each name of a peer, for docs/migrating.md."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

from ..runtime.session import ARCHES
from .arches import Arch
from .lookup import source_of, value_of
from .refused import refusal_at

SAME = "the same name of `sg`"
"""The text for names that stackgrad has under the same name."""

_PUBLIC = {".math": "sg.math", ".ad": "sg.ad", ".linalg": "sg.linalg", ".types": "sg.types"}


def text_of(peer: str, path: str, name: str) -> str:
    """Return the text of docs/migrating.md on a name of a peer: the corresponding name in stackgrad, or a sentence.

    Args:
        peer: The peer.
        path: Path of its module.
        name: The name.

    Raises:
        MissingName: stackgrad has nothing for the name.
    """
    source = source_of(peer, path, name)
    if source is None:
        value_of(peer, path, name)
        raise AssertionError(f"{path}.{name}")
    kind, at = source
    if kind == "module":
        return "a module"
    if kind == "refused":
        row = refusal_at(at)
        assert row is not None
        return f"refused; {row.cure}"
    module, _, attribute = at.partition(":")
    return _text_of_value(module, attribute, value_of(peer, path, name)[0], name)


def _text_of_value(module: str, attribute: str, value: Any, name: str) -> str:
    """Return the text on a name of a peer for which stackgrad has a value."""
    if not module:
        return SAME
    if module in _PUBLIC and attribute == name:
        return f"the same name of `{_PUBLIC[module]}`"
    if module in _PUBLIC:
        return f"`{_PUBLIC[module]}.{attribute}`"
    public = import_module(__name__.rpartition(".compat.")[0])
    if getattr(public, attribute, None) is value:
        if attribute == name:
            return SAME
        return f"`sg.{attribute}`"
    if module.startswith(".compat.") and (
        inspect.isroutine(value) or inspect.isclass(value) or hasattr(value, "__wrapped__")
    ):
        return _first_sentence(value)
    return _text_of_constant(value)


def _first_sentence(value: Any) -> str:
    """Return the first sentence of an object's docstring, without the full stop."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return text.split(". ")[0].rstrip(".")


def _text_of_constant(value: Any) -> str:
    """Return the text on a name whose value has no docstring of its own."""
    if isinstance(value, Arch):
        return f"`sg.{value}`" if value in ARCHES else "becomes the CPU, with a warning"
    if isinstance(value, list | tuple) and not isinstance(value, ModuleType):
        return ", ".join(f"`{part}`" for part in value)
    return _first_sentence(value) if not isinstance(value, ModuleType) else "a module"
