"""This module contains `trace`, the entry point of the frontend, which turns a Python function into a kernel.

Names are looked up when the kernel is traced, not when it is defined. Either all mistakes are raised in one error, or
the kernel is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import Diagnostic
from ..ir.depth import with_stack_room
from ..ir.kernels import Kernel, Param, Task
from ..ir.walk import renumber

# These modules are imported because they fill the tables of handlers.
from . import branches, comprehensions, gradients, hints, loops, mathematics, references, simt, statements  # noqa: F401
from .activation import Activation
from .context import Tracer
from .parameters import ScalarArgument, declare_parameters
from .reads import Read
from .returns import ResultType, check_end, results_of
from .scope import Namer
from .source import read_source
from .type_inference import FrontendOptions

__all__ = ["ScalarArgument", "Traced", "trace"]


@dataclass(frozen=True)
class Traced:
    """A `Traced` is a kernel of stage `source` with its captured arrays, scalar arguments, warnings and guards.

    Attributes:
        kernel: kernel of stage `source`.
        arrays: for each array parameter, also each `x.grad`, the captured field or the `ArgumentArray` that it stands
            for.
        arguments: scalars of a launch.
        warnings: warnings about the kernel.
        result: type of what the kernel returns through the parameters `$return.k`, or None.
        reads: records of the parts of Python objects that the trace read, to be compared before launches.
    """

    kernel: Kernel
    arrays: dict[str, object]
    arguments: tuple[ScalarArgument, ...]
    warnings: tuple[Diagnostic, ...]
    result: ResultType | None = None
    reads: tuple[Read, ...] = ()


@with_stack_room
def trace(
    function: Any,
    options: FrontendOptions | None = None,
    name: str | None = None,
    given: Mapping[str, Any] | None = None,
    reads: list[Read] | None = None,
) -> Traced:
    """Trace a Python function and return it as a kernel of stage `source`.

    Args:
        function: a plain function with source; parameters that are numbers are annotated.
        options: types of literals, and debug mode.
        name: name of the kernel, if not that of the function.
        given: objects that stand for the other parameters: an `ArgumentArray`, `ArgumentMatrixArray` or
            `ArgumentStructArray` for an array of each launch, a `MembersStandIn` for an object with such members, or
            the argument itself if it is known when the kernel is traced.
        reads: list to which the trace appends records of the parts of Python objects that it reads, also if it raises.

    Raises:
        KernelSyntaxError, KernelTypeError, Unsupported: the function has mistakes; the error contains all of them.
    """
    source = read_source(function)
    t = Tracer(options or FrontendOptions())
    t.reads = t.reads if reads is None else reads
    t.activations.append(Activation(function, source, is_kernel=True))
    t.results = results_of(t, source.tree, function)
    arguments = declare_parameters(t, source.tree, function, given or {})
    ended = t.run(source.tree.body)
    check_end(t, t.results, ended, source.tree)
    if t.diagnostics.has_errors:
        t.reads += t.captures.reads()
    t.diagnostics.raise_errors(source.file)
    loops.flush(t)
    kernel = Kernel(Namer().unique(name or function.__name__), _params(t, arguments), _tasks(t), (), tuple(t.locations))
    result = t.results.type if t.results else None
    captured = t.captures.objects()
    return Traced(renumber(kernel), captured, arguments, t.diagnostics.warnings, result, tuple(t.reads))


def _params(t: Tracer, arguments: tuple[ScalarArgument, ...]) -> tuple[Param, ...]:
    results = t.results.params if t.results else ()
    return (*(Param(a.name, a.type) for a in arguments), *t.captures.params(), *results)


def _tasks(t: Tracer) -> tuple[Task, ...]:
    rename = t.captures.rename
    return tuple(replace(task, body=rename(task.body), bounds=rename(task.bounds)) for task in t.tasks)
