"""ONE_LANE: what the helpers of warps and blocks mean where a warp has one lane, by the third part of their name."""
from __future__ import annotations

from collections.abc import Callable

Body = Callable[[str, str, list[str]], str]
"""(name, type of the result, types of the parameters %a0, %a1, ...) -> the lines of the function."""


def _same(name: str, result: str, types: list[str]) -> str:
    """The lane's own value, which comes first."""
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
    """The next number of a counter."""
    return f"  %v = atomicrmw add {types[0]} %a0, {result} 1 monotonic\n  ret {result} %v"


ONE_LANE: dict[str, Body] = {
    "ballot": _ballot,
    "claim": _claim,
    "reduce": _same,
    "broadcast": _same,
    "shuffle": _same,
    "any": _same,
    "all": _same,
    "sync": _nothing,
    "leads": _true,
    "lane": _zero,
    "mask": _true,
}
