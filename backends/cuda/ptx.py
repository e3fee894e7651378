"""This module compiles a kernel to PTX and links libdevice, NVIDIA's math library, if the code calls it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from ...compiler.errors import DeviceError
from ...compiler.ir.depth import with_stack_room
from ...compiler.ir.kernels import Kernel
from ..base import Options
from ..crash import crash_error
from ..llvm.compiler_lock import LOCK
from ..llvm.optimize import InvalidLLVMError, initialize, optimize, parse
from .code import generate
from .toolkit import libdevice_path

TRIPLE = "nvptx64-nvidia-cuda"

FEATURES = "+ptx83"
"""Version of PTX: entry points take more than 4 KiB of parameters from 8.1 on."""


@with_stack_room
def ptx(kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
    """Return the PTX text of a kernel for an architecture.

    Raises:
        Unsupported: The kernel uses something that backends/limits.py declares as unsupported.
        DeviceError: The kernel needs libdevice, which is not installed.
    """
    code = generate(kernel, options or Options())
    with _refusals(kernel, code.text, arch, options):
        return assemble(code.text, code.names, arch)


def assemble(text: str, entries: Sequence[str], arch: str) -> str:
    """Compile LLVM IR with these entry points to PTX text, and return the text."""
    with LOCK:
        module, machine = _compiled(text, arch, entries)
        return str(machine.emit_assembly(module))


@with_stack_room
def ir_text(kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
    """Return the optimized LLVM IR of a kernel from which `ptx` makes its PTX."""
    code = generate(kernel, options or Options())
    with _refusals(kernel, code.text, arch, options), LOCK:
        return str(_compiled(code.text, arch, code.names)[0])


@contextmanager
def _refusals(kernel: Kernel, text: str, arch: str, options: Options | None) -> Iterator[None]:
    """Raise errors of LLVM in the `with` block as an InternalError that names a folder with a reproducer."""
    try:
        yield
    except (InvalidLLVMError, RuntimeError) as error:
        texts = {"module.ll": text}
        raise crash_error("LLVM failed", error, {"kernel": kernel}, texts, options=options, arch=arch) from error


# ---- linking ------------------------------------------------------------------------------------------------


@cache
def _libdevice() -> bytes:
    """Return the bitcode of libdevice; raise DeviceError if it is not installed."""
    path = libdevice_path()
    if path is None:
        raise DeviceError("libdevice.10.bc is not installed, and the kernel calls it; cure: pip install nvidia-nvvm")
    return Path(path).read_bytes()


def _compiled(text: str, arch: str, entries: Sequence[str]) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """Return the optimized LLVM module of LLVM IR text, and the target machine for an architecture."""
    initialize()
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu=arch, features=FEATURES, opt=3, codemodel="default")
    layout = str(machine.target_data)
    module = parse(text, TRIPLE, layout)
    if '@"__nv_' in text:
        library = llvm.parse_bitcode(_libdevice())
        library.triple, library.data_layout = TRIPLE, layout
        module.link_in(library)
    _internalize(module, entries)
    optimize(module, machine)
    return module, machine


def _internalize(module: llvm.ModuleRef, entries: Sequence[str]) -> None:
    """Make all functions but the entry points internal, so that LLVM removes the unused parts of libdevice."""
    for function in module.functions:
        if not function.is_declaration and function.name not in entries:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration and not variable.name.startswith("llvm."):
            variable.linkage = "internal"
