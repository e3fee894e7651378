"""This module translates LLVM text for NVIDIA GPUs to LLVM text for the host.

Every thread is a warp and a block of its own. So entry points lose their calling convention, special registers become
words that the loop over threads sets, the helpers of warps and blocks (`sg.warp.*`, `sg.block.*`) are replaced by their
meaning for one lane, and functions of libdevice by those of libm. A `byval` parameter is the address of a copy that the
launch made; entries do not write it. With fibers there are blocks and warps, and the helpers stay (fibers.py).

Each access to global memory (address space 1) passes through `sg.emulated.check`, so that an access outside of all
allocations is reported with its address and changes nothing. Text is rewritten line by line, because the builder writes
one instruction on each line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....backends.codegen.libcall import LIBRARY
from .checks import EPOCH, EPOCH_SHIFT, SIZES, CheckPlaces, Untranslatable, checked_text, insert_checks
from .fibers import IDENTITY, Fibers, entry_text, fiber_text, insert_requests
from .fibers import REGISTERS as OF_THREADS
from .lanes import ONE_LANE

REGISTERS = {
    **{f"{name}.{axis}": 0 for name in ("tid", "ctaid") for axis in "xyz"},
    **{f"{name}.{axis}": 1 for name in ("ntid", "nctaid") for axis in "xyz"},
    "laneid": 0,
    "warpid": 0,
    "warpsize": 1,
    "lanemask.lt": 0,
    "lanemask.le": 1,
    "lanemask.eq": 1,
    "lanemask.gt": 0,
    "lanemask.ge": 1,
}
"""Special registers and their value in every thread; the loop over threads sets ctaid.x and nctaid.x."""

PLAIN = {
    "llvm.nvvm.barrier0": "",
    "llvm.nvvm.bar.warp.sync": "",
    "llvm.nvvm.membar.gl": "",
    "llvm.nvvm.membar.cta": "",
    "llvm.nvvm.membar.sys": "",
    "llvm.nvvm.fence.acq_rel.sys": "",
    "llvm.nvvm.barrier.cta.sync.aligned.all": "",
}
"""Intrinsics without a result that have no effect for a single thread."""


@dataclass(frozen=True)
class EntryParameter:
    """Represent one parameter of an entry point: its type, its size, and its offset in a launch's parameter buffer.

    Attributes:
        type: its LLVM type.
        bytes: its bytes in the buffer of a launch.
        at: its offset in this buffer.
        by_value: True if the entry gets the address of a copy.
    """

    type: str
    bytes: int
    at: int
    by_value: bool


@dataclass(frozen=True)
class EmulatedEntry:
    """An `EmulatedEntry` describes an entry point and its parameters; `bytes` is the size of the parameter buffer."""

    name: str
    parameters: tuple[EntryParameter, ...]
    bytes: int


_ENTRY = re.compile(r"^define\s+(?:dso_local\s+)?ptx_kernel\s+void\s+@\"?([\w.$]+)\"?\((.*)\)([^()]*)\{\s*$", re.M)
_BY_VALUE = re.compile(r"byval\(\s*(?:\[\s*(\d+)\s*x\s*i8\s*\]|(\w+))\s*\)")
_SPECIAL = re.compile(r"@\"?llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\"?")
_HELPER = re.compile(
    r"^define [^\n]*?(\w+|\{[^}]*\}) @\"?(sg\.(?:warp|block)\.[\w.]+)\"?\(([^\n]*)\)[^\n]*\{\n.*?^\}", re.M | re.S
)


def entries(text: str) -> dict[str, EmulatedEntry]:
    """Return the entry points that LLVM code defines, by name, with their parameters.

    Raises:
        Untranslatable: a parameter has an unknown type.
    """
    return {m[1]: _entry(m[1], m[2]) for m in _ENTRY.finditer(text)}


def _entry(name: str, parameters: str) -> EmulatedEntry:
    made, at = [], 0
    for text in _split(parameters):
        found = _BY_VALUE.search(text)
        kind = text.split()[0]
        if found:
            size = int(found[1]) if found[1] else SIZES[found[2]]
            made.append(EntryParameter("ptr", size, _up(at, 16), True))
        elif kind == "ptr":
            made.append(EntryParameter(_pointer(text), 8, _up(at, 8), False))
        elif kind in SIZES:
            made.append(EntryParameter(kind, SIZES[kind], _up(at, SIZES[kind]), False))
        else:
            raise Untranslatable(f"entry {name}: parameter {text!r}")
        at = made[-1].at + made[-1].bytes
    return EmulatedEntry(name, tuple(made), at)


def _pointer(text: str) -> str:
    found = re.match(r"ptr(?: addrspace\(\d+\))?", text)
    assert found
    return found[0]


def _up(at: int, align: int) -> int:
    return -(-at // align) * align


def _split(parameters: str) -> list[str]:
    """Split a list of parameters at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [p.strip() for p in parts if p.strip()]


def translate(text: str, places: CheckPlaces, room: Fibers | None = None) -> str:
    """Return LLVM code for NVIDIA GPUs translated to LLVM code for the CPU.

    For each entry it has a function `run.NAME(buffer, threads, first, step)`. With fibers it has a function
    `run.NAME()` that a thread runs, and the functions of fiber_text.

    Args:
        text: the text for the GPU.
        places: where the checks find their data.
        room: memory for fibers, or None for threads one after another.

    Raises:
        Untranslatable: the text uses an unknown feature.
    """
    known = entries(text)
    text = insert_requests(text) if room else _HELPER.sub(_one_lane, text)
    text = _ENTRY.sub(_plain_entry, text)
    text = _SPECIAL.sub(_register, text)
    text = re.sub(r"^declare i32 @\"sg\.emulated\.sreg\.[^\n]*\n", "", text, flags=re.M)
    for name in PLAIN:
        text = re.sub(rf"^declare void @\"?{re.escape(name)}\"?\([^\n]*\n", "", text, flags=re.M)
        text = re.sub(rf"^\s*(?:tail )?call void @\"?{re.escape(name)}\"?\([^\n]*\n", "", text, flags=re.M)
    text = re.sub(r"@\"?(__nv_\w+)\"?", _libm, text)
    text = _without_unused(text)
    _refuse_unknown(text)
    if room:
        own = [fiber_text(text, room, places), *(entry_text(e.name, *_passed(e)) for e in known.values())]
    else:
        own = [_runner(e, places) for e in known.values()]
    return "\n".join([insert_checks(text), _registers(), checked_text(places, IDENTITY if room else ""), *own])


def _without_unused(text: str) -> str:
    """Return the LLVM code without declarations of NVIDIA intrinsics that the code no longer calls."""
    used = set(re.findall(r"call [^\n]*@\"?(llvm\.nvvm\.[\w.]+)", text))

    def keep(found: re.Match[str]) -> str:
        return found[0] if found[1] in used else ""

    return re.sub(r"^declare [^\n]*@\"?(llvm\.nvvm\.[\w.]+)[^\n]*\n", keep, text, flags=re.M)


def _refuse_unknown(text: str) -> None:
    left = sorted(set(re.findall(r"llvm\.nvvm\.[\w.]+|asm (?:sideeffect )?\"[^\"]*\"", text)))
    if left:
        raise Untranslatable(f"the emulator has nothing for {', '.join(left)}")


def _plain_entry(found: re.Match[str]) -> str:
    """Return the header of an entry point for the CPU, without the calling convention and attributes of GPUs."""
    parameters = []
    for text in _split(found[2]):
        plain = re.sub(r"\"[\w.]+\"(=\"[^\"]*\")?", "", _BY_VALUE.sub("", text))
        parameters.append(re.sub(r"\balign \d+\b", "", plain))
    return f'define internal void @"{found[1]}"({", ".join(parameters)}) {{'


def _register(found: re.Match[str]) -> str:
    if found[1] not in REGISTERS:
        raise Untranslatable(f"special register {found[1]}")
    return f'@"sg.emulated.sreg.{found[1]}"'


def _libm(found: re.Match[str]) -> str:
    return f'@"{_LIBM[found[1]]}"' if found[1] in _LIBM else found[0]


_LIBM = {device: host for row in LIBRARY.values() for device, host in zip(row["libdevice"], row["libm"], strict=True)}


# ---- warps and blocks of one lane ---------------------------------------------------------------------------


def _one_lane(found: re.Match[str]) -> str:
    result, name, parameters = found[1], found[2], _split(found[3])
    types = [" ".join(p.split()[:-1]) for p in parameters]
    arguments = ", ".join(f"{t} %a{k}" for k, t in enumerate(types))
    operation = name.split(".")[2]
    if operation not in ONE_LANE:
        raise Untranslatable(f"helper {name} of warps and blocks")
    body = ONE_LANE[operation](name, result, types)
    return f'define internal {result} @"{name}"({arguments}) alwaysinline {{\n{body}\n}}'


# ---- what is added to every module ---------------------------------------------------------------------------


def _registers() -> str:
    return "\n".join(
        f'@"sg.emulated.{name}" = internal global i32 {value}\n'
        f'define internal i32 @"sg.emulated.sreg.{name}"() alwaysinline {{\n'
        f'  %v = load {"volatile " if name in OF_THREADS else ""}i32, ptr @"sg.emulated.{name}"\n  ret i32 %v\n}}'
        for name, value in REGISTERS.items()
    )


def _passed(entry: EmulatedEntry) -> tuple[str, str]:
    """Return LLVM code that loads the parameters from the buffer of a launch, and the argument list of the call."""
    loads, arguments = [], []
    for k, p in enumerate(entry.parameters):
        loads.append(f"  %at.{k} = getelementptr i8, ptr %buffer, i64 {p.at}")
        if not p.by_value:
            loads.append(f"  %p.{k} = load {p.type}, ptr %at.{k}")
        arguments.append(f"{p.type} %{'at' if p.by_value else 'p'}.{k}")
    return "\n".join(loads), ", ".join(arguments)


def _runner(entry: EmulatedEntry, places: CheckPlaces) -> str:
    """Return an LLVM function that runs the threads first, first + step, first + 2·step, ... of a launch."""
    lines, arguments = _passed(entry)
    return f"""define void @"run.{entry.name}"(ptr %buffer, i64 %threads, i64 %first, i64 %step) {{
  store i64 1, ptr @"sg.emulated.low"
  store i64 0, ptr @"sg.emulated.high"
  %all = trunc i64 %threads to i32
  store i32 %all, ptr @"sg.emulated.nctaid.x"
  %epoch.at = inttoptr i64 {places.word(EPOCH)} to ptr
  %epoch.word = load i64, ptr %epoch.at
  %epoch = shl i64 %epoch.word, {EPOCH_SHIFT}
{lines}
  br label %head
head:
  %k = phi i64 [ 0, %0 ], [ %k.next, %body ]
  %thread = phi i64 [ %first, %0 ], [ %thread.next, %body ]
  %over = icmp uge i64 %k, %threads
  br i1 %over, label %done, label %body
body:
  %number = trunc i64 %thread to i32
  store i32 %number, ptr @"sg.emulated.ctaid.x"
  %thread.one = add i64 %thread, 1
  %tag = or i64 %epoch, %thread.one
  store i64 %tag, ptr @"sg.emulated.tag"
  call void @"{entry.name}"({arguments})
  %k.next = add i64 %k, 1
  %thread.next = add i64 %thread, %step
  br label %head
done:
  ret void
}}"""
