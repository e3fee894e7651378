"""This module lowers the functions of `sg.simt`: shared arrays, barriers and collectives of blocks and subgroups.

Every shuffle, vote and reduction becomes a collective of the IR, or a few of them. Functions on numbers work entry by
entry on vectors and matrices.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from ..ir import nodes as n
from ..ir.collectives import SUBGROUP, fold_fits
from ..ir.statement import Value
from ..ir.types import Scalar, i32, u1, u32
from .arguments import arguments
from .block_sizes import use_block
from .broadcasts import broadcast
from .calls import SIMT, CallLowering, dtype_argument
from .context import Tracer
from .diagnostics import syntax_problem, type_problem
from .operands import Operand, Static, describe, integer_of
from .shared_memory import SharedMemory
from .simt_names import FOLD_NAMES, SIMT_FUNCTIONS

MOST_ELEMENTS = 1 << 20
"""Greatest number of elements of a shared array; devices have less room, and say so themselves."""

WHOLE_MASK = (-1, (1 << 32) - 1)
"""Numbers that a program writes for the mask of all lanes."""


def _given(t: Tracer, node: ast.Call, path: str) -> list[Operand]:
    """Return the arguments of a call, and record that the loop uses blocks."""
    name = f"sg.simt.{path}"
    use_block(t, name)
    return arguments(t, node, name, *SIMT_FUNCTIONS[path].parameters)


# ---- blocks -------------------------------------------------------------------------------------------------------


@SIMT.row("block.SharedArray")
def _shared_array(t: Tracer, node: ast.Call) -> Operand:
    shape, dtype = _given(t, node, "block.SharedArray")
    if t.nesting > 1:
        raise syntax_problem("a shared array is made in a branch or loop", "make it at the head of the parallel loop")
    items = t.items(shape)
    extents = tuple(integer_of(e) for e in ((shape,) if items is None else items))
    if not extents or not all(e is not None and e > 0 for e in extents):
        raise type_problem(
            f"the shape of a shared array is known at compile time and positive; this is {describe(shape)}",
            "give it as numbers, as in `SharedArray((64,), sg.f32)`",
            node.args[0] if node.args else node,
        )
    found = tuple(e for e in extents if e is not None)
    size = 1
    for extent in found:
        size *= extent
    if size > MOST_ELEMENTS:
        raise type_problem(f"a shared array of {size} elements is too large", f"use at most {MOST_ELEMENTS}")
    memory = SharedMemory(t.namer.unique("pad"), dtype_argument(t, dtype, "SharedArray"), found)
    t.builder.emit(n.SharedArray(memory.name, memory.dtype, size, loc=t.builder.loc))
    return Static(memory, "")


def _syncing(path: str, kind: str) -> None:
    """Register the lowering of a barrier or a fence without arguments."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        _given(t, node, path)
        t.builder.sync(kind)
        return Static(None)

    SIMT[path] = lower


for _path, _kind in {
    "block.sync": "block",
    "block.mem_sync": "block_fence",
    "block.mem_fence": "block_fence",
    "grid.memfence": "grid_fence",
    "grid.mem_fence": "grid_fence",
    "subgroup.barrier": "subgroup",
    "subgroup.sync": "subgroup",
    "subgroup.memory_barrier": "block_fence",
    "subgroup.mem_fence": "block_fence",
}.items():
    _syncing(_path, _kind)


def _plain(path: str, make: Callable[[Tracer], Operand]) -> None:
    """Register the lowering of a function without arguments."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        _given(t, node, path)
        return make(t)

    SIMT[path] = lower


def _global_index(t: Tracer) -> Value:
    b = t.builder
    first = b.op("mul", b.collective("block"), b.const(use_block(t, "block_dim"), i32))
    return b.op("add", first, b.collective("thread"))


def _lane_bit(t: Tracer) -> Value:
    b = t.builder
    return b.op("bit_shl", b.const(1, u32), b.cast(b.collective("lane"), u32))


def _lanes_before(t: Tracer) -> Value:
    return t.builder.op("sub", _lane_bit(t), t.builder.const(1, u32))


def _lanes_up_to(t: Tracer) -> Value:
    return t.builder.op("bit_or", _lanes_before(t), _lane_bit(t))


def _negated(t: Tracer, mask: Value) -> Value:
    return t.builder.op("bit_not", mask)


def _all_lanes(t: Tracer) -> Value:
    """Return the mask of the lanes of a subgroup that have an iteration."""
    return t.builder.collective("ballot", t.builder.const(True, u1))


for _path, _make in {
    "block.thread_idx": lambda t: t.builder.collective("thread"),
    "block.block_idx": lambda t: t.builder.collective("block"),
    "block.block_dim": lambda t: Static(use_block(t, "block_dim")),
    "block.global_thread_idx": _global_index,
    "subgroup.invocation_id": lambda t: t.builder.collective("lane"),
    "subgroup.subgroup_id": lambda t: t.builder.collective("subgroup"),
    "subgroup.size": lambda t: Static(SUBGROUP),
    "subgroup.group_size": lambda t: Static(SUBGROUP),
    "subgroup.log2_group_size": lambda t: Static(SUBGROUP.bit_length() - 1),
    "subgroup.elect": lambda t: t.builder.op("cmp_eq", t.builder.collective("lane"), t.builder.const(0, i32)),
    "subgroup.lanemask_eq": _lane_bit,
    "subgroup.lanemask_lt": _lanes_before,
    "subgroup.lanemask_le": _lanes_up_to,
    "subgroup.lanemask_gt": lambda t: _negated(t, _lanes_up_to(t)),
    "subgroup.lanemask_ge": lambda t: _negated(t, _lanes_before(t)),
    "warp.active_mask": _all_lanes,
}.items():
    _plain(_path, _make)


# ---- shuffles -----------------------------------------------------------------------------------------------------


def _number(t: Tracer, operand: Operand) -> Value:
    """Return an operand as a number; a boolean counts as an i32."""
    value = t.value(operand)
    return t.builder.cast(value, i32) if value.type.is_bool else value


def _shuffled(t: Tracer, value: Operand, lane: Value) -> Value:
    return t.builder.collective("shuffle", _number(t, value), lane)


def _moved(t: Tracer, op: str, distance: Operand) -> Value:
    """Return the number of another lane: the own one combined with a distance by an operation."""
    return t.builder.op(op, t.builder.collective("lane"), _lane(t, distance))


def _lane(t: Tracer, operand: Operand) -> Value:
    dtype = t.type_of(operand)
    if not dtype.is_int:
        raise type_problem(f"the number of a lane is an integer, not {dtype}", "convert it with `int(...)`")
    return t.value(operand, i32)


_LANES: dict[str, Callable[[Tracer, Operand], Value]] = {
    "shuffle": _lane,
    "broadcast": _lane,
    "shuffle_up": lambda t, d: _moved(t, "sub", d),
    "shuffle_down": lambda t, d: _moved(t, "add", d),
    "shuffle_xor": lambda t, d: _moved(t, "bit_xor", d),
}


def _shuffling(path: str, name: str, dtype: Scalar | None = None) -> None:
    """Register the lowering of a shuffle; those of warps have a mask in front and a type."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        *mask, value, place = _given(t, node, path)
        if mask:
            _check_mask(t, mask[0], node)
        lane = _LANES[name](t, place)
        if dtype is not None:
            value = t.value(value, dtype)
        return broadcast(t, path, lambda v: _shuffled(t, v, lane), value)

    SIMT[path] = lower


def _check_mask(t: Tracer, mask: Operand, node: ast.Call) -> None:
    """Raise a problem unless the mask of a warp function says that all lanes take part."""
    if integer_of(mask) not in WHOLE_MASK:
        raise syntax_problem(
            "the mask of a warp function names all lanes here: those without an iteration do not count anyway",
            "write 0xFFFFFFFF, and choose values with `sg.select`",
            node.args[0] if node.args else node,
        )


for _name in _LANES:
    _shuffling(f"subgroup.{_name}", _name)
for _warp, _name in {"shfl_sync": "shuffle", "shfl_up": "shuffle_up", "shfl_down": "shuffle_down"}.items():
    _shuffling(f"warp.{_warp}_i32", _name, i32)
    _shuffling(f"warp.{_warp}_f32", _name)
_shuffling("warp.shfl_xor_i32", "shuffle_xor", i32)


def _first(t: Tracer, value: Operand) -> Value:
    return _shuffled(t, value, t.builder.const(0, i32))


@SIMT.row("subgroup.broadcast_first")
def _broadcast_first(t: Tracer, node: ast.Call) -> Operand:
    (value,) = _given(t, node, "subgroup.broadcast_first")
    return broadcast(t, "broadcast_first", partial(_first, t), value)


# ---- reductions and scans -----------------------------------------------------------------------------------------


def _width(t: Tracer, operand: Operand, node: ast.Call) -> int:
    """Return the number of lanes of a group from its binary logarithm."""
    found = integer_of(operand)
    if found is None or not 0 <= found < SUBGROUP.bit_length():
        most = SUBGROUP.bit_length() - 1
        raise type_problem(
            f"`log2_size` is a number from 0 to {most} that is known at compile time",
            f"give the binary logarithm of the size of the group; {most} means the whole subgroup",
            node.args[-1] if node.args else node,
        )
    return 1 << found


def _fold(t: Tracer, path: str, op: str, fold: str, width: int, operand: Operand) -> Value:
    value = _number(t, operand)
    if not fold_fits(fold, value.type):
        raise type_problem(f"`sg.simt.{path}` does not take values of type {value.type}", "convert them to integers")
    return t.builder.collective(op, value, width=width)


def _folding(path: str, op: str, fold: str) -> None:
    """Register the lowering of a reduction or scan."""
    is_tiled = path.endswith("_tiled")

    def lower(t: Tracer, node: ast.Call) -> Operand:
        given = _given(t, node, path)
        width = _width(t, given[1], node) if is_tiled else SUBGROUP
        return broadcast(t, path, lambda v: _fold(t, path, op, fold, width, v), given[0])

    SIMT[path] = lower


for _word, (_fold_op, _) in FOLD_NAMES.items():
    for _kind in ("reduce", "reduce_all", "inclusive", "exclusive"):
        _own = _kind.removesuffix("_all")
        _folding(f"subgroup.{_kind}_{_word}", f"{_own}_{_fold_op}", _fold_op)
        _folding(f"subgroup.{_kind}_{_word}_tiled", f"{_own}_{_fold_op}", _fold_op)
        if f"block.{_kind}_{_word}" in SIMT_FUNCTIONS:
            _folding(f"block.{_kind}_{_word}", f"block_{_own}_{_fold_op}", _fold_op)


# ---- votes --------------------------------------------------------------------------------------------------------


def _any(t: Tracer, cond: Value, width: int) -> Value:
    b = t.builder
    return b.op("cmp_ne", b.collective("ballot", cond, width=width), b.const(0, u32))


def _all(t: Tracer, cond: Value, width: int) -> Value:
    return t.builder.op("logic_not", _any(t, t.builder.op("logic_not", cond), width))


def _equal(t: Tracer, operand: Operand, width: int) -> Value:
    value = _number(t, operand)
    b = t.builder
    first = b.collective("shuffle", value, b.const(0, i32), width=width)
    return _all(t, b.op("cmp_eq", value, first), width)


_VOTES: dict[str, Callable[[Tracer, Operand, int], Value]] = {
    "any_true": lambda t, cond, width: _any(t, t.condition(cond), width),
    "all_true": lambda t, cond, width: _all(t, t.condition(cond), width),
    "any": lambda t, cond, width: _any(t, t.condition(cond), width),
    "all": lambda t, cond, width: _all(t, t.condition(cond), width),
    "all_equal": _equal,
}


def _voting(path: str, vote: Callable[[Tracer, Operand, int], Value]) -> CallLowering:
    def lower(t: Tracer, node: ast.Call) -> Operand:
        given = _given(t, node, path)
        return vote(t, given[0], _width(t, given[1], node) if path.endswith("_tiled") else SUBGROUP)

    return lower


for _path in (path for path in SIMT_FUNCTIONS if path.startswith("subgroup.")):
    _vote = _VOTES.get(_path.partition(".")[2].removesuffix("_tiled"))
    if _vote is not None:
        SIMT[_path] = _voting(_path, _vote)


@SIMT.row("subgroup.ballot")
def _ballot(t: Tracer, node: ast.Call) -> Operand:
    (predicate,) = _given(t, node, "subgroup.ballot")
    return t.builder.collective("ballot", t.condition(predicate))


@SIMT.row("warp.ballot")
def _warp_ballot(t: Tracer, node: ast.Call) -> Operand:
    (predicate,) = _given(t, node, "warp.ballot")
    return t.builder.collective("ballot", t.condition(predicate))


def _warp_vote(path: str, vote: Callable[[Tracer, Operand, int], Value]) -> None:
    """Register a vote of warps, which has a mask and gives an integer."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        mask, predicate = _given(t, node, path)
        _check_mask(t, mask, node)
        return t.builder.cast(vote(t, predicate, SUBGROUP), i32)

    SIMT[path] = lower


_warp_vote("warp.all_nonzero", _VOTES["all"])
_warp_vote("warp.any_nonzero", _VOTES["any"])
_warp_vote("warp.unique", _equal)


@SIMT.row("warp.match_any")
def _match_any(t: Tracer, node: ast.Call) -> Operand:
    """Lower `match_any`: each lane asks every lane for its value."""
    mask, operand = _given(t, node, "warp.match_any")
    _check_mask(t, mask, node)
    b, value = t.builder, _number(t, operand)
    found = b.const(0, u32)
    for lane in range(SUBGROUP):
        other = b.collective("shuffle", value, b.const(lane, i32))
        bit = b.op("select", b.op("cmp_eq", value, other), b.const(1 << lane, u32), b.const(0, u32))
        found = b.op("bit_or", found, bit)
    return b.op("bit_and", found, _all_lanes(t))


@SIMT.row("warp.match_all")
def _match_all(t: Tracer, node: ast.Call) -> Operand:
    mask, operand = _given(t, node, "warp.match_all")
    _check_mask(t, mask, node)
    return t.builder.op("select", _equal(t, operand, SUBGROUP), _all_lanes(t), t.builder.const(0, u32))


@SIMT.row("warp.sync")
def _warp_sync(t: Tracer, node: ast.Call) -> Operand:
    (mask,) = _given(t, node, "warp.sync")
    _check_mask(t, mask, node)
    t.builder.sync("subgroup")
    return Static(None)


# ---- votes of blocks ----------------------------------------------------------------------------------------------


def _count(t: Tracer, predicate: Operand) -> Value:
    b = t.builder
    return b.collective("block_reduce_add", b.cast(t.condition(predicate), i32))


def _block_vote(path: str, decide: Callable[[Tracer, Value], Value]) -> None:
    def lower(t: Tracer, node: ast.Call) -> Operand:
        (predicate,) = _given(t, node, path)
        return t.builder.cast(decide(t, _count(t, predicate)), i32)

    SIMT[path] = lower


_block_vote("block.sync_count_nonzero", lambda t, count: count)
_block_vote("block.sync_any_nonzero", lambda t, count: t.builder.op("cmp_gt", count, t.builder.const(0, i32)))
_block_vote("block.sync_all_nonzero", lambda t, count: t.builder.op("cmp_eq", count, t.builder.collective("live")))
