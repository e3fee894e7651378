"""Inlining of functions: arguments by value, results through locals, early returns by leaving a scope.

A function that returns once, at its end, needs neither scope nor local. One without results is traced in place, so
that its outermost loops are parallel where the call stands outside all loops.
"""
from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from typing import Any

from ..errors import LocatedError
from ..ir import nodes as n
from ..ir.nodes import Block, Stmt, Value
from ..ir.types import Scalar
from ..ir.walk import map_blocks
from . import infer
from .arguments import positional
from .context import Activation, Tracer
from .diagnostics import Poisoned, Problem, mistyped, syntax
from .functions import Func
from .operands import Operand, Pack, Poison, Static, number, static
from .scope import Fixed, Scopes, Variable
from .source import annotation_of, read_source


def inline(t: Tracer, function: Func, node: ast.Call) -> Operand:
    """The result of a call, the function's statements standing where the call does."""
    target: Any = function.function
    if any(a.function is target for a in t.activations):
        raise syntax(f"`{getattr(target, '__name__', target)}` calls itself: functions are inlined and cannot recurse",
                     "write a loop, with a field as stack if need be")  # fmt: skip
    try:
        source = read_source(target)
    except LocatedError as error:
        first = error.diagnostics[0]
        raise Problem(type(error), first.reason, first.cure) from error
    active = Activation(target, source, is_kernel=False, call_span=t.active.source.span(node))
    _bind(t, active, node)
    if any(isinstance(inner, ast.Return) for inner in ast.walk(source.tree)):
        return _with_returns(t, active)
    return _in_place(t, active)


def _in_place(t: Tracer, active: Activation) -> Static:
    t.activations.append(active)
    try:
        t.run(active.source.tree.body)
    finally:
        t.activations.pop()
    return Static(None, active.function.__name__)


# ---- arguments ------------------------------------------------------------------------------------------------------


def _bind(t: Tracer, active: Activation, node: ast.Call) -> None:
    """Bind parameters in the scopes of the call: what the function assigns becomes a local."""
    tree, function = active.source.tree, active.function
    name = function.__name__
    refuse_variadic(tree.args, f"the function `{name}`")
    given = _given(t, node)
    params = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    for key in given:
        if isinstance(key, int) and key >= len(params) or isinstance(key, str) and key not in [p.arg for p in params]:
            what = f"the keyword `{key}`" if isinstance(key, str) else f"{key + 1} arguments"
            raise syntax(f"`{name}` does not take {what}", f"its parameters are ({', '.join(p.arg for p in params)})")
    defaults = inspect.signature(function).parameters
    assigned = {x.id for x in ast.walk(tree) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    for position, param in enumerate(params):
        operand = given.get(position, given.get(param.arg))
        if operand is None:
            if defaults[param.arg].default is inspect.Parameter.empty:
                raise syntax(f"`{name}` is called without its argument `{param.arg}`", f"give `{param.arg}`")
            operand = static(defaults[param.arg].default, param.arg)
        _bind_one(t, active.scopes, active.source.tree.lineno, param.arg,
                  _annotated(t, function, param, operand), param.arg in assigned)  # fmt: skip


def _given(t: Tracer, node: ast.Call) -> dict[int | str, Operand]:
    given: dict[int | str, Operand] = dict(enumerate(positional(t, node.args)))
    for keyword in node.keywords:
        if keyword.arg is None:
            raise syntax("`**` is not taken in a kernel", "write the arguments one by one", keyword.value)
        given[keyword.arg] = t.expr(keyword.value)
    return given


def refuse_variadic(args: ast.arguments, what: str) -> None:
    """Raises KernelSyntaxError for `*args` and `**kwargs`."""
    for variadic, mark in ((args.vararg, "*"), (args.kwarg, "**")):
        if variadic is not None:
            raise syntax(f"{what} takes `{mark}{variadic.arg}`", "name each parameter")


def _annotated(t: Tracer, function: Any, param: ast.arg, operand: Operand) -> Operand:
    """The argument, converted if its parameter is annotated with a scalar type."""
    dtype = infer.annotated_dtype(annotation_of(function, param.arg), t.options)
    if dtype is None or isinstance(operand, Poison):
        return operand
    return t.stored(operand, dtype, f"the parameter `{param.arg}`")


def _bind_one(t: Tracer, scopes: Scopes, line: int, name: str, operand: Operand, assigned: bool) -> None:
    if assigned and (isinstance(operand, Value) or number(operand) is not None):
        value = t.value(operand)
        local = t.builder.local(t.namer.unique(name), value.type, value)
        scopes.declare(name, Variable(local, value.type), line)
    else:
        kind = "faulty" if isinstance(operand, Poison) else "parameter"
        scopes.declare(name, Fixed(operand, kind), line)


# ---- results --------------------------------------------------------------------------------------------------------


def _with_returns(t: Tracer, active: Activation) -> Operand:
    t.activations.append(active)
    try:
        with t.frame() as active.return_frame, t.block() as body:
            ended = t.run(active.source.tree.body)
        _check_returns(t, active, ended)
    except Problem as problem:
        t.report(problem, active.source.tree)
        raise Poisoned from None
    finally:
        t.activations.pop()
    if not active.returns:
        t.splice(body)
        return Static(None, active.function.__name__)
    last = active.returns[-1]
    if len(active.returns) == 1 and body and body[-1] is last.tail[-1]:
        t.splice(body[: len(body) - len(last.tail)])
        return _result(t, active, last.items, last.is_tuple)
    return _leave_scope(t, active, body)


def _check_returns(t: Tracer, active: Activation, ended: bool) -> None:
    """All returns give the same number of values, and control cannot pass the end of a function that gives some."""
    name, counts = active.function.__name__, {len(site.items) for site in active.returns}
    if len(counts) > 1:
        text = " or ".join(map(str, sorted(counts)))
        raise mistyped(f"`{name}` returns {text} values", "return as many on every path", active.returns[-1].node)
    if active.returns and active.returns[0].items and not ended:
        raise syntax(f"`{name}` can end without returning a value", "return a value on every path", active.source.tree)


def _leave_scope(t: Tracer, active: Activation, body: list[Stmt]) -> Operand:
    """Declare locals of the common types, store to them before each exit, read them after the scope."""
    sites = active.returns
    types: dict[str, Scalar] = {}
    if any(isinstance(item, Poison) for site in sites for item in site.items):
        raise Poisoned
    if any(site.values is None and site.items for site in sites):
        raise mistyped(f"`{active.function.__name__}` returns on several paths, and not a number on each",
                       "return numbers, or choose with `if sg.static(...)`")  # fmt: skip
    for position, name in enumerate(active.result_names):
        dtype = sites[0].values[position].type  # type: ignore[index]
        for site in sites[1:]:
            dtype = infer.common_type(dtype, site.values[position].type)  # type: ignore[index]
        types[name] = dtype
        t.builder.local(name, dtype)
    t.builder.emit(n.Scope(_convert(t, tuple(body), types), loc=t.builder.loc))
    results = tuple(t.builder.get(name, dtype) for name, dtype in types.items())
    return _result(t, active, results, any(site.is_tuple for site in sites))


def _result(t: Tracer, active: Activation, items: tuple[Operand, ...], is_tuple: bool) -> Operand:
    if not items:
        return Static(None, active.function.__name__)
    dtype = infer.annotated_dtype(annotation_of(active.function, "return"), t.options)
    if dtype is not None and not is_tuple:
        return t.stored(items[0], dtype, f"the result of `{active.function.__name__}`")
    return Pack(items) if is_tuple else items[0]


def _convert(t: Tracer, block: Block, types: dict[str, Scalar]) -> Block:
    """The block with each store to a result converted to the result's type."""
    made: list[Stmt] = []
    for stmt in block:
        if isinstance(stmt, n.Set) and stmt.var in types and stmt.value.type != types[stmt.var]:
            value = t.builder.fresh(types[stmt.var])
            made.append(n.Cast(value, stmt.value, loc=stmt.loc))
            stmt = replace(stmt, value=value)
        made.append(map_blocks(stmt, lambda inner: _convert(t, inner, types)))
    return tuple(made)
