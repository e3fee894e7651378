"""LLVM text made for NVIDIA GPUs becomes LLVM text for the host.

Every thread is a warp and a block of its own. So entry points lose their calling convention, special registers are
words that the loop over threads sets, the helpers of warps and blocks (`sg.warp.*`, `sg.block.*`) are replaced by what
they mean for one lane, functions of libdevice by those of libm. A `byval` parameter is an address: of a copy that the
launch made, which entries do not write.

Each access to global memory (address space 1) passes through `sg.emulated.check`, so that one outside of all
allocations is reported with its address and changes nothing. Text is rewritten line by line: the builder writes one
instruction on each.
"""
from __future__ import annotations

import re
from dataclasses import dataclass

from ...backends.llvm.libcall import LIBRARY

_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8, "i1": 1}

REGISTERS = {
    **{f"{name}.{axis}": 0 for name in ("tid", "ctaid") for axis in "xyz"},
    **{f"{name}.{axis}": 1 for name in ("ntid", "nctaid") for axis in "xyz"},
    "laneid": 0, "warpid": 0, "warpsize": 1, "lanemask.lt": 0, "lanemask.le": 1, "lanemask.eq": 1, "lanemask.gt": 0,
    "lanemask.ge": 1,
}  # fmt: skip
"""Special registers and what they hold in every thread; ctaid.x and nctaid.x are set by the loop."""

PLAIN = {
    "llvm.nvvm.barrier0": "", "llvm.nvvm.bar.warp.sync": "", "llvm.nvvm.membar.gl": "", "llvm.nvvm.membar.cta": "",
    "llvm.nvvm.membar.sys": "", "llvm.nvvm.fence.acq_rel.sys": "", "llvm.nvvm.barrier.cta.sync.aligned.all": "",
}  # fmt: skip
"""Intrinsics without a result that mean nothing for a single thread."""


class Untranslatable(Exception):
    """The text uses something of NVIDIA GPUs that the emulator does not know."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of an entry: its type, bytes in the buffer of a launch, and where they begin there."""

    type: str
    bytes: int
    at: int
    by_value: bool


@dataclass(frozen=True)
class Entry:
    """An entry point. `bytes`: of all its parameters."""

    name: str
    parameters: tuple[Parameter, ...]
    bytes: int


_ENTRY = re.compile(r"^define\s+(?:dso_local\s+)?ptx_kernel\s+void\s+@\"?([\w.$]+)\"?\((.*)\)([^()]*)\{\s*$", re.M)
_BY_VALUE = re.compile(r"byval\(\s*(?:\[\s*(\d+)\s*x\s*i8\s*\]|(\w+))\s*\)")
_SPECIAL = re.compile(r"@\"?llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\"?")
_HELPER = re.compile(
    r"^define [^\n]*?(\w+|\{[^}]*\}) @\"?(sg\.(?:warp|block)\.[\w.]+)\"?\(([^\n]*)\)[^\n]*\{\n.*?^\}", re.M | re.S
)
_ACCESS = re.compile(
    r"^(\s*(?:%[\w.]+ = )?)(load|store|atomicrmw|cmpxchg)\b([^\n]*?)ptr addrspace\(1\) (%[\w.]+)([^\n]*)$"
)


def entries(text: str) -> dict[str, Entry]:
    """The entry points of a text, by name. Raises Untranslatable for parameters of a type that it does not know."""
    return {m[1]: _entry(m[1], m[2]) for m in _ENTRY.finditer(text)}


def _entry(name: str, parameters: str) -> Entry:
    made, at = [], 0
    for text in _split(parameters):
        found = _BY_VALUE.search(text)
        kind = text.split()[0]
        if found:
            size = int(found[1]) if found[1] else _SIZES[found[2]]
            made.append(Parameter("ptr", size, _up(at, 16), True))
        elif kind == "ptr":
            made.append(Parameter(_pointer(text), 8, _up(at, 8), False))
        elif kind in _SIZES:
            made.append(Parameter(kind, _SIZES[kind], _up(at, _SIZES[kind]), False))
        else:
            raise Untranslatable(f"entry {name}: parameter {text!r}")
        at = made[-1].at + made[-1].bytes
    return Entry(name, tuple(made), at)


def _pointer(text: str) -> str:
    found = re.match(r"ptr(?: addrspace\(\d+\))?", text)
    assert found
    return found[0]


def _up(at: int, align: int) -> int:
    return -(-at // align) * align


def _split(parameters: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [p.strip() for p in parts if p.strip()]


def translate(text: str, table: int, report: int, checked: bool = True) -> str:
    """The text for the host, with a function `run.NAME(buffer, threads, first, step)` for each entry.

    table: address of (count, then low and high of each allocation, ascending). report: address of the words that hold
    the first access outside: address, bytes, number of the thread + 1.
    """
    known = entries(text)
    text = _HELPER.sub(_one_lane, text)
    text = _ENTRY.sub(_plain_entry, text)
    text = _SPECIAL.sub(_register, text)
    text = re.sub(r"^declare i32 @\"sg\.emulated\.sreg\.[^\n]*\n", "", text, flags=re.M)
    for name in PLAIN:
        text = re.sub(rf"^declare void @\"?{re.escape(name)}\"?\([^\n]*\n", "", text, flags=re.M)
        text = re.sub(rf"^\s*(?:tail )?call void @\"?{re.escape(name)}\"?\([^\n]*\n", "", text, flags=re.M)
    text = re.sub(r"@\"?(__nv_\w+)\"?", _libm, text)
    _refuse_unknown(text)
    if checked:
        text = "\n".join(_guarded(k, line) for k, line in enumerate(text.split("\n")))
    return "\n".join([text, _prelude(table, report), *(_runner(e) for e in known.values())])


def _refuse_unknown(text: str) -> None:
    left = sorted(set(re.findall(r"llvm\.nvvm\.[\w.]+|asm (?:sideeffect )?\"[^\"]*\"", text)))
    if left:
        raise Untranslatable(f"the emulator has nothing for {', '.join(left)}")


def _plain_entry(found: re.Match[str]) -> str:
    """The same function by the host's convention. What follows the parameters is for GPUs."""
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


_LIBM = {
    device: host for row in LIBRARY.values() for device, host in zip(row["libdevice"], row["libm"], strict=True)
}


# ---- warps and blocks of one lane ---------------------------------------------------------------------------


def _one_lane(found: re.Match[str]) -> str:
    result, name, parameters = found[1], found[2], _split(found[3])
    types = [" ".join(p.split()[:-1]) for p in parameters]
    arguments = ", ".join(f"{t} %a{k}" for k, t in enumerate(types))
    from .lanes import ONE_LANE

    operation = name.split(".")[2]
    if operation not in ONE_LANE:
        raise Untranslatable(f"helper {name} of warps and blocks")
    body = ONE_LANE[operation](name, result, types)
    return f'define internal {result} @"{name}"({arguments}) alwaysinline {{\n{body}\n}}'


# ---- checks -------------------------------------------------------------------------------------------------


def _guarded(number: int, line: str) -> str:
    """The access, to an address that was checked."""
    found = _ACCESS.match(line)
    if not found:
        return line
    head, verb, before, place, after = found.groups()
    what = before if verb == "load" else after if verb in ("atomicrmw", "cmpxchg") else before
    size = _bytes_of(verb, what, line)
    safe = f"%sg.safe.{number}"
    check = f'  {safe} = call ptr addrspace(1) @"sg.emulated.check"(ptr addrspace(1) {place}, i64 {size})'
    return f"{check}\n{head}{verb}{before}ptr addrspace(1) {safe}{after}"


def _bytes_of(verb: str, what: str, line: str) -> int:
    """Bytes of what is read or written: the first type named beside the address."""
    text = what.replace("volatile", " ").replace("atomic", " ").lstrip(" ,")
    vector = re.match(r"<(\d+) x (\w+)>", text)
    if vector:
        return int(vector[1]) * _SIZES[vector[2]]
    first = re.match(r"\w+", text)
    name = first[0] if first else ""
    if name == "ptr":
        return 8
    if name not in _SIZES:
        raise Untranslatable(f"access of unknown size: {line.strip()}")
    return _SIZES[name]


def _prelude(table: int, report: int) -> str:
    registers = "\n".join(
        f'@"sg.emulated.{name}" = internal global i32 {value}\n'
        f'define internal i32 @"sg.emulated.sreg.{name}"() alwaysinline {{\n'
        f'  %v = load i32, ptr @"sg.emulated.{name}"\n  ret i32 %v\n}}'
        for name, value in REGISTERS.items()
    )
    check = _CHECK.replace("TABLE", str(table)).replace("COUNT", str(table + 8)).replace("REPORT", str(report))
    return f"{registers}\n{check}"


_CHECK = """@"sg.emulated.low" = internal global i64 1
@"sg.emulated.high" = internal global i64 0
@"sg.emulated.thread" = internal global i64 0
@"sg.emulated.spare" = internal global [64 x i8] zeroinitializer, align 64
define internal ptr addrspace(1) @"sg.emulated.check"(ptr addrspace(1) %p, i64 %size) {
  %low = ptrtoint ptr addrspace(1) %p to i64
  %high = add i64 %low, %size
  %known.low = load i64, ptr @"sg.emulated.low"
  %known.high = load i64, ptr @"sg.emulated.high"
  %above = icmp uge i64 %low, %known.low
  %below = icmp ule i64 %high, %known.high
  %inside = and i1 %above, %below
  br i1 %inside, label %fine, label %search
search:
  %table = load ptr, ptr inttoptr (i64 TABLE to ptr)
  %count.at = inttoptr i64 COUNT to ptr
  %count = load i64, ptr %count.at
  br label %halve
halve:
  %begin = phi i64 [ 0, %search ], [ %begin.next, %compare ]
  %end = phi i64 [ %count, %search ], [ %end.next, %compare ]
  %over = icmp uge i64 %begin, %end
  br i1 %over, label %found, label %compare
compare:
  %sum = add i64 %begin, %end
  %middle = lshr i64 %sum, 1
  %middle.word = shl i64 %middle, 1
  %middle.at = getelementptr i64, ptr %table, i64 %middle.word
  %middle.low = load i64, ptr %middle.at
  %left = icmp ugt i64 %middle.low, %low
  %right.begin = add i64 %middle, 1
  %begin.next = select i1 %left, i64 %begin, i64 %right.begin
  %end.next = select i1 %left, i64 %middle, i64 %end
  br label %halve
found:
  %none = icmp eq i64 %begin, 0
  br i1 %none, label %outside, label %candidate
candidate:
  %last = sub i64 %begin, 1
  %last.word = shl i64 %last, 1
  %last.at = getelementptr i64, ptr %table, i64 %last.word
  %last.low = load i64, ptr %last.at
  %high.at = getelementptr i64, ptr %last.at, i64 1
  %last.high = load i64, ptr %high.at
  %within = icmp ule i64 %high, %last.high
  br i1 %within, label %keep, label %outside
keep:
  store i64 %last.low, ptr @"sg.emulated.low"
  store i64 %last.high, ptr @"sg.emulated.high"
  br label %fine
outside:
  %report = inttoptr i64 REPORT to ptr
  %reported.at = getelementptr i64, ptr %report, i64 2
  %reported = load i64, ptr %reported.at
  %first = icmp eq i64 %reported, 0
  br i1 %first, label %enter, label %spare
enter:
  store i64 %low, ptr %report
  %size.at = getelementptr i64, ptr %report, i64 1
  store i64 %size, ptr %size.at
  %thread = load i64, ptr @"sg.emulated.thread"
  %thread.one = add i64 %thread, 1
  store i64 %thread.one, ptr %reported.at
  br label %spare
spare:
  store [64 x i8] zeroinitializer, ptr @"sg.emulated.spare"
  %away = addrspacecast ptr @"sg.emulated.spare" to ptr addrspace(1)
  ret ptr addrspace(1) %away
fine:
  ret ptr addrspace(1) %p
}"""
"""Gives the address, or that of memory of nobody's if what is accessed lies outside of all allocations."""


def _runner(entry: Entry) -> str:
    """Threads first, first + step, ... one after another; each gets the parameters from the launch's buffer."""
    loads, arguments = [], []
    for k, p in enumerate(entry.parameters):
        loads.append(f"  %at.{k} = getelementptr i8, ptr %buffer, i64 {p.at}")
        if not p.by_value:
            loads.append(f"  %p.{k} = load {p.type}, ptr %at.{k}")
        arguments.append(f"{p.type} %{'at' if p.by_value else 'p'}.{k}")
    lines = "\n".join(loads)
    return f"""define void @"run.{entry.name}"(ptr %buffer, i64 %threads, i64 %first, i64 %step) {{
  store i64 1, ptr @"sg.emulated.low"
  store i64 0, ptr @"sg.emulated.high"
  %all = trunc i64 %threads to i32
  store i32 %all, ptr @"sg.emulated.nctaid.x"
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
  store i64 %thread, ptr @"sg.emulated.thread"
  call void @"{entry.name}"({", ".join(arguments)})
  %k.next = add i64 %k, 1
  %thread.next = add i64 %thread, %step
  br label %head
done:
  ret void
}}"""
