"""From a Python function to a kernel of stage `source`: the entry point of the frontend.

Names are looked up when the kernel is traced, not when it is defined. Either all mistakes are raised in one error, or
the kernel is complete.
"""
from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from ..errors import Diagnostic
from ..ir.nodes import Kernel, Param, Task
from ..ir.types import Scalar
from ..ir.walk import renumber
from . import branches, loops, mathematics, statements  # noqa: F401  (they fill the tables)
from .context import Activation, Tracer
from .diagnostics import Problem, syntax, unsupported
from .infer import FrontendOptions, annotated_dtype
from .inline import refuse_variadic
from .scope import Argument as ArgumentBinding
from .scope import Namer
from .source import annotation_of, read_source


@dataclass(frozen=True)
class Argument:
    """A scalar argument: its name in the IR and its type, in the order of the Python signature."""

    name: str
    type: Scalar


@dataclass(frozen=True)
class Traced:
    """A traced function. arrays: the captured field behind each array parameter, `x.grad` included."""

    kernel: Kernel
    arrays: dict[str, object]
    arguments: tuple[Argument, ...]
    warnings: tuple[Diagnostic, ...]


def trace(function: Any, options: FrontendOptions | None = None, name: str | None = None) -> Traced:
    """Trace a Python function as a kernel.

    function: a plain function with source; scalar parameters are annotated. name: the kernel's, if not the function's.
    Raises KernelSyntaxError, KernelTypeError or Unsupported with every mistake found.
    """
    source = read_source(function)
    t = Tracer(options or FrontendOptions())
    t.activations.append(Activation(function, source, is_kernel=True))
    arguments = _parameters(t, source.tree, function)
    t.run(source.tree.body)
    t.diagnostics.raise_errors(source.file)
    loops.flush(t)
    kernel = Kernel(Namer().unique(name or function.__name__), _params(t, arguments), _tasks(t), (), tuple(t.locations))
    return Traced(renumber(kernel), t.captures.objects(), arguments, t.diagnostics.warnings)


def _params(t: Tracer, arguments: tuple[Argument, ...]) -> tuple[Param, ...]:
    return (*(Param(a.name, a.type) for a in arguments), *t.captures.params())


def _tasks(t: Tracer) -> tuple[Task, ...]:
    rename = t.captures.rename
    return tuple(replace(task, body=rename(task.body), bounds=rename(task.bounds)) for task in t.tasks)


def _parameters(t: Tracer, tree: ast.FunctionDef, function: FunctionType) -> tuple[Argument, ...]:
    """Scalar arguments from the signature; mistakes are reported, not raised."""
    try:
        refuse_variadic(tree.args, "the kernel")
    except Problem as problem:
        t.report(problem, tree.args.vararg or tree.args.kwarg or tree)
    found = []
    for param in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
        try:
            dtype = _annotation(t, param, function)
        except Problem as problem:
            t.report(problem, param)
            t.poison(param.arg, param.lineno)
            continue
        argument = Argument(t.namer.unique(param.arg), dtype)
        t.scopes.declare(param.arg, ArgumentBinding(argument.name, dtype), param.lineno)
        found.append(argument)
    return tuple(found)


def _annotation(t: Tracer, param: ast.arg, function: FunctionType) -> Scalar:
    if param.annotation is None:
        raise syntax(f"the argument `{param.arg}` of the kernel has no type",
                     f"annotate it, as in `{param.arg}: sg.f32`")  # fmt: skip
    dtype = annotated_dtype(annotation_of(function, param.arg), t.options)
    if dtype is None:
        raise unsupported(
            f"the annotation `{ast.unparse(param.annotation)}` of `{param.arg}` is no scalar type",
            "annotate with a scalar type, as `sg.f32`; capture fields from outside the kernel",
        )
    return dtype
