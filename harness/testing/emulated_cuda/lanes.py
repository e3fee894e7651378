"""This module contains ONE_LANE: bodies in LLVM of the helper functions of warps and blocks, for warps of one lane.

The operation is the third part of the name of a helper.
"""

from __future__ import annotations

from collections.abc import Callable

from .checks import Untranslatable

HelperBody = Callable[[str, str, list[str]], str]
"""Function from (name, type of the result, types of the parameters %a0, %a1, ...) to the lines of the function."""


def _same(name: str, result: str, types: list[str]) -> str:
    """Return the LLVM body of a helper that returns its first argument."""
    return f"  ret {result} %a0" if result != "void" else "  ret void"


def _ballot(name: str, result: str, types: list[str]) -> str:
    return f"  %v = zext i1 %a0 to {result}\n  ret {result} %v"


def _nothing(name: str, result: str, types: list[str]) -> str:
    assert result == "void", f"{name} gives {result}"
    return "  ret void"


def _true(name: str, result: str, types: list[str]) -> str:
    return f"  ret {result} {'true' if result == 'i1' else '1'}"


def _zero(name: str, result: str, types: list[str]) -> str:
    return f"  ret {result} {'false' if result == 'i1' else '0'}"


def _claim(name: str, result: str, types: list[str]) -> str:
    """Return the LLVM body of a helper that adds to a counter and returns the old value."""
    return f"  %v = atomicrmw add {types[0]} %a0, {result} %a1 monotonic\n  ret {result} %v"


def _list(name: str, result: str, types: list[str]) -> str:
    """Return the LLVM body of a helper that writes the indices of true conditions to shared memory and counts them."""
    lines = []
    for k in range(len(types)):
        before = f"%n{k}" if k else "0"
        lines.append(f'  %at{k} = getelementptr i16, ptr addrspace(3) @"sg.shared.list", i32 {before}')
        lines.append(f"  %was{k} = load i16, ptr addrspace(3) %at{k}")
        lines.append(f"  %new{k} = select i1 %a{k}, i16 {k}, i16 %was{k}")
        lines.append(f"  store i16 %new{k}, ptr addrspace(3) %at{k}")
        lines.append(f"  %one{k} = zext i1 %a{k} to i32\n  %n{k + 1} = add i32 {before}, %one{k}")
    return "\n".join([*lines, f"  ret i32 %n{len(types)}"])


def _refused(name: str, result: str, types: list[str]) -> str:
    """Refuse a barrier of the program, because a block of one lane has no others to wait for."""
    raise Untranslatable(f"{name} needs blocks of threads")


ONE_LANE: dict[str, HelperBody] = {
    "ballot": _ballot,
    "claim": _claim,
    "list": _list,
    "reduce": _same,
    "broadcast": _same,
    "shuffle": _same,
    "any": _same,
    "all": _same,
    "sync": _nothing,
    "leads": _true,
    "meet": _refused,
    "lane": _zero,
    "mask": _true,
}
