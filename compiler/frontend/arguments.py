"""This module evaluates the arguments of a call, matches them with parameters and reports a wrong number or name."""

from __future__ import annotations

import ast

from .context import Tracer, require_value
from .diagnostics import syntax_problem
from .operands import Operand, Static


def positional(t: Tracer, nodes: list[ast.expr]) -> list[Operand]:
    """Return the operands of the positional arguments, with `*tuple` expanded if its length is known.

    Raises:
        ProblemError: `*` stands before an operand of unknown length.
    """
    found: list[Operand] = []
    for node in nodes:
        if not isinstance(node, ast.Starred):
            found.append(t.expr(node))
            continue
        items = t.items(t.clean(node.value))
        if items is None:
            raise syntax_problem(
                "`*` is taken only before a tuple of known length", "write the arguments one by one", node
            )
        found.extend(items)
    return found


def arguments(t: Tracer, node: ast.Call, name: str, *params: str) -> list[Operand]:
    """Return the operands of a call, one for each of the parameters `params` in order.

    Args:
        t: the tracer.
        node: the call.
        name: name of the function in messages.
        params: names of the parameters. A name that ends in `=` is optional, and `Static(None)` stands for it if it is
            not given.

    Raises:
        ProblemError: the number or the names of the arguments do not fit.
    """
    given = positional(t, node.args)
    names = [p.rstrip("=") for p in params]
    wrong = syntax_problem(
        f"`{name}` takes {_number_of(params)}, {len(given)} given", f"call it as {_form(name, params)}"
    )
    if len(given) > len(params):
        raise wrong
    found = dict(zip(names, given))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in found:
            text = f"the keyword `{keyword.arg}`" if keyword.arg else "`**`"
            raise syntax_problem(f"`{name}` does not take {text}", f"call it as {_form(name, params)}", keyword.value)
        found[keyword.arg] = t.expr(keyword.value)
    for param in params:
        if param not in found and not param.endswith("="):
            raise wrong
    return [require_value(found.get(p, Static(None))) for p in names]


def _number_of(params: tuple[str, ...]) -> str:
    required = sum(not p.endswith("=") for p in params)
    count = str(len(params)) if required == len(params) else f"{required} to {len(params)}"
    return f"{count} argument{'s' if len(params) != 1 else ''}"


def _form(name: str, params: tuple[str, ...]) -> str:
    return f"`{name}({', '.join(p + '...' if p.endswith('=') else p for p in params)})`"


def refuse_variadic(args: ast.arguments, what: str, trailing: bool = False) -> None:
    """Raise an error for `**kwargs`, and for `*args` unless `trailing` allows it.

    Args:
        args: parameters of the definition.
        what: description of the function in the message.
        trailing: True if `*args` is allowed.

    Raises:
        ProblemError: the definition has a variadic parameter.
    """
    for variadic, mark in ((None if trailing else args.vararg, "*"), (args.kwarg, "**")):
        if variadic is not None:
            raise syntax_problem(f"{what} takes `{mark}{variadic.arg}`", "name each parameter")
