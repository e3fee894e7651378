"""This module makes the texts of one kernel for golden records: IR after each pass of all pipelines, and code.

    0.source                       as it was read or traced
    1.forward.03                   after the fourth pass of the pipeline
    1.forward.90                   the kernel that a backend runs; up to 95 what comes with it (PARTS)
    1.forward.code.counting.09-ptx the code of one of its kernels, by the tenth generator

Stages sort as they are made, so the first one that differs is where a change begins. Passes are known by their number:
a pass that gets another name or file changes no stage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import adapter as at
from .code import code_of
from .inputs import KernelSource, error_text


@dataclass(frozen=True)
class StageText:
    """Represent the text of one kernel after one step of the compiler: IR after a pass, or generated code.

    Attributes:
        kernel: Name of the kernel.
        stage: Stage that made the text.
        name: Name of the pass or part, for readers; it is never compared.
        text: The IR or code.
    """

    kernel: str
    stage: str
    name: str
    text: str


Trace = Callable[[str, at.Kernel], None]
Pipeline = Callable[[at.Kernel, Trace], at.Lowered]
CodeFunction = Callable[[at.Kernel], dict[str, str]]
Named = tuple[str, str, str]
"""A named text is a stage, a name and a text."""


@dataclass(frozen=True)
class PipelineSection:
    """Represent one pipeline of the compiler, and which of its texts a golden record contains.

    Attributes:
        name: Name of the section, with which its stages begin.
        pipeline: Function that runs the pipeline on a kernel.
        backward: True if the pipeline takes only kernels that can be differentiated.
        traced: True if the kernel after each pass is a text.
        coded: True if code is generated from the results.
        heavy: True if the generators that take long generate code too.
    """

    name: str
    pipeline: Pipeline
    backward: bool = True
    traced: bool = False
    coded: bool = True
    heavy: bool = False


def _reverse(policy: str, taped: bool = False) -> Pipeline:
    return lambda kernel, trace: at.prepare_reverse(kernel, policy, trace, taped=taped)


def _tangent(kernel: at.Kernel, trace: Trace) -> at.Lowered:
    return at.prepare_tangent(kernel, at.with_gradient(kernel), trace)


def _second(kernel: at.Kernel, trace: Trace) -> at.Lowered:
    return at.prepare_second(at.prepare_reverse(kernel).kernel, at.with_gradient(kernel))


SECTIONS = (
    PipelineSection("1.forward", partial(at.prepare_forward, stated=True), backward=False, traced=True, heavy=True),
    PipelineSection("2.tangent", _tangent, backward=False, traced=True),
    PipelineSection("3.reverse", _reverse(""), traced=True, heavy=True),
    PipelineSection("4.taped", _reverse("", taped=True)),
    PipelineSection("5.second", _second),
    PipelineSection("6.classic", _reverse("classic")),
    *(PipelineSection(f"7.{name}", _reverse(name), coded=False) for name in at.POLICIES if name not in at.LOWERINGS),
)
"""These are all pipelines; those that are not traced share their passes with one that is."""

PARTS = ("kernel", "counting", "marking", "claims", "sizes", "arrays")
"""Results of a pipeline, as stage 90 and the stages after it. A refusal is stage 90."""


OTHER_FILE = "<a file of the project>"
"""Text that replaces the path of a file of the project that is not the file of the kernel."""


def texts_of(source: KernelSource) -> Iterator[StageText]:
    """Yield the IR and code texts of a kernel, in the order of their stages."""
    kernel = source.kernel
    if kernel is None:
        yield StageText(source.name, "0.source", "text", source.text)
        return
    yield StageText(source.name, "0.source", "source", at.print_kernel(kernel))
    coder = _CodeMaker()
    for section in SECTIONS:
        if not section.backward or at.is_forward(kernel):
            for stage, name, text in _texts(section, kernel, partial(coder.code, heavy=section.heavy)):
                yield StageText(source.name, f"{section.name}.{stage}", name, text)


def _texts(section: PipelineSection, kernel: at.Kernel, code: CodeFunction) -> Iterator[Named]:
    passes: list[tuple[str, str]] = []
    made: list[at.Lowered] = []

    def trace(name: str, after: at.Kernel) -> None:
        if section.traced:
            passes.append((name, at.print_kernel(after)))

    error = error_text(lambda: made.append(section.pipeline(kernel, trace)))
    yield from ((f"{number:02}", name, text) for number, (name, text) in enumerate(passes))
    if error:
        yield "90", "refusal", error
        return
    yield from _parts(made[0])
    if section.coded:
        yield from _code(made[0], code)


def _kernels(made: at.Lowered) -> Iterator[tuple[str, at.Kernel]]:
    """Yield name and kernel of each kernel in a lowering: main, counting, marking and claims kernel."""
    yield "kernel", made.kernel
    if made.counting is not None:
        yield "counting", made.counting
    if made.marking is not None:
        yield "marking", made.marking.kernel
    if made.claims is not None:
        yield "claims", made.claims.kernel


def _parts(made: at.Lowered) -> Iterator[Named]:
    """Yield the texts of a lowering: the IR of its kernels, its size expressions, and the names of accessed arrays."""
    texts = {name: at.print_kernel(kernel) for name, kernel in _kernels(made)}
    if made.sizes is not None:
        texts["sizes"] = made.sizes.text
    touched = {"reads": made.reads, "writes": made.writes, "counted": made.counted, "shadow": made.shadow}
    lines = [f"{name}: {' '.join(sorted(arrays))}" for name, arrays in touched.items()]
    lines += [f"{copy} was {array}" for copy, array in sorted(made.before.items())]
    # A lowering of an older commit has no states.
    lines += [f"{copy} is {array}" for copy, array in sorted(getattr(made, "states", {}).items())]
    texts["arrays"] = "\n".join(lines)
    yield from ((f"{PARTS.index(name) + 90}", name, text) for name, text in texts.items())


def _code(made: at.Lowered, code: CodeFunction) -> Iterator[Named]:
    for part, kernel in _kernels(made):
        yield from ((f"code.{part}.{generator}", "", text) for generator, text in code(kernel).items())


class _CodeMaker:
    """Generate the code of each distinct kernel once, even if several pipelines produce the same kernel."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, bool], dict[str, str]] = {}

    def code(self, kernel: at.Kernel, heavy: bool) -> dict[str, str]:
        """Return the code of a kernel by generator, with that of slow generators if `heavy` is True."""
        text = at.print_kernel(kernel)
        light = self._once(kernel, text, False)
        return light | self._once(kernel, text, True) if heavy else light

    def _once(self, kernel: at.Kernel, text: str, heavy: bool) -> dict[str, str]:
        if (text, heavy) not in self._made:
            self._made[text, heavy] = code_of(kernel, heavy)
        return self._made[text, heavy]


def without_places(text: str, path: Path, known: str) -> str:
    """Return a text in which paths of the checkout and of the kernel's file are replaced by fixed names.

    Functions that are written in the kernel language name other files of the project, whose paths are replaced as a
    whole: the text does not change if a file moves or is found through a link.

    Args:
        text: The text as it was generated.
        path: The absolute path of the kernel's file.
        known: The name that replaces this path.
    """
    root = f"{at.ROOT}/"
    text = text.replace(str(path), known)
    text = re.sub(re.escape(root) + r'[^\s":]*\.py', OTHER_FILE, text)
    return text.replace(str(path).removeprefix(root), known)
