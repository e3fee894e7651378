"""This module decides if the source text found in a file is the text that a function was compiled from.

Files change after they were imported; code objects do not. The definition found in the file is compiled again, in
surroundings that give its free names the same meaning. The two code objects are compared in everything that decides
what they do: instructions, constants, names, code inside. Decorators, defaults and annotations run where the definition
stands and are part of neither code object; line numbers are not compared either.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from itertools import product, zip_longest
from types import CodeType
from typing import Any

_FUTURE = 0x1FE_0000
"""These flags of code objects are set by `from __future__` and decide how a function is compiled."""

_KINDS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200
"""These flags of code objects mean `*args`, `**keywords`, a generator, a coroutine and an asynchronous generator."""

_COMPARED = (
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_exceptiontable",
)

_BARE = "definition alone"
"""This name is given to the definition that is compiled; no function can use it as one of its own names."""

ASSERTIONS = "@pytest_ar"
"""Code whose assertions pytest has rewritten contains this name."""


def is_text_of(
    tree: ast.FunctionDef, code: CodeType, is_rewritten: bool = False, imports: Callable[[], set[str]] = set
) -> bool:
    """Return True if a function definition compiles to the given code object.

    Args:
        tree: the definition.
        code: code of the function.
        is_rewritten: True if an import hook may have added to the code, so that the code may contain more than the
            text.
        imports: function that returns the names that the file imports.
    """
    called, own = _called(tree), {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    guesses: tuple[Callable[[], set[str]], ...] = (
        lambda: called.intersection(code.co_names) - own,
        set,
        lambda: called & imports(),
    )
    # The text does not show which class and which imports surrounded the definition, so all candidates are tried.
    for owner, guess in product(_owners(code), guesses):
        made = _compiled(tree, code, owner, guess())
        if made is not None and is_same(made, code):
            return True
    if ASSERTIONS in code.co_names:
        tree = _AssertRemover().visit(copy.deepcopy(tree))
        is_rewritten = True
    if not is_rewritten:
        return False
    made = _compiled(tree, code, "", set())
    return made is not None and _is_within(made, code)


def _owners(code: CodeType) -> Iterator[str]:
    """Yield "" and then, innermost first, the names of the classes that may enclose the function, for name mangling."""
    yield ""
    for part in reversed(code.co_qualname.split(".")[:-1]):
        if part != "<locals>":
            yield part


def _called(tree: ast.FunctionDef) -> set[str]:
    """Return the variables on which a method is called, such as `a` in `a.f()`.

    Python compiles such a call to other instructions if the module imports the name.
    """
    called = [
        node.func.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    return {node.id for node in called if isinstance(node, ast.Name)}


def imported_names(module: ast.Module) -> set[str]:
    """Return the names that the statements of a module import outside of functions and classes."""
    found: set[str] = set()
    left: list[ast.AST] = [module]
    while left:
        node = left.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            left += ast.iter_child_nodes(node)
    return found


def _compiled(tree: ast.FunctionDef, code: CodeType, owner: str, imports: set[str]) -> CodeType | None:
    """Return the code object that a definition compiles to on its own, or None if it does not compile.

    Args:
        tree: the definition.
        code: code of the function, whose free names and flags are used.
        owner: name of the class around the definition, "" for none.
        imports: names that the module is assumed to import.
    """
    bare = _copied(tree)
    body: list[ast.stmt] = [bare]
    if owner:
        elsewhere: list[ast.stmt] = [] if owner in code.co_freevars else [ast.Global([owner])]
        body = [*elsewhere, ast.ClassDef(owner, [], [], body, [], **_no_types())]
    free = ast.arguments([], [ast.arg(name) for name in code.co_freevars], None, [], [], None, [])
    around = ast.FunctionDef("around", free, body, [], None, **_no_types())
    above: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in sorted(imports)]
    module = ast.fix_missing_locations(ast.Module([*above, around], []))
    try:
        found: CodeType = compile(module, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)
        for name in ("around", owner, _BARE):
            found = next(inner for inner in _inside(found) if inner.co_name == name) if name else found
    except (SyntaxError, ValueError, StopIteration, RecursionError):
        return None
    return found


def _copied(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return a copy of the definition without decorators, defaults and annotations, but with the same body."""
    given = tree.args
    plain = {kind: [ast.arg(arg.arg) for arg in getattr(given, kind)] for kind in ("posonlyargs", "args", "kwonlyargs")}
    rest = [None if arg is None else ast.arg(arg.arg) for arg in (given.vararg, given.kwarg)]
    args = ast.arguments(
        plain["posonlyargs"], plain["args"], rest[0], plain["kwonlyargs"], [None] * len(given.kwonlyargs), rest[1], []
    )
    return ast.copy_location(ast.FunctionDef(_BARE, args, tree.body, [], None, **_no_types()), tree)


def _no_types() -> dict[str, Any]:
    return {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}


class _AssertRemover(ast.NodeTransformer):
    """This transformer replaces the assertions in a syntax tree by `pass`."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Return a `pass` statement in place of an assertion."""
        return ast.copy_location(ast.Pass(), node)


def _inside(code: CodeType) -> Iterator[CodeType]:
    return (found for found in code.co_consts if isinstance(found, CodeType))


# ---- comparing ------------------------------------------------------------------------------------------------------


def is_same(one: CodeType, other: CodeType) -> bool:
    """Return True if two code objects have the same instructions, names and constants; positions may differ."""
    if any(getattr(one, name) != getattr(other, name) for name in _COMPARED):
        return False
    return (one.co_flags ^ other.co_flags) & _KINDS == 0 and _are_same(one.co_consts, other.co_consts)


def _are_same(some: Iterable[Any], others: Iterable[Any]) -> bool:
    return all(_is_same_constant(a, b) for a, b in zip_longest(some, others, fillvalue=...))


def _is_same_constant(a: Any, b: Any) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return a.co_name == b.co_name and is_same(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _are_same(a, b)
    # The full name of a class inside the function differs in the part before the name of the function.
    if isinstance(a, str) and isinstance(b, str) and _BARE in a:
        return b.endswith(a.partition(_BARE)[2])
    return bool(_word(a) == _word(b))


def _word(constant: Any) -> Any:
    """Return a key of a constant of Python code: unlike `==`, it distinguishes 0.0 from -0.0 and 1 from True."""
    if isinstance(constant, frozenset):
        return frozenset, frozenset(map(_word, constant))
    return type(constant), repr(constant)


def _is_within(part: CodeType, whole: CodeType) -> bool:
    """Return True if all names, parameters and constants of `part` also occur in `whole`."""
    for name in ("co_names", "co_varnames", "co_freevars", "co_cellvars"):
        if not set(getattr(part, name)) <= set(getattr(whole, name)):
            return False
    return set(map(_word, _plain(part))) <= set(map(_word, _plain(whole)))


def _plain(code: CodeType) -> list[Any]:
    return [found for found in code.co_consts if not isinstance(found, CodeType)]
