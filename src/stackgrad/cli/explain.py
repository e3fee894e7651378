"""Run `stackgrad explain FILE[:KERNEL]`: show which values each gradient saves, why, how often, and their bytes.

A program runs under watch, as in `stackgrad check`, and each gradient that it launched is explained with the depths of
that launch. Kernels of IR text, and those whose gradient the program did not launch, are explained without depths.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..backends import registry
from ..backends.base import Options
from ..backends.launching.adstack_usage import SlabUse, StackUse
from ..backends.launching.launcher import Launcher
from ..capture import CapturedLaunch
from ..compiler.ad.explain import History, TaskHistory, explain
from ..compiler.driver import Lowering, prepare_for_ad, prepare_reverse
from ..compiler.errors import NotDifferentiable
from ..compiler.ir.kernels import Kernel
from ..compiler.sizing.sizes import DepthEstimate, estimate
from ..compiler.sizing.text import print_size
from . import CommandError
from .ir import find_kernels, split_name
from .programs import run_program


@dataclass(frozen=True)
class ExplainedKernel:
    """Represent a kernel that the command `explain` describes, with its last recorded launch if there is one.

    Attributes:
        kernel: The source kernel.
        launch: A launch of its gradient, or None if the program launched none.
    """

    kernel: Kernel
    launch: CapturedLaunch | None = None


def run(given: argparse.Namespace) -> int:
    """Print which values each gradient saves, and why. Return 1 if a kernel has no gradient, else 0."""
    path, name = split_name(given.file)
    subjects = (
        [ExplainedKernel(k) for k in find_kernels(path, name)] if path.suffix == ".kir" else _launched(path, name)
    )
    good = True
    for subject in subjects:
        try:
            print("\n".join(describe(subject, given.lowering)))
        except NotDifferentiable as error:
            print(f"{subject.kernel.name}: no gradient\n    {error}")
            good = False
    return 0 if good else 1


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


def describe(subject: ExplainedKernel, lowering: str = "lean") -> Iterator[str]:
    """Yield the lines that explain the gradient of one kernel: its saved values, their depths and their memory.

    Args:
        subject: The kernel, with a launch of its gradient if there is one.
        lowering: The policy of the gradient: "lean" or "classic".

    Raises:
        NotDifferentiable: The kernel has no gradient.
    """
    lowered, taped = _lowered(subject, lowering)
    histories = explain(prepare_for_ad(subject.kernel), lowered.kernel, lowering)
    slabs = _measured(subject, lowered)
    stacks = {stack.name: stack for slab in slabs for stack in slab.stacks}
    spans = [h.span for h in histories if h.span]
    where = f" ({spans[0].file}:{spans[0].line})" if spans else ""
    yield f"{subject.kernel.name}{where}{', under a tape' if taped else ''}: {_summary(histories, slabs, stacks)}"
    depths = {found.stack: found for found in estimate(lowered.kernel)}
    for history in histories:
        yield from _task(history, stacks, depths)
        own = {entry.stack for entry in history.stacks}
        yield from (_slab(s) for s in slabs if own & {stack.name for stack in s.stacks})
    if subject.launch is None and stacks:
        yield "    depths and bytes: unknown, as no gradient of it was launched"


def _lowered(subject: ExplainedKernel, lowering: str) -> tuple[Lowering, bool]:
    """Return the lowering of the gradient by hand, or of that for tapes, and True if it is the one for tapes."""
    taken = subject.launch is not None and any(name.endswith(".before") for name in subject.launch.before)
    if not taken:
        try:
            return prepare_reverse(subject.kernel, lowering), False
        except NotDifferentiable:
            pass
    return prepare_reverse(subject.kernel, lowering, taped=True), True


def _measured(subject: ExplainedKernel, lowered: Lowering) -> list[SlabUse]:
    """Return the adstack memory of a gradient by slab, with depths measured on the recorded launch if possible."""
    launch = subject.launch
    launcher = Launcher(lowered, registry.get("reference"), Options())
    if launch is None or any(name not in launch.before for name in (*lowered.before, *lowered.states.values())):
        return launcher.usage()
    states = {copy: launch.before[name] for copy, name in lowered.states.items()}
    return launcher.measure({**launch.before, **states}, launch.scalars, launch.draws)


def _summary(histories: list[TaskHistory], slabs: list[SlabUse], stacks: Mapping[str, StackUse]) -> str:
    """Return the line that sums up the adstacks and the adstack memory of one kernel."""
    count = sum(len(h.stacks) for h in histories)
    if not count:
        return "saves nothing"
    row = sum(s.stride for s in slabs)
    return f"{count} adstack{'s' if count > 1 else ''}" + (f", {row} bytes a row" if row else "")


def _task(history: TaskHistory, stacks: Mapping[str, StackUse], depths: Mapping[str, DepthEstimate]) -> Iterator[str]:
    """Yield the lines on one task of a kernel and on each of its adstacks."""
    line = f", line {history.span.line}" if history.span else ""
    yield (
        f"  task {history.task}{line}: {len(history.stacks)} saved, {history.kept} kept in registers,"
        f" {history.recomputed} computed again"
    )
    for entry in history.stacks:
        yield from _stack(entry, stacks.get(entry.stack))
        yield f"        {_depth(depths.get(entry.stack))}"


def _stack(entry: History, use: StackUse | None) -> Iterator[str]:
    """Yield the lines on one adstack: its saved value, the reason for saving it, and its depth."""
    line = f" line {entry.span.line}" if entry.span else ""
    size = f", depth {use.capacity}, {use.capacity * use.slot_bytes} bytes a row" if use and use.capacity else ""
    yield f"    {entry.variable}: {entry.dtype}{line}{size}"
    yield f"        read by {entry.reader}"
    yield f"        saved because {entry.reason}"


def _depth(found: DepthEstimate | None) -> str:
    """Return a text with the size expression of an adstack's depth, or one that says that the depth is counted."""
    if found is not None and found.exact and found.depth is not None:
        return f"as deep as {print_size(found.depth)}"
    bound = "" if found is None or found.depth is None else f", at most {print_size(found.depth)}"
    return f"counted before a launch{bound}"


def _slab(use: SlabUse) -> str:
    """Return the line on one slab: bytes per row, and number of rows."""
    rows = "?" if use.rows is None else str(use.rows)
    return f"    {use.slab} slab: {use.stride} bytes a row, {rows} rows"
