"""Trace Python functions to kernels of stage `source` under the runtime's settings, and find their source lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..compiler.errors import Span, StackgradError
from .session import RUNTIME

if TYPE_CHECKING:
    from ..compiler.frontend.reads import Read
    from ..compiler.frontend.trace import Traced
    from ..compiler.frontend.type_inference import FrontendOptions


def trace_function(
    function: Callable[..., Any], given: Mapping[str, Any] | None = None, reads: list[Read] | None = None
) -> Traced:
    """Return the trace of a function under the present settings.

    Args:
        function: The function.
        given: The stand-ins, by name, of the parameters that are not numbers.
        reads: A list to which the trace appends what it reads of Python objects, also if it fails.
    """
    from ..compiler.frontend.trace import trace

    RUNTIME.tracing = True
    try:
        return trace(function, frontend_options(), given=given, reads=reads)
    finally:
        RUNTIME.tracing = False


def frontend_options() -> FrontendOptions:
    """Return the settings that influence tracing: default types, debug mode and index checks."""
    from ..compiler.frontend.type_inference import FrontendOptions

    settings = RUNTIME.settings
    return FrontendOptions(settings.default_fp, settings.default_ip, settings.debug, settings.bounds or settings.debug)


def definition_span(function: Callable[..., Any]) -> Span | None:
    """Return the source location of the `def` line of a function, or None if it has no source."""
    from ..compiler.frontend.source import read_source

    try:
        source = read_source(function)
    except StackgradError:
        return None
    line = source.tree.lineno
    text = source.lines[line - source.first_line].rstrip("\n")
    return Span(source.file, line, source.tree.col_offset, len(text), text)
