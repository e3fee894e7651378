"""This module inlines calls of funcs: arguments are passed by value, and an early return leaves a scope of the IR.

A function that returns once, at its end, needs neither scope nor local. A function without results is traced in place,
so that its outermost loops are parallel if the call stands outside all loops.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import LocatedError
from ..ir import nodes as n
from ..ir.statement import Block, Stmt, Value
from ..ir.types import Scalar
from ..ir.walk import map_blocks
from . import type_inference
from .activation import Activation, ReturnSite
from .aggregates import ElementType, aggregate_type, is_template, view_type
from .arguments import positional, refuse_variadic
from .assigned_names import assigned_in_body
from .context import Tracer
from .conversions import conform
from .diagnostics import PoisonError, ProblemError, syntax_problem, type_problem
from .functions import Func
from .lambdas import lambda_source
from .memory import PLACES, Place, declare, resolve
from .operands import Operand, Pack, Poison, Static, describe, number_of, static_operand
from .reads import definition_reads, failed_reads
from .scope import FixedName, ReferenceName, Scopes
from .source import annotation_of, has_return, read_source
from .trees import form, leaves, with_leaves
from .views import check_annotation


def inline(t: Tracer, function: Func, node: ast.Call, receiver: Place | Operand | None = None) -> Operand:
    """Inline a call of a func: emit the statements of the func at the call and return its result.

    Args:
        t: the tracer.
        function: the func that is called.
        node: the call.
        receiver: first argument of a method; a place is taken by reference.

    Raises:
        ProblemError: the call is recursive, its arguments do not fit, or the source cannot be read.
    """
    target: Any = function.function
    # Inlining a recursive function would never end.
    if any(a.function is target for a in t.activations):
        raise syntax_problem(
            f"`{getattr(target, '__name__', target)}` calls itself: functions are inlined and cannot recurse",
            "write a loop, with a field as stack if need be",
        )
    try:
        is_lambda = getattr(target, "__name__", "") == "<lambda>"
        source = lambda_source(target.__code__) if is_lambda else read_source(target)
    except LocatedError as error:
        t.reads += failed_reads(target, "source")
        first = error.diagnostics[0]
        raise ProblemError(type(error), first.reason, first.cure) from error
    active = Activation(target, source, is_kernel=False, call_span=t.active.source.span(node))
    _bind(t, active, node, receiver)
    if has_return(source.tree):
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


def _bind(t: Tracer, active: Activation, node: ast.Call, receiver: Place | Operand | None) -> None:
    """Bind the parameters in the scopes of the call; a parameter that the function assigns becomes a local."""
    tree, function = active.source.tree, active.function
    refuse_variadic(tree.args, f"the function `{function.__name__}`", trailing=True)
    params = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    if receiver is not None:
        _bind_receiver(active, params.pop(0), receiver)
    shared = [param.arg for param in params if is_template(annotation_of(function, param.arg))]
    given = _given(t, node, [param.arg for param in params], shared)
    rest = _taken_rest(tree.args, given, len(params) - len(tree.args.kwonlyargs))
    if tree.args.vararg is not None:
        active.scopes.declare(tree.args.vararg.arg, FixedName(rest, "parameter"), tree.lineno)
    _check_names(function.__name__, params, given)
    assigned = assigned_in_body(tree)
    for position, param in enumerate(params):
        found = given.get(position, given.get(param.arg))
        if found is None:
            found = _default(t, function, param)
        # Only template parameters get places; they are taken by reference.
        if isinstance(found, PLACES):
            active.scopes.declare(param.arg, ReferenceName(found), tree.lineno)
        else:
            operand = _annotated(t, function, param, found)
            _bind_one(t, active.scopes, tree.lineno, param.arg, operand, param.arg in assigned)


def _taken_rest(args: ast.arguments, given: dict[int | str, Place | Operand], count: int) -> Pack:
    """Remove all positional arguments after the first `count` from `given`, and return them as the func's `*args`."""
    if args.vararg is None:
        return Pack(())
    rest = [given.pop(key) for key in sorted(k for k in given if isinstance(k, int) and k >= count)]
    return Pack(tuple(rest))  # type: ignore[arg-type]  # only named parameters take places


def _check_names(name: str, params: list[ast.arg], given: Mapping[int | str, Any]) -> None:
    names = [param.arg for param in params]
    for key in given:
        if isinstance(key, int) and key >= len(params) or isinstance(key, str) and key not in names:
            what = f"the keyword `{key}`" if isinstance(key, str) else f"{key + 1} arguments"
            raise syntax_problem(f"`{name}` does not take {what}", f"its parameters are ({', '.join(names)})")


def _default(t: Tracer, function: Any, param: ast.arg) -> Operand:
    default = inspect.signature(function).parameters[param.arg].default
    if default is inspect.Parameter.empty:
        raise syntax_problem(
            f"`{function.__name__}` is called without its argument `{param.arg}`", f"give `{param.arg}`"
        )
    t.reads += definition_reads(function)
    return static_operand(default, param.arg)


def _bind_receiver(active: Activation, param: ast.arg, receiver: Place | Operand) -> None:
    """Bind `self` of a method: by reference if the receiver is memory, which the method can change, else by value."""
    binding = ReferenceName(receiver) if isinstance(receiver, PLACES) else FixedName(receiver, "parameter")
    active.scopes.declare(param.arg, binding, active.source.tree.lineno)


def _given(t: Tracer, node: ast.Call, names: list[str], shared: list[str]) -> dict[int | str, Place | Operand]:
    """Return the arguments of a call by position or name. Those of parameters in `shared` are passed by reference."""
    given: dict[int | str, Place | Operand] = {}
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        given.update(enumerate(positional(t, node.args)))
    else:
        for position, argument in enumerate(node.args):
            by_reference = position < len(names) and names[position] in shared
            given[position] = resolve(t, argument) if by_reference else t.expr(argument)
    for keyword in node.keywords:
        if keyword.arg is None:
            raise syntax_problem("`**` is not taken in a kernel", "write the arguments one by one", keyword.value)
        given[keyword.arg] = resolve(t, keyword.value) if keyword.arg in shared else t.expr(keyword.value)
    return given


def _annotated(t: Tracer, function: Any, param: ast.arg, operand: Operand) -> Operand:
    """Return the argument, converted if its parameter is annotated with a type of numbers, vectors or structs."""
    annotation = annotation_of(function, param.arg)
    kind, view = annotated_kind(t, annotation), view_type(annotation)
    if isinstance(operand, Poison):
        return operand
    if view is not None:
        check_annotation(t, view, operand, f"the parameter `{param.arg}`")
    if kind is None:
        return operand
    return conform(t, operand, kind, f"the parameter `{param.arg}`")


def annotated_kind(t: Tracer, annotation: Any) -> ElementType | None:
    """Return the type that a parameter's annotation denotes, or None if it denotes no type of numbers."""
    return type_inference.annotated_dtype(annotation, t.options) or aggregate_type(annotation, t.options, is_open=True)


def _bind_one(t: Tracer, scopes: Scopes, line: int, name: str, operand: Operand, assigned: bool) -> None:
    holds = all(isinstance(leaf, Value) or number_of(leaf) is not None for leaf in leaves(operand))
    if assigned and holds:
        scopes.declare(name, declare(t, name, operand), line)
    else:
        kind = "faulty" if isinstance(operand, Poison) else "parameter"
        scopes.declare(name, FixedName(operand, kind), line)


# ---- results --------------------------------------------------------------------------------------------------------


def _with_returns(t: Tracer, active: Activation) -> Operand:
    t.activations.append(active)
    try:
        with t.frame() as active.return_frame, t.block() as body:
            ended = t.run(active.source.tree.body)
        _check_returns(t, active, ended)
    except ProblemError as problem:
        t.report(problem, active.source.tree)
        raise PoisonError from None
    finally:
        t.activations.pop()
    if not active.returns:
        t.splice(body)
        return Static(None, active.function.__name__)
    last = active.returns[-1]
    # A single return at the end needs no scope: its tail, the stores and the break, is cut off.
    if len(active.returns) == 1 and body and body[-1] is last.tail[-1]:
        t.splice(body[: len(body) - len(last.tail)])
        return _result(t, active, last.operand)
    return _leave_scope(t, active, body)


def _check_returns(t: Tracer, active: Activation, ended: bool) -> None:
    """Check that all returns of a func have the same structure and that no path ends without a required result."""
    name, forms = active.function.__name__, {form(site.operand): site for site in active.returns}
    if len(forms) > 1:
        first, second = list(forms.values())[:2]
        raise type_problem(
            f"`{name}` returns {_text(first)} or {_text(second)}", "return alike on every path", second.node
        )
    if active.returns and not _is_none(active.returns[0].operand) and not ended:
        raise syntax_problem(
            f"`{name}` can end without returning a value", "return a value on every path", active.source.tree
        )


def _is_none(operand: Operand) -> bool:
    return isinstance(operand, Static) and operand.value is None


def _text(site: ReturnSite) -> str:
    if isinstance(site.operand, Pack):
        return f"{len(site.operand.items)} values"
    return "nothing" if _is_none(site.operand) else describe(site.operand)


def _leave_scope(t: Tracer, active: Activation, body: list[Stmt]) -> Operand:
    """Emit a scope with the body of a func that returns early; return the result, loaded from result locals.

    Each exit of the scope stores the returned numbers to locals; the type of a local is the common type of all numbers
    that are stored to it.
    """
    sites = active.returns
    types: dict[str, Scalar] = {}
    if any(isinstance(leaf, Poison) for site in sites for leaf in leaves(site.operand)):
        raise PoisonError
    if _is_none(sites[0].operand):
        t.builder.emit(n.Scope(tuple(body), loc=t.builder.loc))
        return _result(t, active, Static(None))
    if any(site.values is None for site in sites):
        raise type_problem(
            f"`{active.function.__name__}` returns on several paths, and not a number on each",
            "return numbers, or choose with `if sg.static(...)`",
        )
    for position, name in enumerate(active.result_names):
        dtype = sites[0].values[position].type  # type: ignore[index]
        # The local has a type that all returned values can be converted to.
        for site in sites[1:]:
            dtype = type_inference.common_type(dtype, site.values[position].type)  # type: ignore[index]
        types[name] = dtype
        t.builder.local(name, dtype)
    t.builder.emit(n.Scope(_convert(t, tuple(body), types), loc=t.builder.loc))
    results = [t.builder.get(name, dtype) for name, dtype in types.items()]
    return _result(t, active, with_leaves(sites[0].operand, results))


def _result(t: Tracer, active: Activation, operand: Operand) -> Operand:
    if _is_none(operand):
        return Static(None, active.function.__name__)
    kind = annotated_kind(t, annotation_of(active.function, "return"))
    if kind is not None and not isinstance(operand, Pack):
        return conform(t, operand, kind, f"the result of `{active.function.__name__}`")
    return operand


def _convert(t: Tracer, block: Block, types: dict[str, Scalar]) -> Block:
    """Return the block with all values stored to the named locals converted to the given types."""
    made: list[Stmt] = []
    for stmt in block:
        if isinstance(stmt, n.Set) and stmt.var in types and stmt.value.type != types[stmt.var]:
            value = t.builder.fresh(types[stmt.var])
            made.append(n.Cast(value, stmt.value, loc=stmt.loc))
            stmt = replace(stmt, value=value)
        made.append(map_blocks(stmt, lambda inner: _convert(t, inner, types)))
    return tuple(made)
