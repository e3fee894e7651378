"""This module writes the pages of `stackgrad explain --html` and `stackgrad check --html`: one file, no scripts.

What stands in the terminal stands on the page too. The page of `explain` has the source of each kernel besides, with
the lines marked whose values are saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..compiler.errors import NotDifferentiable
from ..harness.testing.report import CheckReport
from ..harness.tools.page_templates import environment_of
from . import CommandError, version
from .explained import ExplainedGradient, ExplainedStack, ExplainedTask, slab_text, source_lines
from .tables import notes, style_of, summary, table_of

KINDS = {"green": "good", "dim": "none", "cyan": "none", "yellow": "doubt", "bold red": "bad"}
"""The class in the style sheet for each style of a verdict."""


def check_templates() -> None:
    """Raise MissingTemplates if pages cannot be written, before a program runs for long in vain."""
    environment_of(__package__)


def write_page(where: str, text: str) -> None:
    """Write a report to the file that the user named, and replace what it holds; raise CommandError if that fails."""
    try:
        Path(where).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {where}: {error.strerror}; cure: name a file that can be made") from None


def explain_page(program: str, found: Sequence[tuple[str, ExplainedGradient | NotDifferentiable]]) -> str:
    """Return the page about the gradients of a program.

    Args:
        program: The path of the program.
        found: Each kernel's name with what its gradient saves, or with the error that says why it has no gradient.

    Raises:
        MissingTemplates: Jinja2 is not installed.
    """
    kernels = [_kernel(name, result) for name, result in found]
    return _render("explain.html", title=f"What the gradients of {program} save", kernels=kernels)


def check_page(reports: Sequence[CheckReport]) -> str:
    """Return the page about the comparisons of programs.

    Raises:
        MissingTemplates: Jinja2 is not installed.
    """
    return _render(
        "check.html",
        title="Gradients compared on all executors",
        version=version(),
        passed=all(report.passed for report in reports),
        programs=[_program(report) for report in reports],
    )


def _render(template: str, **content: Any) -> str:  # Any: what a template shows is text, numbers, lists and dicts.
    return environment_of(__package__).get_template(template).render(**content) + "\n"


def _kernel(name: str, result: ExplainedGradient | NotDifferentiable) -> dict[str, Any]:
    """Return what the template shows about one kernel."""
    if isinstance(result, NotDifferentiable):
        return {"title": f"{name}: no gradient", "error": str(result)}
    return {
        "title": result.title,
        "error": "",
        "summary": result.summary,
        "note": result.note,
        "source": _source(result),
        "tasks": [_task(task) for task in result.tasks],
    }


def _source(found: ExplainedGradient) -> list[dict[str, Any]]:
    """Return the lines of a kernel's source, each with a text about the values of the line that are saved."""
    lines = source_lines(found.kernel)
    saved: dict[int, list[str]] = {}
    for stack in (stack for task in found.tasks for stack in task.stacks):
        span = stack.saved.span
        if span is not None and lines.get(span.line) == span.text.rstrip("\n"):
            saved.setdefault(span.line, []).append(_saved(stack))
    return [{"number": n, "text": text, "saved": "; ".join(saved.get(n, ()))} for n, text in lines.items()]


def _saved(stack: ExplainedStack) -> str:
    size = "" if stack.row_bytes is None else f", {stack.row_bytes} bytes a row"
    return f"saves {stack.saved.variable}{size}"


def _task(task: ExplainedTask) -> dict[str, Any]:
    """Return what the template shows about one task: its title, a table of adstacks, and its slabs."""
    return {
        "title": task.title,
        "stacks": [_cells(stack) for stack in task.stacks],
        "slabs": [slab_text(slab) for slab in task.slabs],
    }


def _cells(stack: ExplainedStack) -> list[str]:
    """Return the cells of an adstack's row, in the order of the table's head."""
    saved, use = stack.saved, stack.use
    depth = str(use.capacity) if use and use.capacity else "?"
    size = "?" if stack.row_bytes is None else str(stack.row_bytes)
    line = str(saved.span.line) if saved.span else "?"
    deep = stack.depth.removeprefix("as deep as ")
    return [saved.variable, line, saved.dtype, depth, size, deep, saved.reader, saved.reason]


def _program(report: CheckReport) -> dict[str, Any]:
    """Return what the template shows about the check of one program."""
    head, rows = table_of(report)
    return {
        "name": report.program,
        "passed": report.passed,
        "summary": summary(report),
        "failures": report.failures,
        "head": head,
        "rows": [[(text, KINDS.get(style_of(text), "")) for text in cells] for cells in rows],
        "notes": notes(report),
    }
