"""Names that mean something outside of a function, also where the function makes a local of the same name later on.

In Python a name that a function assigns is its local everywhere, and cannot be read before. Programs of the dialect do
read what it means outside until then; they get that, with a warning. Invariant: what a name means outside is read, and
recorded, only where no local of that name has been made, in this block or in one that has ended.
"""

from __future__ import annotations

import ast
from types import FunctionType, ModuleType
from typing import Any

from .context import Tracer
from .diagnostics import Poisoned, Problem, suggestion, syntax
from .protocols import index_text, is_any_field, is_host_view
from .reads import NameRead, is_builtin
from .source import MISSING, outer_name, outer_names


def outer(t: Tracer, node: ast.Name) -> Any:
    """The object outside the function that a name means. Raises KernelSyntaxError if there is none."""
    function, name = t.active.function, node.id
    found = outer_name(function, name)
    is_local = name in t.active.locals
    if found is MISSING or is_local and name in t.scopes.expired:
        raise meaningless(t, node)
    if is_local:
        _tell_of_local(t, node)
    if not isinstance(found, ModuleType) and not is_builtin(name, function):
        t.reads.append(NameRead(function, name, found))
    return found


def _tell_of_local(t: Tracer, node: ast.Name) -> None:
    """Warn, once for each name of a function, that Python would not read it here."""
    key = t.active.function, node.id
    if key in t.told:
        return
    t.told.add(key)
    around, line = t.active.function.__name__, t.active.locals[node.id]
    t.warn(
        f"`{node.id}` means here what it does outside of `{around}`; line {line} makes it a local of `{around}`, and"
        " Python would look for nothing else",
        "give the local another name; or a value above this line, if the local is meant",
        node,
    )


def local_hint(t: Tracer, name: str) -> str:
    """What the IR calls a local: an array that the program calls the same keeps that name."""
    return f"{name}.local" if is_any_field(outer_name(t.active.function, name)) else name


def tell_if_unread(t: Tracer, name: str) -> None:
    """Warn of a new local that nothing reads, and that is named like a field: the field may be meant."""
    found, around = outer_name(t.active.function, name), t.active.function.__name__
    if is_any_field(found) and name not in t.active.read:
        t.warn(
            f"`{name}` is a local of `{around}` that nothing reads; the field `{name}` stays as it is",
            f"write `{name}[{index_text(found)}] = ...` to assign an element of the field",
        )


def meaningless(t: Tracer, node: ast.Name) -> Problem:
    """The mistake of using a name that stands for nothing here, said once; raises Poisoned after that."""
    function, name = t.active.function, node.id
    if (function, name) in t.poisoned:
        raise Poisoned
    t.poisoned.add((function, name))
    if name in t.scopes.expired:
        return _ended(t, node)
    if name in t.active.locals:
        return syntax(f"`{name}` is used before it has a value", _cure_of_early_use(function, name), node)
    close = suggestion(name, [*t.scopes.visible(), *outer_names(function)])
    return syntax(f"the name `{name}` is not known", close or "define it before the kernel is first called", node)


def _cure_of_early_use(function: FunctionType, name: str) -> str:
    found = outer_name(function, name)
    if is_host_view(found):
        return f"assign the local `{name}` first, or write `{name}[i]` for an element of the view"
    if is_any_field(found):
        return f"assign the local `{name}` first, or write `{name}[{index_text(found)}]` for an element of the field"
    return f"assign `{name}` first"


def _ended(t: Tracer, node: ast.Name) -> Problem:
    """The local was made in a block that may have run or not, so neither it nor what is outside is meant for sure."""
    function, name = t.active.function, node.id
    cure = f"give `{name}` a value before the block, as in `{name} = 0.0`"
    if outer_name(function, name) is not MISSING and not is_builtin(name, function):
        cure += f", or the local another name, if `{name}` outside of `{function.__name__}` is meant here"
    line = t.scopes.expired[name]
    return syntax(f"`{name}` is first assigned inside the block at line {line} and ends with that block", cure, node)
