"""This module looks up the global or enclosing-scope objects that names in a function denote.

In Python, a name that a function assigns is a local everywhere in the function and cannot be read before it is
assigned. Programs of the dialect do read such a name before; there it denotes the object outside, and a warning is
given. Invariant: the object outside is read, and recorded, only where no local of that name has been made, neither in
an enclosing block nor in a block that has ended.
"""

from __future__ import annotations

import ast
from types import FunctionType, ModuleType
from typing import Any

from .context import Tracer
from .diagnostics import PoisonError, ProblemError, name_problem, suggestion
from .protocols import index_text, is_any_field, is_host_view
from .reads import NameRead, is_builtin, is_settled
from .source import MISSING, outer_name, outer_names


def outer_object(t: Tracer, node: ast.Name) -> Any:
    """Return the global, builtin or enclosing-scope object that a name in the traced function denotes.

    Raises:
        KernelNameError: there is no such object, or a local of this name has ended.
        PoisonError: the error was raised before for this name.
    """
    function, name = t.active.function, node.id
    found = outer_name(function, name)
    is_local = name in t.active.locals
    if found is MISSING or is_local and name in t.scopes.expired:
        raise unknown_name_error(t, node)
    if is_local:
        _tell_of_local(t, node)
    if not (isinstance(found, ModuleType) and is_settled(found)) and not is_builtin(name, function):
        t.reads.append(NameRead(function, name, found))
    return found


def _tell_of_local(t: Tracer, node: ast.Name) -> None:
    """Warn once per name that Python would read a local here, but the kernel reads the outer object of that name."""
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
    """Return the IR name for a local: the name in Python, with the suffix `.local` if a field has that name."""
    return f"{name}.local" if is_any_field(outer_name(t.active.function, name)) else name


def warn_if_unread(t: Tracer, name: str) -> None:
    """Warn that a new local is never read and has the name of a field, which the user may have meant to assign."""
    found, around = outer_name(t.active.function, name), t.active.function.__name__
    if is_any_field(found) and name not in t.active.read:
        t.warn(
            f"`{name}` is a local of `{around}` that nothing reads; the field `{name}` stays as it is",
            f"write `{name}[{index_text(found)}] = ...` to assign an element of the field",
        )


def unknown_name_error(t: Tracer, node: ast.Name) -> ProblemError:
    """Return the error for a name that denotes no object where it is used.

    Raises:
        PoisonError: the error was returned before for this name.
    """
    function, name = t.active.function, node.id
    if (function, name) in t.poisoned:
        raise PoisonError
    t.poisoned.add((function, name))
    t.reads.append(NameRead(function, name, outer_name(function, name)))
    if name in t.scopes.expired:
        return _ended(t, node)
    if name in t.active.locals:
        return name_problem(f"`{name}` is used before it has a value", _cure_of_early_use(function, name), node)
    close = suggestion(name, [*t.scopes.visible(), *outer_names(function)])
    return name_problem(f"the name `{name}` is not known", close or "define it before the kernel is first called", node)


def _cure_of_early_use(function: FunctionType, name: str) -> str:
    found = outer_name(function, name)
    if is_host_view(found):
        return f"assign the local `{name}` first, or write `{name}[i]` for an element of the view"
    if is_any_field(found):
        return f"assign the local `{name}` first, or write `{name}[{index_text(found)}]` for an element of the field"
    return f"assign `{name}` first"


def _ended(t: Tracer, node: ast.Name) -> ProblemError:
    """Return the error for a name whose local was made in a block that has ended."""
    # The block may not have run, so the name may mean the local or the object outside.
    function, name = t.active.function, node.id
    cure = f"give `{name}` a value before the block, as in `{name} = 0.0`"
    if outer_name(function, name) is not MISSING and not is_builtin(name, function):
        cure += f", or the local another name, if `{name}` outside of `{function.__name__}` is meant here"
    line = t.scopes.expired[name]
    return name_problem(
        f"`{name}` is first assigned inside the block at line {line} and ends with that block", cure, node
    )
