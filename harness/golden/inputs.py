"""This module finds the kernels that the net holds: those of every .kir file, and those that the examples launch.

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
    """The net cannot do what it was asked for; the message says why."""


@dataclass(frozen=True)
class Source:
    """A source is one kernel by name, or a text in its place: how it is refused, or what no kernel decides."""

    name: str
    kernel: at.Kernel | None
    text: str = ""


def label(path: Path) -> str:
    """This function gives the name by which the net knows a file: its folder and its own."""
    return f"{path.parent.name}/{path.name}"


def input_files(root: Path) -> list[Path]:
    """This function lists the files of a checkout that have kernels, those that take longest first.

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
    """This function says whether an example is a program of its own, with arguments for a short run."""
    return at.defines_check(path.read_text(encoding="utf-8"))


# ---- selection ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """A selection says which kernels are wanted: those that match a pattern FILE[:KERNEL], and of these every n-th.

    No pattern at all stands for every kernel.
    """

    patterns: tuple[str, ...] = ()
    every: int = 1

    def wants_file(self, path: Path) -> bool:
        """This method says whether a file may hold kernels that are wanted."""
        return not self.patterns or any(fnmatchcase(label(path), p.split(":")[0]) for p in self.patterns)

    def of(self, sources: Sequence[Source]) -> list[Source]:
        """This method picks the wanted kernels of one file."""
        return [s for s in sources if self._wants(s.name)][:: self.every]

    def _wants(self, name: str) -> bool:
        return not self.patterns or any(fnmatchcase(name, p if ":" in p else f"{p}:*") for p in self.patterns)


# ---- reading ------------------------------------------------------------------------------------------------


def sources_of(path: Path) -> list[Source]:
    """This function reads all kernels of a file, running it if it is a program.

    Raises:
        GoldenError: The program failed.
    """
    return list(_of_text(path) if path.suffix == ".kir" else _of_program(path))


def _of_text(path: Path) -> Iterator[Source]:
    read = at.text_reader()
    for number, case in enumerate(read(path.read_text(encoding="utf-8")), 1):
        for dtype in case.types:
            name = f"{label(path)}:{number:02}" + (f"-{dtype}" if dtype else "")
            if case.invalid:
                yield Source(name, None, refused(partial(_judge, case, dtype)))
            else:
                yield Source(name, at.parse_kernel(case.source(dtype)))


def _judge(case: Any, dtype: str) -> None:
    """This function parses, verifies and differentiates what one of the three must refuse, as the tests do."""
    stage = case.invalid[0].only[0] if case.invalid[0].only else "tasks"
    kernel = at.parse_kernel(case.source(dtype))
    at.verify(kernel, "tasks" if stage == "grad" else stage)
    at.prepare_reverse(kernel)


def refused(make: Callable[[], object]) -> str:
    """This function gives the error that the compiler raises, as text; nothing if there is none.

    A defect of the compiler names a folder of its own each time, in a line that is left out.
    """
    try:
        make()
    except at.StackgradError as error:
        said = str(error)
        if isinstance(error, at.InternalError):
            said = said.partition("\n")[0]
        return f"{type(error).__name__}: {said}"
    return ""


def _of_program(path: Path) -> Iterator[Source]:
    ran = at.run_program(path.relative_to(Path.cwd()), 1, StringIO())
    if ran.error:
        raise GoldenError(f"{label(path)} failed: {ran.error}")
    kernels = {at.print_kernel(launch.kernel): launch.kernel for launch in ran.launches}
    counts: dict[str, int] = {}
    for kernel in kernels.values():
        count = counts[kernel.name] = counts.get(kernel.name, 0) + 1
        yield Source(f"{label(path)}:{kernel.name}" + (f".{count}" if count > 1 else ""), kernel)
