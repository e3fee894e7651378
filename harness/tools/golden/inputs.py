"""This module finds the kernels for golden records: those in .kir files, and those that examples launch.

A file is known by its last folder and its name, so that a move of `tests/ops` or `examples` renames no kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from . import adapter as at

SKIPPED = ("build", "dist", "node_modules", "__pycache__")
"""These folders hold copies of files, as do those whose names begin with a dot."""


class GoldenError(Exception):
    """Signal that golden records cannot be made or compared as requested; the message says why."""


@dataclass(frozen=True)
class KernelSource:
    """Represent an input of a golden record: a kernel, or a text (the error of a refused kernel, or fixed code).

    Attributes:
        name: Name of the source.
        kernel: Kernel of the source, or None if the source is a text.
        text: The error of a kernel that is refused, or code that no kernel decides.
    """

    name: str
    kernel: at.Kernel | None
    text: str = ""


def label(path: Path) -> str:
    """Return the short name of a file in a golden record: its last folder and its file name."""
    return f"{path.parent.name}/{path.name}"


def input_files(root: Path) -> list[Path]:
    """Return the files of a checkout that contain kernels for golden records, the slowest first.

    Returns:
        Paths below `root`, absolute.

    Raises:
        GoldenError: Two files have one label, so their kernels would have one name.
    """
    found = sorted(_kept(root), key=lambda p: (p.suffix != ".py", -p.stat().st_size, label(p)))
    labels = [label(path) for path in found]
    doubled = sorted({name for name in labels if labels.count(name) > 1})
    if doubled:
        raise GoldenError(f"two files are called {doubled[0]}, so their kernels cannot be told apart; rename one")
    return found


def _kept(root: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".") and name not in SKIPPED]
        for path in (Path(folder, name) for name in files):
            if path.suffix == ".kir" or path.suffix == ".py" and path.parent.name == "examples" and _is_program(path):
                yield path


def _is_program(path: Path) -> bool:
    """Return True if an example is a script that can be run, with arguments for a short run."""
    return at.defines_check(path.read_text(encoding="utf-8"))


# ---- selection ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelSelection:
    """Represent the choice of kernels for a golden record, by patterns of file and kernel names.

    Attributes:
        patterns: Patterns FILE[:KERNEL] of the kernels to take; no pattern stands for every kernel.
        every: Number n if only every n-th of the kernels of a file that match is taken.
    """

    patterns: tuple[str, ...] = ()
    every: int = 1

    def wants_file(self, path: Path) -> bool:
        """Return True if a file may contain kernels of the selection."""
        return not self.patterns or any(fnmatchcase(label(path), p.split(":")[0]) for p in self.patterns)

    def of(self, sources: Sequence[KernelSource]) -> list[KernelSource]:
        """Return the kernel sources of a file that belong to the selection."""
        return [s for s in sources if self._wants(s.name)][:: self.every]

    def _wants(self, name: str) -> bool:
        return not self.patterns or any(fnmatchcase(name, p if ":" in p else f"{p}:*") for p in self.patterns)


# ---- reading ------------------------------------------------------------------------------------------------


def sources_of(path: Path) -> list[KernelSource]:
    """Return the kernels in a .kir file, or those that an example launches when it is run.

    Raises:
        GoldenError: The program failed.
    """
    return list(_of_text(path) if path.suffix == ".kir" else _of_program(path))


def _of_text(path: Path) -> Iterator[KernelSource]:
    read = at.text_reader()
    for number, case in enumerate(read(path.read_text(encoding="utf-8")), 1):
        for dtype in case.types:
            name = f"{label(path)}:{number:02}" + (f"-{dtype}" if dtype else "")
            if case.invalid:
                yield KernelSource(name, None, error_text(partial(_judge, case, dtype)))
            else:
                yield KernelSource(name, at.parse_kernel(case.source(dtype)))


def _judge(case: Any, dtype: str) -> None:
    """Parse, verify and differentiate a kernel that is expected to be invalid; one step raises the expected error."""
    stage = case.invalid[0].only[0] if case.invalid[0].only else "tasks"
    kernel = at.parse_kernel(case.source(dtype))
    at.verify(kernel, "tasks" if stage == "grad" else stage)
    at.prepare_reverse(kernel)


def error_text(make: Callable[[], object]) -> str:
    """Return the error that the compiler raises, as text; it is empty if there is no error.

    The text of an InternalError has only its first line, because a later line names a new folder in each run.
    """
    try:
        make()
    except at.StackgradError as error:
        said = str(error)
        if isinstance(error, at.InternalError):
            said = said.partition("\n")[0]
        return f"{type(error).__name__}: {said}"
    return ""


def _of_program(path: Path) -> Iterator[KernelSource]:
    ran = at.run_program(path.relative_to(Path.cwd()), 1, StringIO())
    if ran.error:
        raise GoldenError(f"{label(path)} failed: {ran.error}")
    kernels = {at.print_kernel(launch.kernel): launch.kernel for launch in ran.launches}
    counts: dict[str, int] = {}
    for kernel in kernels.values():
        count = counts[kernel.name] = counts.get(kernel.name, 0) + 1
        yield KernelSource(f"{label(path)}:{kernel.name}" + (f".{count}" if count > 1 else ""), kernel)
