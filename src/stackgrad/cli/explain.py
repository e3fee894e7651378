"""Run `stackgrad explain FILE[:KERNEL]`: show which values each gradient saves, why, how often, and their bytes.

A program runs under watch, as in `stackgrad check`, and each gradient that it launched is explained with the depths of
that launch. Kernels of IR text, and those whose gradient the program did not launch, are explained without depths.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from ..compiler.errors import NotDifferentiable
from . import CommandError
from .explained import ExplainedGradient, ExplainedKernel, ExplainedStack, explain_gradient, slab_text
from .ir import find_kernels, split_name
from .pages import check_templates, explain_page, write_page
from .programs import run_program


def run(given: argparse.Namespace) -> int:
    """Print which values each gradient saves, and why. Return 1 if a kernel has no gradient, else 0."""
    if given.html:
        check_templates()
    path, name = split_name(given.file)
    subjects = (
        [ExplainedKernel(k) for k in find_kernels(path, name)] if path.suffix == ".kir" else _launched(path, name)
    )
    found: list[tuple[str, ExplainedGradient | NotDifferentiable]] = []
    for subject in subjects:
        try:
            explained = explain_gradient(subject, given.lowering)
        except NotDifferentiable as error:
            print(f"{subject.kernel.name}: no gradient\n    {error}")
            found.append((subject.kernel.name, error))
            continue
        print("\n".join(describe(explained)))
        found.append((subject.kernel.name, explained))
    if given.html:
        write_page(given.html, explain_page(str(path), found))
    return 1 if any(isinstance(result, NotDifferentiable) for _, result in found) else 0


def _launched(path: Path, name: str | None) -> list[ExplainedKernel]:
    """Return the kernels of a program whose gradient ran, each with its last recorded launch.

    If no gradient ran, return the kernels that the program defines.
    """
    ran = run_program(path, limit=2, stdout=sys.stderr)
    found = {launch.kernel: launch for launch in ran.launches if launch.kind == "reverse"}
    wanted = [ExplainedKernel(k, launch) for k, launch in found.items() if name in (None, k.name)]
    if wanted:
        return wanted
    if ran.error:
        raise CommandError(f"the program failed: {ran.error}", 1)
    return [ExplainedKernel(k) for k in find_kernels(path, name)]


def describe(found: ExplainedGradient) -> Iterator[str]:
    """Yield the lines that explain the gradient of one kernel: its saved values, their depths and their memory."""
    yield f"{found.title}: {found.summary}"
    for task in found.tasks:
        yield f"  {task.title}"
        for stack in task.stacks:
            yield from _stack(stack)
        yield from (f"    {slab_text(slab)}" for slab in task.slabs)
    if found.note:
        yield f"    {found.note}"


def _stack(stack: ExplainedStack) -> Iterator[str]:
    """Yield the lines on one adstack: its saved value, the reason for saving it, and its depth."""
    saved = stack.saved
    line = f" line {saved.span.line}" if saved.span else ""
    known = stack.use is not None and stack.row_bytes is not None
    size = f", depth {stack.use.capacity}, {stack.row_bytes} bytes a row" if stack.use and known else ""
    yield f"    {saved.variable}: {saved.dtype}{line}{size}"
    yield f"        read by {saved.reader}"
    yield f"        saved because {saved.reason}"
    yield f"        {stack.depth}"
