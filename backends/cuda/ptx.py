"""PTX of a kernel: the LLVM generator for NVPTX, with libdevice linked in.

Each task is an entry point `KERNEL_task_N(block)`: a grid-stride loop over the row-major numbers of its box, one
adstack row a thread. A parallel task is preceded by `KERNEL_bounds_N(block)`, one thread that computes the box. Both
do nothing once the status in the argument block says that the kernel has returned or failed.
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from ...compiler.errors import DeviceError
from ...compiler.ir.nodes import Kernel, Task
from ..base import Options
from ..crash import crashed
from ..limits import check
from ..llvm import ir
from ..llvm.builder import IRBuilder
from ..llvm.emit import ModuleState
from ..llvm.errors import OK
from ..llvm.function import bounds_function, task_function, total
from ..llvm.optimise import LOCK, Refused, initialise, optimise, parse
from ..llvm.target import NVPTX
from ..llvm.types import I8, I32, I64, VOID, const, pointer
from .toolkit import libdevice_path

TRIPLE = "nvptx64-nvidia-cuda"


def ptx(kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
    """PTX text for an architecture.

    Raises Unsupported for what backends/limits.py declares, DeviceError if the kernel needs libdevice and it is absent.
    """
    text, entries = generate(kernel, options or Options())
    with _refusals(kernel, text, arch, options), LOCK:
        module, machine = _compiled(text, arch, entries)
        return str(machine.emit_assembly(module))


def ir_text(kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
    """The optimised LLVM IR that `ptx` makes PTX of."""
    text, entries = generate(kernel, options or Options())
    with _refusals(kernel, text, arch, options), LOCK:
        return str(_compiled(text, arch, entries)[0])


@contextmanager
def _refusals(kernel: Kernel, text: str, arch: str, options: Options | None) -> Iterator[None]:
    try:
        yield
    except (Refused, RuntimeError) as error:
        texts = {"module.ll": text}
        raise crashed("LLVM failed", error, {"kernel": kernel}, texts, options=options, arch=arch) from error


def generate(kernel: Kernel, options: Options) -> tuple[str, tuple[str, ...]]:
    """(LLVM IR before linking, names of its entry points in the order in which a launch runs them)."""
    check(kernel, NVPTX.name)
    state = ModuleState(kernel, options, NVPTX)
    names = []
    prefix = re.sub(r"\W", "_", kernel.name)
    for index, task in enumerate(kernel.tasks):
        if task.is_parallel:
            names.append(_bounds_entry(state, index, task, f"{prefix}_bounds_{index}"))
        names.append(_task_entry(state, index, task, f"{prefix}_task_{index}"))
    return str(state.module), tuple(names)


# ---- entry points -------------------------------------------------------------------------------------------


def _open(m: ModuleState, name: str) -> tuple[IRBuilder, ir.Value, ir.Block]:
    """(builder, block, exit) of an entry point, past the test of the status."""
    function = ir.Function(m.module, name, VOID, [pointer(NVPTX.space)], head="ptx_kernel")
    b = IRBuilder(function.append_basic_block("entry"))
    run, leave = function.append_basic_block("run"), function.append_basic_block("exit")
    status = b.load(_status(m, b, function.args[0]), I64)
    b.cbranch(b.icmp_unsigned("==", status, const(I64, OK)), run, leave)
    IRBuilder(leave).ret_void()
    b.position_at_end(run)
    return b, function.args[0], leave


def _status(m: ModuleState, b: IRBuilder, block: ir.Value) -> ir.Value:
    return b.gep(block, const(I64, m.layout.status_at), I8, inbounds=True)


def _close(m: ModuleState, b: IRBuilder, block: ir.Value, status: ir.Value, leave: ir.Block) -> None:
    """Keep a status that is not OK. Threads that disagree have failed and returned: either ends the launch."""
    with b.if_then(b.icmp_unsigned("!=", status, const(I32, OK))):
        b.store(b.zext(status, I64), _status(m, b, block))
    b.branch(leave)


def _special(m: ModuleState, b: IRBuilder, name: str) -> ir.Value:
    function = m.declare(f"llvm.nvvm.read.ptx.sreg.{name}", I32, [])
    return b.zext(b.call(function, []), I64)


def _thread(m: ModuleState, b: IRBuilder) -> tuple[ir.Value, ir.Value]:
    """(number of this thread in the grid, number of threads)."""
    width = _special(m, b, "ntid.x")
    number = b.add(b.mul(_special(m, b, "ctaid.x"), width), _special(m, b, "tid.x"))
    return number, b.mul(_special(m, b, "nctaid.x"), width)


def _first_thread_only(b: IRBuilder, thread: ir.Value, leave: ir.Block) -> None:
    go_on = b.function.append_basic_block("first")
    b.cbranch(b.icmp_unsigned("==", thread, const(I64, 0)), go_on, leave)
    b.position_at_end(go_on)


def _bounds_entry(m: ModuleState, index: int, task: Task, name: str) -> str:
    b, block, leave = _open(m, name)
    _first_thread_only(b, _thread(m, b)[0], leave)
    _close(m, b, block, b.call(bounds_function(m, index, task), [block]), leave)
    return name


def _task_entry(m: ModuleState, index: int, task: Task, name: str) -> str:
    b, block, leave = _open(m, name)
    thread, threads = _thread(m, b)
    count: ir.Value = const(I64, 1)
    if task.is_parallel:
        count = total(b, m, block, index, len(task.indices))
    else:
        _first_thread_only(b, thread, leave)
    status = b.call(task_function(m, index, task), [block, thread, count, threads, thread])
    _close(m, b, block, status, leave)
    return name


# ---- linking ------------------------------------------------------------------------------------------------


@cache
def _libdevice() -> bytes:
    path = libdevice_path()
    if path is None:
        raise DeviceError("libdevice.10.bc is not installed, and the kernel calls it; cure: pip install nvidia-nvvm")
    return Path(path).read_bytes()


def _compiled(text: str, arch: str, entries: tuple[str, ...]) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    initialise()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=arch, opt=3, codemodel="default")
    layout = str(machine.target_data)
    module = parse(text, TRIPLE, layout)
    if "__nv_" in text:
        library = llvm.parse_bitcode(_libdevice())
        library.triple, library.data_layout = TRIPLE, layout
        module.link_in(library)
    _internalise(module, entries)
    optimise(module, machine)
    return module, machine


def _internalise(module: llvm.ModuleRef, entries: tuple[str, ...]) -> None:
    """Only entry points stay visible, so that the pipeline removes the unused functions and tables of libdevice."""
    for function in module.functions:
        if not function.is_declaration and function.name not in entries:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration and not variable.name.startswith("llvm."):
            variable.linkage = "internal"
