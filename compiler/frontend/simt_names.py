"""This module contains SIMT_FUNCTIONS, the functions of `sg.simt` with their parameters and texts, and the namespaces.

The lowering of each function is in `simt`; docs/blocks.md describes blocks and subgroups as a whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import KernelSyntaxError
from ..ir.documented import documented
from .refused_names import RefusedName, caller_span


@documented(lambda function: SIMT_FUNCTIONS[function.path].text)
class SimtFunction:
    """A `SimtFunction` is a function of `sg.simt`, which works in the body of a parallel loop of a kernel.

    Attributes:
        path: name behind `sg.simt.`, such as `block.sync`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.__name__ = self.__qualname__ = path.rpartition(".")[2]

    @property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter
        given = [
            kinds(p.rstrip("="), kinds.POSITIONAL_OR_KEYWORD, default=None if p.endswith("=") else kinds.empty)
            for p in SIMT_FUNCTIONS[self.path].parameters
        ]
        return inspect.Signature(given)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Raise KernelSyntaxError, because there are no blocks outside kernels.

        Raises:
            KernelSyntaxError: always.
        """
        name = f"sg.simt.{self.path}"
        raise KernelSyntaxError(
            f"`{name}` works inside kernels only", "call it in a parallel loop of a kernel", caller_span()
        )

    def __repr__(self) -> str:
        return f"<stackgrad function simt.{self.path}>"


@dataclass(frozen=True)
class SimtEntry:
    """A `SimtEntry` describes one function of `sg.simt`.

    Attributes:
        parameters: names of the parameters; one that ends in `=` is optional.
        text: what the function does.
    """

    parameters: tuple[str, ...]
    text: str


def _tiled(name: str, parameters: tuple[str, ...], text: str) -> Iterator[tuple[str, SimtEntry]]:
    """Yield a function of a subgroup, and its form for groups of 2^log2_size lanes."""
    yield f"subgroup.{name}", SimtEntry(parameters, f"{text.format(group='subgroup')}")
    yield (
        f"subgroup.{name}_tiled",
        SimtEntry((*parameters, "log2_size"), text.format(group="group of 2^log2_size lanes")),
    )


def _folds() -> Iterator[tuple[str, SimtEntry]]:
    """Yield the reductions and scans of subgroups and blocks."""
    for fold in FOLD_NAMES:
        for kind, text in (
            ("reduce", "Return the {fold} of the values of the {{group}}, in every lane."),
            ("reduce_all", "Return the {fold} of the values of the {{group}}, in every lane."),
            ("inclusive", "Return the {fold} of the values of the lanes up to this one, in the {{group}}."),
            ("exclusive", "Return the {fold} of the values of the lanes before this one, in the {{group}}."),
        ):
            written = text.format(fold=FOLD_NAMES[fold][1])
            yield from _tiled(f"{kind}_{fold}", ("value",), written)
            if fold in ("add", "min", "max"):
                yield f"block.{kind}_{fold}", SimtEntry(("value",), written.format(group="block"))


FOLD_NAMES = {
    "add": ("add", "sum"),
    "mul": ("mul", "product"),
    "min": ("min", "minimum"),
    "max": ("max", "maximum"),
    "and": ("bit_and", "bitwise `&`"),
    "or": ("bit_or", "bitwise `|`"),
    "xor": ("bit_xor", "bitwise `^`"),
}
"""For each reduction, the operation of the IR and its word in texts."""

_MASK = "All lanes take part: the mask is 0xFFFFFFFF."
_FENCE = "Order the accesses to memory before the call, for iterations of the {0}, with those after it."

SIMT_FUNCTIONS: dict[str, SimtEntry] = {
    "block.SharedArray": SimtEntry(
        ("shape", "dtype"), "Return an array of zeros that all iterations of a block share."
    ),
    "block.sync": SimtEntry((), "Wait until all iterations of the block have come to the call."),
    "block.mem_sync": SimtEntry((), _FENCE.format("block")),
    "block.mem_fence": SimtEntry((), _FENCE.format("block")),
    "block.thread_idx": SimtEntry((), "Return the number of the iteration in its block."),
    "block.block_idx": SimtEntry((), "Return the number of the block."),
    "block.block_dim": SimtEntry((), "Return the number of iterations of a block; the last one may have fewer."),
    "block.global_thread_idx": SimtEntry((), "Return the number of the iteration in its loop, in row-major order."),
    "block.sync_any_nonzero": SimtEntry(
        ("predicate",), "Wait, and return 1 if the number is not 0 anywhere in the block."
    ),
    "block.sync_all_nonzero": SimtEntry(("predicate",), "Wait, and return 1 if the number is 0 nowhere in the block."),
    "block.sync_count_nonzero": SimtEntry(("predicate",), "Wait, and return how many numbers of the block are not 0."),
    "grid.memfence": SimtEntry((), _FENCE.format("loop")),
    "grid.mem_fence": SimtEntry((), _FENCE.format("loop")),
    "subgroup.shuffle": SimtEntry(
        ("value", "index"), "Return the value of the lane `index`, or the own one if there is none."
    ),
    "subgroup.shuffle_up": SimtEntry(
        ("value", "offset"), "Return the value of the lane that is `offset` lanes before."
    ),
    "subgroup.shuffle_down": SimtEntry(
        ("value", "offset"), "Return the value of the lane that is `offset` lanes behind."
    ),
    "subgroup.shuffle_xor": SimtEntry(
        ("value", "mask"), "Return the value of the lane whose number is the own one ^ mask."
    ),
    "subgroup.broadcast": SimtEntry(("value", "index"), "Return the value of the lane `index` in every lane."),
    "subgroup.broadcast_first": SimtEntry(("value",), "Return the value of the first lane in every lane."),
    "subgroup.ballot": SimtEntry(("predicate",), "Return a u32 whose bit k says if the predicate of lane k is true."),
    **dict(_tiled("any_true", ("cond",), "Return True if the condition holds in a lane of the {group}.")),
    **dict(_tiled("all_true", ("cond",), "Return True if the condition holds in all lanes of the {group}.")),
    **dict(_tiled("all_equal", ("value",), "Return True if the value is equal in all lanes of the {group}.")),
    "subgroup.any": SimtEntry(("cond",), "Return True if the condition holds in a lane of the subgroup."),
    "subgroup.all": SimtEntry(("cond",), "Return True if the condition holds in all lanes of the subgroup."),
    "subgroup.elect": SimtEntry((), "Return True in the first lane of the subgroup, and False in the others."),
    "subgroup.barrier": SimtEntry((), "Wait until all lanes of the subgroup have come to the call."),
    "subgroup.sync": SimtEntry((), "Wait until all lanes of the subgroup have come to the call."),
    "subgroup.memory_barrier": SimtEntry((), _FENCE.format("subgroup")),
    "subgroup.mem_fence": SimtEntry((), _FENCE.format("subgroup")),
    "subgroup.size": SimtEntry((), "Return the number of lanes of a subgroup, 32."),
    "subgroup.group_size": SimtEntry((), "Return the number of lanes of a subgroup, 32."),
    "subgroup.log2_group_size": SimtEntry((), "Return the binary logarithm of the number of lanes of a subgroup, 5."),
    "subgroup.invocation_id": SimtEntry((), "Return the number of the lane in its subgroup."),
    "subgroup.subgroup_id": SimtEntry((), "Return the number of the subgroup in its block."),
    "subgroup.lanemask_eq": SimtEntry((), "Return a u32 with the bit of this lane."),
    "subgroup.lanemask_lt": SimtEntry((), "Return a u32 with the bits of the lanes before this one."),
    "subgroup.lanemask_le": SimtEntry((), "Return a u32 with the bits of the lanes up to this one."),
    "subgroup.lanemask_gt": SimtEntry((), "Return a u32 with the bits of the lanes behind this one."),
    "subgroup.lanemask_ge": SimtEntry((), "Return a u32 with the bits of the lanes from this one on."),
    **dict(_folds()),
    "warp.all_nonzero": SimtEntry(("mask", "predicate"), f"Return 1 if the predicate is 0 in no lane. {_MASK}"),
    "warp.any_nonzero": SimtEntry(("mask", "predicate"), f"Return 1 if the predicate is not 0 in a lane. {_MASK}"),
    "warp.unique": SimtEntry(("mask", "predicate"), f"Return 1 if the predicate is equal in all lanes. {_MASK}"),
    "warp.ballot": SimtEntry(("predicate",), "Return a u32 whose bit k says if the predicate of lane k is not 0."),
    **{
        f"warp.{name}_{dtype}": SimtEntry(("mask", "val", "offset"), f"{text} {_MASK}")
        for name, text in (
            ("shfl_sync", "Return the value of the lane `offset`."),
            ("shfl_up", "Return the value of the lane that is `offset` lanes before."),
            ("shfl_down", "Return the value of the lane that is `offset` lanes behind."),
            ("shfl_xor", "Return the value of the lane whose number is the own one ^ offset."),
        )
        for dtype in ("i32", "f32")
        if (name, dtype) != ("shfl_xor", "f32")
    },
    "warp.match_any": SimtEntry(
        ("mask", "value"), f"Return a u32 with the bits of the lanes of the same value. {_MASK}"
    ),
    "warp.match_all": SimtEntry(
        ("mask", "value"), f"Return the mask of all lanes if their values are equal, else 0. {_MASK}"
    ),
    "warp.active_mask": SimtEntry((), "Return a u32 with the bits of the lanes that have an iteration."),
    "warp.sync": SimtEntry(("mask",), f"Wait until all lanes have come to the call. {_MASK}"),
}
"""The functions of `sg.simt` by the name behind it."""


def functions_of(group: str) -> dict[str, SimtFunction]:
    """Return the functions of a namespace of `sg.simt`, such as `block`, by name."""
    paths = [path for path in SIMT_FUNCTIONS if path.partition(".")[0] == group]
    return {path.partition(".")[2]: SimtFunction(path) for path in paths}


class SimtGroup:
    """Hold the functions of one namespace of `sg.simt`, such as `sg.simt.block`."""

    def __init__(self, name: str) -> None:
        self._name = name
        for own, function in functions_of(name).items():
            setattr(self, own, function)

    def __getattr__(self, name: str) -> RefusedName:
        return _refused(f"{self._name}.{name}")

    def __repr__(self) -> str:
        return f"<stackgrad namespace simt.{self._name}>"


def _text() -> str:
    """Return the manual's text on `sg.simt`. The manual is imported at the first use."""
    from .manual import MANUAL

    return MANUAL["simt"].text


@documented(lambda simt: _text())
class Simt:
    """Hold the functions on blocks of iterations: their shared memory, barriers, and subgroups of 32 lanes."""

    def __init__(self) -> None:
        self.block, self.grid = SimtGroup("block"), SimtGroup("grid")
        self.subgroup, self.warp = SimtGroup("subgroup"), SimtGroup("warp")

    def __getattr__(self, name: str) -> RefusedName:
        return _refused(name)

    def __repr__(self) -> str:
        return "<stackgrad namespace simt>"


def _refused(path: str) -> RefusedName:
    """Return the refused name of a part of `sg.simt` that is not there."""
    if path.rpartition(".")[2].startswith(("_", "is_stackgrad", "stackgrad_")):
        raise AttributeError(path)
    return RefusedName(f"simt.{path}")
