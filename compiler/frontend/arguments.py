"""Arguments of a call: evaluated, matched with parameters, mistakes in their number or names reported."""

from __future__ import annotations

import ast

from .context import Tracer, unpoisoned
from .diagnostics import syntax
from .operands import Operand, Static


def positional(t: Tracer, nodes: list[ast.expr]) -> list[Operand]:
    """Operands of the positional arguments; `*tuple` is expanded if its length is known."""
    found: list[Operand] = []
    for node in nodes:
        if not isinstance(node, ast.Starred):
            found.append(t.expr(node))
            continue
        items = t.items(t.clean(node.value))
        if items is None:
            raise syntax("`*` is taken only before a tuple of known length", "write the arguments one by one", node)
        found.extend(items)
    return found


def arguments(t: Tracer, node: ast.Call, name: str, *params: str) -> list[Operand]:
    """Operands by parameter. A parameter that ends in `=` is optional and `Static(None)` if not given."""
    given = positional(t, node.args)
    names = [p.rstrip("=") for p in params]
    wrong = syntax(f"`{name}` takes {_number_of(params)}, {len(given)} given", f"call it as {_form(name, params)}")
    if len(given) > len(params):
        raise wrong
    found = dict(zip(names, given))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in found:
            text = f"the keyword `{keyword.arg}`" if keyword.arg else "`**`"
            raise syntax(f"`{name}` does not take {text}", f"call it as {_form(name, params)}", keyword.value)
        found[keyword.arg] = t.expr(keyword.value)
    for param in params:
        if param not in found and not param.endswith("="):
            raise wrong
    return [unpoisoned(found.get(p, Static(None))) for p in names]


def _number_of(params: tuple[str, ...]) -> str:
    required = sum(not p.endswith("=") for p in params)
    count = str(len(params)) if required == len(params) else f"{required} to {len(params)}"
    return f"{count} argument{'s' if len(params) != 1 else ''}"


def _form(name: str, params: tuple[str, ...]) -> str:
    return f"`{name}({', '.join(p + '...' if p.endswith('=') else p for p in params)})`"


def refuse_variadic(args: ast.arguments, what: str, trailing: bool = False) -> None:
    """Raises KernelSyntaxError for `**kwargs`, and for `*args` unless `trailing` admits it."""
    for variadic, mark in ((None if trailing else args.vararg, "*"), (args.kwarg, "**")):
        if variadic is not None:
            raise syntax(f"{what} takes `{mark}{variadic.arg}`", "name each parameter")
