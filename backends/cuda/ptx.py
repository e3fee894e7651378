"""PTX of a kernel: the code for NVIDIA GPUs, with libdevice linked in where it calls it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from ...compiler.errors import DeviceError
from ...compiler.ir.depth import deep
from ...compiler.ir.nodes import Kernel
from ..base import Options
from ..crash import crashed
from ..llvm.compiler_lock import LOCK
from ..llvm.optimise import Refused, initialise, optimise, parse
from .code import generate
from .toolkit import libdevice_path

TRIPLE = "nvptx64-nvidia-cuda"

FEATURES = "+ptx83"
"""The version of PTX: entry points take more than 4 KiB of parameters from 8.1 on."""


@deep
def ptx(kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
    """PTX text for an architecture.

    Raises Unsupported for what backends/limits.py declares, DeviceError if the kernel needs libdevice and it is absent.
    """
    code = generate(kernel, options or Options())
    with _refusals(kernel, code.text, arch, options):
        return assemble(code.text, code.names, arch)


def assemble(text: str, entries: Sequence[str], arch: str) -> str:
    """PTX of LLVM IR with these entry points."""
    with LOCK:
        module, machine = _compiled(text, arch, entries)
        return str(machine.emit_assembly(module))


@deep
def ir_text(kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
    """The optimised LLVM IR that `ptx` makes PTX of."""
    code = generate(kernel, options or Options())
    with _refusals(kernel, code.text, arch, options), LOCK:
        return str(_compiled(code.text, arch, code.names)[0])


@contextmanager
def _refusals(kernel: Kernel, text: str, arch: str, options: Options | None) -> Iterator[None]:
    try:
        yield
    except (Refused, RuntimeError) as error:
        texts = {"module.ll": text}
        raise crashed("LLVM failed", error, {"kernel": kernel}, texts, options=options, arch=arch) from error


# ---- linking ------------------------------------------------------------------------------------------------


@cache
def _libdevice() -> bytes:
    path = libdevice_path()
    if path is None:
        raise DeviceError("libdevice.10.bc is not installed, and the kernel calls it; cure: pip install nvidia-nvvm")
    return Path(path).read_bytes()


def _compiled(text: str, arch: str, entries: Sequence[str]) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    initialise()
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu=arch, features=FEATURES, opt=3, codemodel="default")
    layout = str(machine.target_data)
    module = parse(text, TRIPLE, layout)
    if '@"__nv_' in text:
        library = llvm.parse_bitcode(_libdevice())
        library.triple, library.data_layout = TRIPLE, layout
        module.link_in(library)
    _internalise(module, entries)
    optimise(module, machine)
    return module, machine


def _internalise(module: llvm.ModuleRef, entries: Sequence[str]) -> None:
    """Only entry points stay visible, so that the pipeline removes the unused functions and tables of libdevice."""
    for function in module.functions:
        if not function.is_declaration and function.name not in entries:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration and not variable.name.startswith("llvm."):
            variable.linkage = "internal"
