"""From a Python function to a kernel of stage `source`: the entry point of the frontend.

Names are looked up when the kernel is traced, not when it is defined. Either all mistakes are raised in one error, or
the kernel is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import Diagnostic
from ..ir.depth import deep
from ..ir.nodes import Kernel, Param, Task
from ..ir.walk import renumber
from . import branches, comprehensions, gradients, hints, loops, mathematics, references, statements  # noqa: F401  (they fill the tables)
from .context import Activation, Tracer
from .infer import FrontendOptions
from .parameters import Argument, declare_parameters
from .reads import Read
from .returns import ResultType, check_end, results_of
from .scope import Namer
from .source import read_source

__all__ = ["Argument", "Traced", "trace"]


@dataclass(frozen=True)
class Traced:
    """A traced function.

    arrays: the captured field, or the `ArgumentArray`, behind each array parameter, `x.grad` included. result: what
    the kernel returns through the parameters `$return.k`, or None. reads: what it took from Python objects.
    """

    kernel: Kernel
    arrays: dict[str, object]
    arguments: tuple[Argument, ...]
    warnings: tuple[Diagnostic, ...]
    result: ResultType | None = None
    reads: tuple[Read, ...] = ()


@deep
def trace(
    function: Any,
    options: FrontendOptions | None = None,
    name: str | None = None,
    given: Mapping[str, Any] | None = None,
) -> Traced:
    """Trace a Python function as a kernel.

    function: a plain function with source; number parameters are annotated. name: the kernel's, if not the function's.
    given: what the other parameters stand for: `ArgumentArray` and its kin for an array of each launch, `Members` for
    an object with such parts, or any object known now. Raises KernelSyntaxError, KernelTypeError or Unsupported with
    every mistake found.
    """
    source = read_source(function)
    t = Tracer(options or FrontendOptions())
    t.activations.append(Activation(function, source, is_kernel=True))
    t.results = results_of(t, source.tree, function)
    arguments = declare_parameters(t, source.tree, function, given or {})
    ended = t.run(source.tree.body)
    check_end(t, t.results, ended, source.tree)
    t.diagnostics.raise_errors(source.file)
    loops.flush(t)
    kernel = Kernel(Namer().unique(name or function.__name__), _params(t, arguments), _tasks(t), (), tuple(t.locations))
    result = t.results.type if t.results else None
    captured = t.captures.objects()
    return Traced(renumber(kernel), captured, arguments, t.diagnostics.warnings, result, tuple(t.reads))


def _params(t: Tracer, arguments: tuple[Argument, ...]) -> tuple[Param, ...]:
    results = t.results.params if t.results else ()
    return (*(Param(a.name, a.type) for a in arguments), *t.captures.params(), *results)


def _tasks(t: Tracer) -> tuple[Task, ...]:
    rename = t.captures.rename
    return tuple(replace(task, body=rename(task.body), bounds=rename(task.bounds)) for task in t.tasks)
