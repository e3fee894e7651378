"""This module finds out what `stackgrad explain` says about the gradient of one kernel, apart from how it is shown.

A kernel whose gradient a program launched is explained with the depths and bytes of that launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..backends import registry
from ..backends.base import Options
from ..backends.launching.adstack_usage import SlabUse, StackUse
from ..backends.launching.launcher import Launcher
from ..capture import CapturedLaunch
from ..compiler.ad.explain import History, TaskHistory, explain
from ..compiler.driver import Lowering, prepare_for_ad, prepare_reverse
from ..compiler.errors import NotDifferentiable, Span
from ..compiler.ir.kernels import Kernel
from ..compiler.ir.walk import walk_kernel
from ..compiler.sizing.sizes import DepthEstimate, estimate
from ..compiler.sizing.text import print_size


@dataclass(frozen=True)
class ExplainedKernel:
    """Represent a kernel that the command `explain` describes, with its last recorded launch if there is one.

    Attributes:
        kernel: The source kernel.
        launch: A launch of its gradient, or None if the program launched none.
    """

    kernel: Kernel
    launch: CapturedLaunch | None = None


@dataclass(frozen=True)
class ExplainedStack:
    """Represent one adstack of a gradient.

    Attributes:
        saved: The saved value, where it is made, what reads it, and why it is saved.
        use: Its measured capacity and slot size, or None if no launch was recorded.
        depth: A text with the size expression of its depth, or one that says that the depth is counted.
    """

    saved: History
    use: StackUse | None
    depth: str

    @property
    def row_bytes(self) -> int | None:
        """Return the bytes that this adstack takes in a row, or None if its capacity is not known."""
        return self.use.capacity * self.use.slot_bytes if self.use and self.use.capacity else None


@dataclass(frozen=True)
class ExplainedTask:
    """Represent what one task of a gradient saves, keeps and recomputes, with the memory of its adstacks.

    Attributes:
        history: The task, its place in the source, and the number of values that it keeps and recomputes.
        stacks: The adstacks of the task.
        slabs: The slabs in which these adstacks have rows.
    """

    history: TaskHistory
    stacks: tuple[ExplainedStack, ...]
    slabs: tuple[SlabUse, ...]

    @property
    def title(self) -> str:
        """Return a line with the task's number, its source line, and how many values it saves, keeps and recomputes."""
        h = self.history
        line = f", line {h.span.line}" if h.span else ""
        return f"task {h.task}{line}: {len(h.stacks)} saved, {h.kept} kept in registers, {h.recomputed} computed again"


@dataclass(frozen=True)
class ExplainedGradient:
    """Represent what a kernel's gradient saves.

    Attributes:
        kernel: The source kernel.
        taped: True if the gradient is the one that tapes launch, which is given the states before the launch.
        tasks: The tasks of the kernel.
        row_bytes: Bytes of a row of all slabs together; 0 if no depth is known.
        measured: True if depths and bytes come from a launch, or there are no adstacks.
    """

    kernel: Kernel
    taped: bool
    tasks: tuple[ExplainedTask, ...]
    row_bytes: int
    measured: bool

    @property
    def title(self) -> str:
        """Return the name of the kernel with the place of its first task, and which gradient is described."""
        spans = [task.history.span for task in self.tasks if task.history.span]
        where = f" ({spans[0].file}:{spans[0].line})" if spans else ""
        return f"{self.kernel.name}{where}{', under a tape' if self.taped else ''}"

    @property
    def summary(self) -> str:
        """Return a text with the number of adstacks and the bytes of a row."""
        count = sum(len(task.stacks) for task in self.tasks)
        if not count:
            return "saves nothing"
        row = f", {self.row_bytes} bytes a row" if self.row_bytes else ""
        return f"{count} adstack{'s' if count > 1 else ''}{row}"

    @property
    def note(self) -> str:
        """Return a sentence that says what is missing, or an empty text."""
        return "" if self.measured else "depths and bytes: unknown, as no gradient of it was launched"


def explain_gradient(subject: ExplainedKernel, lowering: str = "lean") -> ExplainedGradient:
    """Return what the gradient of a kernel saves, with depths and bytes if a launch of it was recorded.

    Args:
        subject: The kernel, with a launch of its gradient if there is one.
        lowering: The policy of the gradient: "lean" or "classic".

    Raises:
        NotDifferentiable: The kernel has no gradient.
    """
    lowered, taped = _lowered(subject, lowering)
    slabs = _measured(subject, lowered)
    stacks = {stack.name: stack for slab in slabs for stack in slab.stacks}
    depths = {found.stack: found for found in estimate(lowered.kernel)}
    tasks = []
    for history in explain(prepare_for_ad(subject.kernel), lowered.kernel, lowering):
        own = {entry.stack for entry in history.stacks}
        found = (ExplainedStack(h, stacks.get(h.stack), _depth(depths.get(h.stack))) for h in history.stacks)
        mine = tuple(s for s in slabs if own & {stack.name for stack in s.stacks})
        tasks.append(ExplainedTask(history, tuple(found), mine))
    measured = subject.launch is not None or not stacks
    return ExplainedGradient(subject.kernel, taped, tuple(tasks), sum(s.stride for s in slabs), measured)


def slab_text(use: SlabUse) -> str:
    """Return the line on one slab: bytes per row, and number of rows."""
    rows = "?" if use.rows is None else str(use.rows)
    return f"{use.slab} slab: {use.stride} bytes a row, {rows} rows"


def source_lines(kernel: Kernel) -> dict[int, str]:
    """Return the source text of a kernel by line number: from its first statement to its last one.

    Lines between statements, such as comments, come from the file, if the file is still as it was when it was traced.
    """
    spans = [span for stmt in walk_kernel(kernel) if (span := kernel.span(stmt.loc)) and span.text.strip()]
    home = [span for span in spans if span.file == spans[0].file]  # Functions that it calls may lie elsewhere.
    known = {span.line: span.text.rstrip("\n") for span in home}
    if not known:
        return {}
    first, last = min(known), max(known)
    texts = _lines_of(home[0])
    if all(texts.get(number) == text for number, text in known.items()):
        return {number: texts[number] for number in range(first, last + 1)}
    return dict(sorted(known.items()))


def _lines_of(span: Span) -> dict[int, str]:
    """Return the lines of a span's file by number, or nothing if the file cannot be read."""
    try:
        text = Path(span.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(enumerate(text.splitlines(), 1))


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


def _depth(found: DepthEstimate | None) -> str:
    """Return a text with the size expression of an adstack's depth, or one that says that the depth is counted."""
    if found is not None and found.exact and found.depth is not None:
        return f"as deep as {print_size(found.depth)}"
    bound = "" if found is None or found.depth is None else f", at most {print_size(found.depth)}"
    return f"counted before a launch{bound}"
