"""Run `stackgrad ir FILE[:KERNEL]`: print a kernel's IR after each pass, or the code generated from it.

Kernels of a program are its module attributes. If the wanted kernel is not among them, the program runs, and the
kernels that it launched are found by watching. What the program prints goes to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..backends.base import Options
from ..compiler.driver import Lowering, prepare_forward, prepare_reverse
from ..compiler.errors import StackgradError
from ..compiler.ir.kernels import Kernel
from ..compiler.ir.parser import parse_kernels
from ..compiler.ir.printer import print_kernel
from ..compiler.ir.stages import STAGES as IR_STAGES
from ..compiler.ir.verify import verify
from ..harness.testing.launch import is_forward
from ..launch.kernels import Kernel as PythonKernel
from ..launch.kernels import TextKernel
from ..runtime.session import reset
from . import CommandError
from .programs import describe, read, run_module, run_program

_LAST_PASS = {"tasks": "split_tasks", "structured": "lower_exits", "adjoint": "reverse"}
"""The pass after which a kernel is at a stage."""


def run(given: argparse.Namespace) -> int:
    """Print the IR of kernels after each pass, or their generated code. Return the exit status."""
    path, name = split_name(given.file)
    kernels = find_kernels(path, name)
    for kernel in kernels:
        for title, text in shown(kernel, given):
            if given.stage not in _CODE:
                print(f"// {kernel.name}: {title}")
            print(text.rstrip("\n"))
    return 0


def split_name(text: str) -> tuple[Path, str | None]:
    """Return FILE and KERNEL of `FILE:KERNEL`; a colon inside the path of an existing file is part of the path."""
    if Path(text).exists():
        return Path(text), None
    file, colon, name = text.rpartition(":")
    return (Path(file), name) if colon and file else (Path(text), None)


# ---- finding ------------------------------------------------------------------------------------------------


def find_kernels(path: Path, name: str | None) -> list[Kernel]:
    """Return the kernels of a file, or the kernel of this name. Raise CommandError if there is none."""
    known = _of_text(path) if path.suffix == ".kir" else _of_program(path, name)
    wanted = [k for k in known if name in (None, k.name)]
    if not wanted:
        listed = ", ".join(dict.fromkeys(k.name for k in known)) or "none"
        raise CommandError(f"{path} has no kernel {name or ''}; kernels: {listed}".replace("  ", " "), 1)
    return wanted


def _of_text(path: Path) -> list[Kernel]:
    """Return the kernels that a file of IR text defines, after verifying them."""
    kernels = parse_kernels(read(path), str(path))
    for kernel in kernels:
        verify(kernel, "source" if is_forward(kernel) else "adjoint")
    return kernels


def _of_program(path: Path, name: str | None) -> list[Kernel]:
    """Return the kernels of a Python program: those among its globals, or those that a run of it launches.

    Launched kernels are searched only if the requested kernel is not among the globals.
    """
    read(path)
    found, mistakes = _of_module(path)
    if not [k for k in found if name in (None, k.name)]:
        ran = run_program(path, limit=1, stdout=sys.stderr)
        for launch in ran.launches:
            if launch.kernel not in found:
                found.append(launch.kernel)
        if not found and mistakes:
            raise mistakes[0]
        if not found and ran.error:
            raise CommandError(f"the program failed: {ran.error}", 1)
    return found


def _of_module(path: Path) -> tuple[list[Kernel], list[StackgradError]]:
    """Return the traced kernels among the globals of a program, and the errors of kernels that cannot be traced."""
    reset()
    try:
        try:
            names = run_module(path, stdout=sys.stderr)
        except Exception as error:
            raise CommandError(f"the program failed: {describe(error, path)}", 1) from None
        found: list[Kernel] = []
        mistakes: list[StackgradError] = []
        for kernel in {id(v): v for v in names.values() if isinstance(v, PythonKernel | TextKernel)}.values():
            try:
                found.append(kernel.ir())
            except StackgradError as error:  # The kernel may capture what only a run of the program makes.
                mistakes.append(error)
        return found, mistakes
    finally:
        reset()


# ---- showing ------------------------------------------------------------------------------------------------


@dataclass
class _Passes:
    """Record the kernel after each pass, with the pass's name; pipelines call an instance after each pass."""

    seen: list[tuple[str, Kernel]] = field(default_factory=list)

    def __call__(self, name: str, kernel: Kernel) -> None:
        self.seen.append((name, kernel))


def shown(kernel: Kernel, given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield title and text for each part of one stage. Raise CommandError if the direction lacks the stage."""
    if given.stage == "source":
        yield "source", print_kernel(kernel)
        return
    passes = _Passes()
    lowered = lower(kernel, given.direction, given.lowering, passes)
    if given.stage == "all":
        yield "source", print_kernel(kernel)
        yield from ((f"after {name}", print_kernel(k)) for name, k in passes.seen)
        yield from _result(lowered, ("final", "counting"))
    elif given.stage in IR_STAGES:
        last = _LAST_PASS[given.stage]
        found = [k for name, k in passes.seen if name.split(" ")[0] == last]
        if not found:
            cure = "use --direction reverse" if given.direction == "forward" else "it is a gradient already"
            raise CommandError(f"{given.direction} kernel {kernel.name} has no stage {given.stage}; {cure}", 1)
        yield f"stage {given.stage}", print_kernel(found[0])
    elif given.stage in _CODE:
        yield given.stage, _CODE[given.stage](lowered.kernel, given.arch)
    else:
        yield from _result(lowered, (given.stage,))


def lower(kernel: Kernel, direction: str, lowering: str, trace: Callable[[str, Kernel], None]) -> Lowering:
    """Lower a source kernel for one direction, forward or reverse.

    Args:
        kernel: The source kernel.
        direction: "forward" or "reverse".
        lowering: The policy of the gradient: "lean" or "classic".
        trace: A function that is called with the name of each pass and the kernel after it.

    Raises:
        CommandError: The kernel is a gradient already.
    """
    if direction == "forward":
        return prepare_forward(kernel, trace)
    if not is_forward(kernel):
        raise CommandError(f"kernel {kernel.name} uses adjoints itself; use --direction forward", 1)
    return prepare_reverse(kernel, lowering, trace)


def _result(lowered: Lowering, stages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield a title and the IR text of each kernel of a lowering that belongs to the given stages."""
    if "final" in stages:
        yield "final", print_kernel(lowered.kernel)
    if "final" in stages and lowered.marking is not None:
        yield "marks", print_kernel(lowered.marking.kernel)
    if "counting" in stages and lowered.counting is not None:
        yield "counting", print_kernel(lowered.counting)
    elif stages == ("counting",):
        raise CommandError(f"kernel {lowered.kernel.name} needs no counting kernel: all its sizes are known", 1)


def _llvm(kernel: Kernel, arch: str) -> str:
    from ..backends.cpu.backend import CpuBackend

    return CpuBackend().ir_text(kernel, _options())


def _asm(kernel: Kernel, arch: str) -> str:
    from ..backends.cpu.backend import CpuBackend

    return CpuBackend().assembly(kernel, _options())


def _options() -> Options:
    return Options(debug_info=os.environ.get("STACKGRAD_DEBUG_INFO", "0") not in ("", "0"))


def _ptx(kernel: Kernel, arch: str) -> str:
    from ..backends.cuda.ptx import ptx

    return ptx(kernel, arch)


def _spirv(kernel: Kernel, arch: str) -> str:
    from ..backends.spirv.shaders import generate
    from ..harness.testing.spirv_text import text_of

    return text_of(generate(kernel, _options()).code)


def _metal(kernel: Kernel, arch: str) -> str:
    from ..backends.metal.program import program

    return program(kernel, _options()).text


_CODE: dict[str, Callable[[Kernel, str], str]] = {
    "llvm": _llvm,
    "asm": _asm,
    "ptx": _ptx,
    "spirv": _spirv,
    "metal": _metal,
}
