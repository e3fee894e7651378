"""This module traces statements other than loops: a function per class of syntax tree node, in the table STATEMENTS.

A handler returns True if control never passes the end of the statement.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..ir import nodes as n
from ..ir.statement import Value
from ..ir.types import u1
from . import refused_names, type_inference
from .activation import ElifChain, ReturnSite
from .aggregates import find_type
from .context import STATEMENTS, Tracer, require_value
from .conversions import conform
from .diagnostics import PoisonError, ProblemError, name_problem, syntax_problem, type_problem
from .expressions import binary
from .functions import function_name
from .members import is_container
from .operands import Operand, Poison, Static, describe, number_of, static_operand
from .places import assign, is_atomic, load, place, store, update
from .reads import NameRead
from .returns import return_from_kernel
from .scope import FixedName
from .source import MISSING, outer_name
from .static import evaluate_static, static_call
from .text import assertion_text
from .trees import leaves


@STATEMENTS.row(ast.Expr)
def _expression(t: Tracer, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):
        t.expr(node.value)


@STATEMENTS.row(ast.Pass)
def _pass(t: Tracer, node: ast.Pass) -> None:
    return None


# ---- assignment ---------------------------------------------------------------------------------------------------


@STATEMENTS.row(ast.Assign)
def _assign(t: Tracer, node: ast.Assign) -> None:
    call = static_call(t, node.value)
    if call is not None:
        operand: Operand = evaluate_static(t, call)
        for target in node.targets:
            if isinstance(target, (ast.Subscript, ast.Attribute)):
                assign(t, target, operand)
            else:
                bind_static(t, target, operand)
        return
    operand = t.expr(node.value)
    if isinstance(operand, Static) and is_container(operand.value) and isinstance(node.targets[0], ast.Name):
        # Kernels only read an object that contains fields, so a second name for it is known at compile time too.
        for target in node.targets:
            bind_static(t, target, operand)
        return
    for target in node.targets:
        if isinstance(operand, Poison) and isinstance(target, ast.Subscript):
            # The target is evaluated only to report the mistakes in it.
            place(t, target)
    for target in node.targets:
        assign(t, target, require_value(operand))


def bind_static(t: Tracer, target: ast.expr, operand: Operand) -> None:
    """Bind names to objects known at compile time. A tuple of names receives the items of a sequence."""
    if isinstance(target, ast.Name):
        _bind_name(t, target, FixedName(operand, "static value"))
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise syntax_problem("a static value is bound to a name", "store it with a plain assignment", target)
    try:
        values = tuple(operand.value) if isinstance(operand, Static) else ()
    except TypeError:
        values = ()
    if len(values) != len(target.elts):
        raise type_problem(
            f"{len(target.elts)} names do not fit {describe(operand)}", "give one name for each value", target
        )
    for inner, value in zip(target.elts, values):
        bind_static(t, inner, static_operand(value, inner.id if isinstance(inner, ast.Name) else ""))


def _bind_name(t: Tracer, target: ast.Name, binding: FixedName) -> None:
    """Bind a name to a compile-time object; refuse to rebind it in a block that may or may not run."""
    found = t.scopes.find(target.id)
    if found is None or target.id == "_":
        t.scopes.declare(target.id, binding, target.lineno)
    elif not isinstance(found, FixedName) or found.kind not in ("static value", "faulty"):
        raise syntax_problem(
            f"`{target.id}` is known at launch only and cannot become a static value", "choose another name", target
        )
    elif not t.scopes.rebind(target.id, binding, target.lineno):
        raise syntax_problem(
            f"the static value `{target.id}` cannot change in a block that may run or not",
            "use a plain local, without `sg.static`",
            target,
        )


@STATEMENTS.row(ast.AnnAssign)
def _annotated(t: Tracer, node: ast.AnnAssign) -> None:
    declared = _declared(t, node.annotation)
    kind = find_type(declared.value, t.options, is_open=True) if isinstance(declared, Static) else None
    if kind is None:
        raise type_problem(
            f"`{ast.unparse(node.annotation)}` is not a type of a local",
            "annotate with `sg.f32`, a vector, matrix or struct type",
        )
    if node.value is None:
        raise syntax_problem("a local needs a value where it is declared", f"write `{ast.unparse(node)} = 0`")
    assign(t, node.target, conform(t, t.clean(node.value), kind, f"`{ast.unparse(node.target)}`"))


def _declared(t: Tracer, node: ast.expr) -> Operand:
    """Return the operand of a local's type annotation. Raise ProblemError if a name in the annotation is unknown.

    Python does not evaluate such annotations, and keeps no name of a function that occurs only in annotations.
    """
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    for name in names:
        if t.scopes.find(name) is None and outer_name(t.active.function, name) is MISSING:
            t.reads.append(NameRead(t.active.function, name, MISSING))
            raise name_problem(
                f"the type `{name}` is not known: Python keeps no name of a function for annotations alone",
                f"define `{name}` at the top of the file, or convert the value with it",
                node,
            )
    return t.clean(node)


@STATEMENTS.row(ast.AugAssign)
def _augmented(t: Tracer, node: ast.AugAssign) -> None:
    row = type_inference.BINARY.get(type(node.op))
    target = place(t, node.target)
    if row is not None and is_atomic(target, row.op):
        update(t, target, row.op, t.expr(node.value), row)
        return
    old = load(t, target)
    store(t, target, binary(t, node.op, old, t.expr(node.value)))


# ---- branches and exits ---------------------------------------------------------------------------------------------


_CHAIN = 24
"""Number of links of a chain of `elif` that are nested in each other."""


@STATEMENTS.row(ast.If)
def _if(t: Tracer, node: ast.If) -> bool:
    chain, t.chain = t.chain, None
    if chain is not None or not _is_long(node):
        return _link(t, node, chain)
    return _long_chain(t, node)


def _is_long(node: ast.If) -> bool:
    links = 0
    while links <= _CHAIN and _is_chained(node.orelse):
        node, links = node.orelse[0], links + 1  # type: ignore[assignment]
    return links > _CHAIN


def _is_chained(orelse: list[ast.stmt]) -> bool:
    return len(orelse) == 1 and isinstance(orelse[0], ast.If)


def _long_chain(t: Tracer, node: ast.If) -> bool:
    """Emit a long `elif` chain as shallow nests joined by flags. Return True if no branch continues after the chain.

    A flag leads to the next part:

    if a {..} else { if b {..} else { set more } }; if more { if c {..} else { if d .. } }
    """
    ends, flag = True, ""
    rest: list[ast.stmt] = [node]
    while rest:
        chain = ElifChain(t.builder.local(t.namer.unique("_elif"), u1), _CHAIN)
        if not flag:
            ends = _link(t, node, chain)
        else:
            with t.block() as part:
                t.chain = chain
                ends = t.run(rest) and ends
            t.builder.if_(t.builder.get(flag, u1), part)
        rest, flag = chain.rest, chain.name
    return ends


def _link(t: Tracer, node: ast.If, chain: ElifChain | None) -> bool:
    call = static_call(t, node.test)
    if call is not None:
        return t.run(node.body) if evaluate_static(t, call).value else _otherwise(t, node.orelse, chain)
    condition = guarded_condition(t, node.test)
    with t.block() as then:
        ends = t.run(node.body)
    with t.block() as orelse:
        ends = _otherwise(t, node.orelse, chain) and ends
    t.builder.if_(condition, then, orelse)
    return ends


def _otherwise(t: Tracer, orelse: list[ast.stmt], chain: ElifChain | None) -> bool:
    """Trace an `else`, or defer an `elif` that would nest too deep. Return True if control cannot continue."""
    if chain is not None and _is_chained(orelse):
        if not chain.left:
            t.builder.set(chain.name, t.builder.const(True, u1))
            chain.rest = orelse
            return True
        chain.left -= 1
        t.chain = chain
    return t.run(orelse)


def guarded_condition(t: Tracer, node: ast.expr) -> Value:
    """Return a condition as a boolean value, or False after a reported mistake, so that the body is traced too."""
    try:
        return t.condition(t.expr(node))
    except ProblemError as problem:
        t.report(problem, node)
    except PoisonError:
        pass
    return t.builder.const(False, u1)


@STATEMENTS.row(ast.Break)
def _break(t: Tracer, node: ast.Break) -> bool:
    loop = t.active.loops[-1]
    # A `while True` with a `break` can be passed.
    loop.broken = True
    if loop.break_to is None:
        raise syntax_problem(
            "`break` cannot leave a parallel loop: its iterations run at once",
            "end one iteration with `continue`, or make the loop serial",
        )
    t.builder.emit(n.Break(t.depth(loop.break_to), loc=t.builder.loc))
    return True


@STATEMENTS.row(ast.Continue)
def _continue(t: Tracer, node: ast.Continue) -> bool:
    loop = t.active.loops[-1]
    if loop.continue_to is None:
        t.builder.emit(n.Return(loc=t.builder.loc))
    # An unrolled trip is a scope, which is left to reach the next trip.
    elif loop.kind == "unrolled":
        t.builder.emit(n.Break(t.depth(loop.continue_to), loc=t.builder.loc))
    else:
        t.builder.emit(n.Continue(t.depth(loop.continue_to), loc=t.builder.loc))
    return True


@STATEMENTS.row(ast.Return)
def _return(t: Tracer, node: ast.Return) -> bool:
    if not t.active.is_kernel:
        return _return_from_function(t, node)
    return return_from_kernel(t, node, t.results)


def _return_from_function(t: Tracer, node: ast.Return) -> bool:
    """Emit stores of an inlined func's results and a `break` out of its scope. Always return True: control ends."""
    operand = Static(None) if node.value is None else t.expr(node.value)
    items = () if isinstance(operand, Static) and operand.value is None else leaves(operand)
    values, active = None, t.active
    with t.builder.block() as tail:
        if items and all(isinstance(i, Value) or number_of(i) is not None for i in items):
            values = tuple(t.value(i) for i in items)
            names = active.result_names
            missing = len(values) - len(names)
            active.result_names = names + tuple(t.namer.unique(active.function.__name__) for _ in range(missing))
            for name, value in zip(active.result_names, values):
                t.builder.set(name, value)
        t.builder.emit(n.Break(t.depth(active.return_frame), loc=t.builder.loc))
    t.splice(tail)
    active.returns.append(ReturnSite(operand, values, tail, node))
    return True


@STATEMENTS.row(ast.Assert)
def _assert(t: Tracer, node: ast.Assert) -> None:
    condition = t.condition(t.expr(node.test))
    t.builder.emit(n.Assert(condition, assertion_text(t, node), loc=t.builder.loc))


# ---- what the language does not have --------------------------------------------------------------------------------


def _refusal(reason: str, cure: str) -> Callable[[Tracer, ast.stmt], None]:
    def refuse(t: Tracer, node: ast.stmt) -> None:
        raise syntax_problem(reason, cure)

    return refuse


_PLAIN_CONTEXTS = ("stream_parallel", "graph_parallel", "graph_parallel_context")
"""In these contexts a device may run everything at once; the order of the text is one of the allowed orders."""


@STATEMENTS.row(ast.With)
def _with(t: Tracer, node: ast.With) -> bool:
    """Trace a `with` statement as its body alone, if its context only permits concurrency; else raise an error."""
    for item in node.items:
        call = item.context_expr
        callee = t.expr(call.func) if isinstance(call, ast.Call) else None
        name = function_name(callee.value) if isinstance(callee, Static) else None
        if name not in _PLAIN_CONTEXTS or item.optional_vars is not None:
            raise syntax_problem(*refused_names.STATEMENTS["With"])
        assert isinstance(call, ast.Call)
        if call.args or call.keywords:
            raise syntax_problem(
                f"`{ast.unparse(call.func)}` takes no arguments", f"write `{ast.unparse(call.func)}()`"
            )
    return t.run(node.body)


for _class in STATEMENTS.keys:
    if _class is not ast.With and _class.__name__ in refused_names.STATEMENTS:
        STATEMENTS[_class] = _refusal(*refused_names.STATEMENTS[_class.__name__])
