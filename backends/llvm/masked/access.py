"""This module emits memory accesses of masked code: only active lanes read or write, each its own address.

A place is one address for all lanes, the first of a run of neighboring elements, or an address for each lane. Where the
machine has no masked access to memory, a run is accessed whole if all lanes are active, and lane by lane otherwise;
separate addresses are always accessed lane by lane. So are elements too narrow for the machine to gather.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ...codegen import ir
from ...codegen.emit import ArithEmitter
from ...codegen.types import I1, I32, PTR, VOID, const, suffix
from ..lane_loop import each_lane, spilled
from .lanes import WIDE, LaneEmitter

_SIZES = {"i8": 1, "i16": 2, "f16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "ptr": 8}


@dataclass(frozen=True)
class LanePlace:
    """Represent the addresses that lanes access: one common address, consecutive ones, or a vector of them.

    Attributes:
        kind: uniform: one address; run: the address of lane 0's element, the others follow; apart: a vector of
            addresses.
        address: One address, or a vector of addresses, as `kind` says.
    """

    kind: Literal["uniform", "run", "apart"]
    address: ir.LLVMValue


def read(e: LaneEmitter, place: LanePlace, t: ir.Type) -> ir.LLVMValue:
    """Emit a load for each active lane and return the values (0 in other lanes), or a scalar for one common address."""
    if place.kind == "uniform":
        return e.b.load(place.address, t)
    wide, mask = e.wide(t), e.flow.mask
    name, by = ("load", "p0") if place.kind == "run" else ("gather", f"v{e.lanes}p0")
    if _has_instruction(e, place, t):
        full = f"llvm.masked.{name}.{suffix(wide)}.{by}"
        function = e.m.declare(full, wide, [place.address.type, I32, mask.type, wide])
        return e.b.call(function, [place.address, const(I32, _SIZES[t.name]), mask, const(wide, 0)])
    body = _load_body if place.kind == "run" else _gather_body
    return e.b.call(_helper(e, name, wide, wide, [place.address.type, mask.type], body), [place.address, mask])


def write(e: LaneEmitter, place: LanePlace, value: ir.LLVMValue) -> None:
    """Emit a store of each active lane; if lanes store to the same address, the last lane wins."""
    mask = e.flow.mask
    if place.kind == "uniform":
        one = e.b.extract_element(value, e.last(mask)) if isinstance(value.type, ir.VectorType) else value
        e.b.store(one, place.address)
        return
    value = e.splat(value)
    wide = value.type
    assert isinstance(wide, ir.VectorType)
    name, by = ("store", "p0") if place.kind == "run" else ("scatter", f"v{e.lanes}p0")
    if _has_instruction(e, place, wide.element):
        full = f"llvm.masked.{name}.{suffix(wide)}.{by}"
        function = e.m.declare(full, VOID, [wide, place.address.type, I32, mask.type])
        e.b.call(function, [value, place.address, const(I32, _SIZES[wide.element.name]), mask])
        return
    body = _store_body if place.kind == "run" else _scatter_body
    params = [wide, place.address.type, mask.type]
    e.b.call(_helper(e, name, wide, VOID, params, body), [value, place.address, mask])


def _has_instruction(e: LaneEmitter, place: LanePlace, t: ir.Type) -> bool:
    """Return True if the machine has a masked instruction for this access to elements of type `t`."""
    return e.m.target.vector_masks and (place.kind == "run" or _SIZES[t.name] >= 4)


# ---- lane by lane -------------------------------------------------------------------------------------------

LaneBody = Callable[[ArithEmitter, ir.LLVMFunction], None]


def _helper(
    e: ArithEmitter, name: str, wide: ir.Type, result: ir.Type, params: list[ir.Type], body: LaneBody
) -> ir.LLVMFunction:
    """Return the helper function that makes an access lane by lane, which `body` writes at the first call."""
    return e.m.helper(f"sg.lanes.{name}.{suffix(wide)}", result, params, body, WIDE)


def _load_body(a: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Emit the body of a masked load of consecutive elements: one vector load if all lanes are active."""
    start, mask = function.args
    assert isinstance(function.result, ir.VectorType)
    t, wide = function.result.element, function.result
    out = spilled(a, const(wide, 0))
    _unless_full(a, mask, lambda: a.b.ret(a.b.load(start, wide, _SIZES[t.name])))
    each_lane(a, mask, lambda lane: a.b.store(a.b.load(a.b.gep(start, lane, t), t), a.b.gep(out, lane, t)))
    a.b.ret(a.b.load(out, wide))


def _unless_full(a: ArithEmitter, mask: ir.LLVMValue, whole: Callable[[], None]) -> None:
    """Emit a branch: if all lanes are active, run the code of `whole`; if not, run the code that follows."""
    b = a.b
    full, part = b.function.append_basic_block("full"), b.function.append_basic_block("part")
    b.cbranch(a.intrinsic("vector.reduce.and", mask, result=I1, by=[mask.type]), full, part)
    b.position_at_end(full)
    whole()
    b.position_at_end(part)


def _store_body(a: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Emit the body of a masked store of consecutive elements: one vector store if all lanes are active."""
    value, start, mask = function.args
    assert isinstance(value.type, ir.VectorType)
    t = value.type.element
    place = spilled(a, value)

    def whole() -> None:
        a.b.store(value, start, _SIZES[t.name])
        a.b.ret_void()

    _unless_full(a, mask, whole)
    each_lane(a, mask, lambda lane: a.b.store(a.b.load(a.b.gep(place, lane, t), t), a.b.gep(start, lane, t)))
    a.b.ret_void()


def _gather_body(a: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Emit the body of a gather: a load from one address per active lane."""
    addresses, mask = function.args
    assert isinstance(function.result, ir.VectorType)
    t = function.result.element
    places, out = spilled(a, addresses), spilled(a, const(function.result, 0))

    def visit(lane: ir.LLVMValue) -> None:
        a.b.store(a.b.load(a.b.load(a.b.gep(places, lane, PTR), PTR), t), a.b.gep(out, lane, t))

    each_lane(a, mask, visit)
    a.b.ret(a.b.load(out, function.result))


def _scatter_body(a: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Emit the body of a scatter: a store to one address per active lane."""
    value, addresses, mask = function.args
    assert isinstance(value.type, ir.VectorType)
    t = value.type.element
    places, contents = spilled(a, addresses), spilled(a, value)

    def visit(lane: ir.LLVMValue) -> None:
        a.b.store(a.b.load(a.b.gep(contents, lane, t), t), a.b.load(a.b.gep(places, lane, PTR), PTR))

    each_lane(a, mask, visit)
    a.b.ret_void()
