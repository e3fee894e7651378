"""This module translates parameters of kernels: annotations to types, and names in the body to arguments.

Invariant: `parameters_of` and `declare_parameters` agree on the kind of every parameter, so that the runtime can give a
trace exactly the stand-ins that it needs. Mistakes are reported when the kernel is traced, never when arguments are
matched.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

import numpy as np

from ..ir.types import Scalar
from .aggregates import (
    VIEW,
    ElementType,
    MatrixType,
    NdarrayType,
    StructType,
    Template,
    ViewType,
    aggregate_type,
    is_template,
    view_type,
)
from .arguments import refuse_variadic
from .context import Tracer
from .diagnostics import ProblemError, syntax_problem, unsupported_problem
from .members import launch_values
from .operands import static_operand
from .scope import ArgumentVariable as ArgumentBinding
from .scope import CompoundVariable, FixedName
from .source import annotation_of
from .type_inference import FrontendOptions, annotated_dtype

ParameterKind = Literal["scalar", "aggregate", "array", "either", "view", "object", "faulty"]


@dataclass(frozen=True)
class Parameter:
    """A `Parameter` describes one parameter of a kernel: its name, kind, annotation and default.

    Attributes:
        name: name of the parameter.
        kind: `scalar` and `aggregate` are numbers of each launch; `array` is an array of each launch, `either` such an
            array or a field, `view` a part of an array; `object` is known when the kernel is traced; `faulty` has no
            meaningful annotation.
        wanted: type that the annotation denotes, or None.
        default: default value, or `inspect.Parameter.empty`.
        members: class that an object must have, or None.
    """

    name: str
    kind: ParameterKind
    wanted: Scalar | MatrixType | StructType | NdarrayType | ViewType | None = None
    default: Any = inspect.Parameter.empty
    members: type | None = None


@dataclass(frozen=True)
class ScalarArgument:
    """A `ScalarArgument` is one scalar argument of a kernel, with its name and type in the IR.

    A vector or struct that is passed to a kernel becomes several of them, in the order of the Python signature.
    """

    name: str
    type: Scalar


def parameters_of(function: FunctionType, options: FrontendOptions, method: bool) -> tuple[Parameter, ...]:
    """Return the parameters of a function in order; if `method`, the first may be the object it is called on.

    Args:
        function: the function.
        options: types that `int` and `float` stand for.
        method: True if the first parameter is the object on which the kernel is called.
    """
    found = []
    for position, param in enumerate(inspect.signature(function, follow_wrapped=False).parameters.values()):
        variadic = param.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        annotation = annotation_of(function, param.name)
        if variadic:
            found.append(Parameter(param.name, "faulty"))
        elif position == 0 and annotation is None and (method or param.name in ("self", "cls")):
            found.append(Parameter(param.name, "object"))
        else:
            found.append(annotated_parameter(param.name, annotation, param.default, options))
    return tuple(found)


def annotated_parameter(name: str, annotation: Any, default: Any, options: FrontendOptions) -> Parameter:
    """Return the parameter that a name, its annotation and its default value describe."""
    dtype = annotated_dtype(annotation, options)
    if dtype is not None:
        return Parameter(name, "scalar", dtype, default)
    aggregate = _aggregate(annotation, options)
    if aggregate is not None:
        return Parameter(name, "aggregate", aggregate, default)
    kind, array = _marked(annotation)
    if kind == "object" and isinstance(annotation, type) and not _is_marker(annotation):
        return Parameter(name, kind, None, default, annotation)
    return Parameter(name, kind, array, default)


def _aggregate(annotation: Any, options: FrontendOptions) -> MatrixType | StructType | None:
    try:
        return aggregate_type(annotation, options)
    except TypeError:
        return None


def _marked(annotation: Any) -> tuple[ParameterKind, NdarrayType | ViewType | None]:
    """Return the kind of a parameter and its array or view type, for an annotation that is no type of numbers.

    An annotation such as `sg.template()` is recognized by an attribute or, if it is quoted, by its name. A class as
    annotation means an object that is known when the kernel is traced.
    """
    if isinstance(annotation, NdarrayType):
        return "array", annotation
    view = view_type(annotation)
    if view is not None:
        return "view", view
    if is_template(annotation):
        return "object", None
    mark = getattr(annotation, "stackgrad_annotation", None)
    if isinstance(mark, str):
        return _MARKS.get(mark, ("faulty", None))
    if annotation is np.ndarray or _torch_tensor(annotation):
        return "array", NdarrayType()
    if isinstance(annotation, type) and annotation.__module__ != "builtins":
        return "object", None
    if isinstance(annotation, str):
        return _MARKS.get(annotation.rpartition(".")[2].partition("(")[0].strip().lower(), ("faulty", None))
    return "faulty", None


_MARKS: dict[str, tuple[ParameterKind, NdarrayType | ViewType | None]] = {
    "template": ("object", None),
    "field": ("object", None),
    "ndarray": ("array", NdarrayType()),
    "tensor": ("either", NdarrayType()),
    VIEW: ("view", ViewType()),
}


def _is_marker(annotation: type) -> bool:
    return annotation is Template or hasattr(annotation, "stackgrad_annotation")


def _torch_tensor(annotation: Any) -> bool:
    return getattr(annotation, "__name__", "") == "Tensor" and getattr(annotation, "__module__", "") == "torch"


# ---- names in the body ----------------------------------------------------------------------------------------------


def declare_parameters(
    t: Tracer, tree: ast.FunctionDef, function: FunctionType, given: Mapping[str, Any]
) -> tuple[ScalarArgument, ...]:
    """Bind every parameter of a kernel and return its scalar arguments. Report mistakes without raising them.

    Args:
        t: the tracer.
        tree: definition of the kernel.
        function: the kernel's function.
        given: for each parameter that is no number, its stand-in or the object itself.
    """
    try:
        refuse_variadic(tree.args, "the kernel")
    except ProblemError as problem:
        t.report(problem, tree.args.vararg or tree.args.kwarg or tree)
    found: list[ScalarArgument] = []
    for param in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
        try:
            found += _declare(t, param, function, given)
        except ProblemError as problem:
            t.report(problem, param)
            t.poison(param.arg, param.lineno)
    return tuple(found)


def _declare(t: Tracer, param: ast.arg, function: FunctionType, given: Mapping[str, Any]) -> list[ScalarArgument]:
    name, line = param.arg, param.lineno
    found: list[ScalarArgument] = []
    if name in given:
        for path, value in launch_values(given[name], name):
            value.place = _place(t, path, value.kind, found)
        t.scopes.declare(name, FixedName(static_operand(given[name], name), "parameter"), line)
        return found
    parameter = annotated_parameter(name, annotation_of(function, name), None, t.options)
    if not isinstance(parameter.wanted, (Scalar, MatrixType, StructType)):
        raise _no_type(param, parameter)
    t.scopes.declare(name, _place(t, name, parameter.wanted, found), line)
    return found


def _place(t: Tracer, name: str, kind: ElementType, found: list[ScalarArgument]) -> ArgumentBinding | CompoundVariable:
    """Return the binding of a parameter that each launch passes. Append its scalar arguments to `found`."""
    if isinstance(kind, Scalar):
        argument = ScalarArgument(t.namer.unique(name), kind)
        found.append(argument)
        return ArgumentBinding(argument.name, kind)
    if isinstance(kind, MatrixType):
        return CompoundVariable(kind, tuple(_place(t, f"{name}.{k}", kind.dtype, found) for k in range(kind.size)))
    return CompoundVariable(kind, tuple(_place(t, f"{name}.{member}", inner, found) for member, inner in kind.members))


def _no_type(param: ast.arg, parameter: Parameter) -> ProblemError:
    if param.annotation is None:
        return syntax_problem(
            f"the argument `{param.arg}` of the kernel has no type",
            f"annotate it, as in `{param.arg}: sg.f32`, `sg.types.ndarray()` or `sg.template()`",
        )
    text = ast.unparse(param.annotation)
    if parameter.kind == "faulty":
        return unsupported_problem(
            f"the annotation `{text}` of `{param.arg}` is no type of an argument",
            "annotate with a scalar type as `sg.f32`, a vector, matrix or struct type, `sg.types.ndarray()`, "
            "`sg.template()`, or a dataclass",
        )
    return unsupported_problem(f"`{param.arg}: {text}` has no value here", "trace the kernel by calling it")
