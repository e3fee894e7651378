"""A stack without slots is read in the row's own memory: no thread reads there what another one writes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from kir_test_support.directives import read_cases
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen.layout import lay_out_for_device
from stackgrad.backends.device import stacks
from stackgrad.backends.device.policy import TaskGeometry
from stackgrad.backends.host.block import ArgumentBlock
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import Lowering
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.sizing.counting_kernel import count_stacks
from stackgrad.harness.testing.emulated_cuda.backend import emulated_cuda

FILE = Path(__file__).parents[1] / "statements" / "adstack.kir"
BESIDE, ACCUMULATE = (c for c in read_cases(FILE.read_text()) if "adstack_alloca none" in c.source("f32"))


@pytest.mark.parametrize("executor", ["cuda-emulated", "cuda-emulated-few"])
@pytest.mark.parametrize(("case", "t"), [(c, t) for c in (BESIDE, ACCUMULATE) for t in c.types])
def test_no_thread_meets_another(executor: str, case: object, t: str) -> None:
    kernel = parse_kernel(case.source(t))  # type: ignore[attr-defined]
    types = {p.name: p.type for p in kernel.params}
    memory = {name: np.ones(40, np.dtype(_numpy(str(type_.dtype)))) for name, type_ in types.items()}
    lowered = Lowering(kernel, count_stacks(kernel))
    Launcher(lowered, emulated_cuda(executor), Options(effort=0)).run(memory, {}, Draws())
    assert not memory["z"].any() and memory["y"].all()


def _numpy(name: str) -> str:
    kinds = {"f": "f", "i": "i", "u": "u"}
    return "?" if name == "u1" else kinds[name[0]] + str(int(name[1:]) // 8)


TYPES = ("i8", "i16", "i32", "i64", "f16", "f32", "f64", "u1", "f16 adjoint", "f32 adjoint", "f64 adjoint")


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_every_slot_that_is_read_is_the_rows_own(rows: int) -> None:
    """For every pair of widths, and which of the two has slots."""
    for first, second in itertools.product(TYPES, repeat=2):
        layout = lay_out_for_device(parse_kernel(_with(first, second)))
        for depths in ((0, 3), (3, 0), (0, 0), (1, 2)):
            block = ArgumentBlock(layout, "k", set())
            for at, word in stacks.plan(layout, Sizes(dict(zip("ab", depths))), {0: TaskGeometry(rows)}).words:
                block.put(at, word)
            owners: dict[tuple[str, int], int] = {}
            for stack in layout.stacks:
                held, slots = block.word(layout.rows[0, stack.slab]), block.word(stack.capacity_at)
                for k, row in itertools.product(range(max(slots, 1)), range(held)):
                    begin = block.word(stack.offset_at) * held + (k * held + row) * stack.slot_bytes
                    assert begin % min(stack.alloca.dtype.size, 8) == 0
                    for byte in range(begin, begin + stack.slot_bytes):
                        assert owners.setdefault((stack.slab, byte), row) == row, (first, second, depths)


REALS = ("f16", "f16 adjoint", "f32", "f32 adjoint", "f64", "f64 adjoint")


@pytest.mark.parametrize("rows", [1, 3, 16, 64])
def test_what_is_read_is_aligned_as_its_type_asks(rows: int) -> None:
    """Also where slots as large as its own are those of a smaller type."""
    for types in itertools.product(REALS, repeat=3):
        layout = lay_out_for_device(parse_kernel(_with(*types)))
        block = ArgumentBlock(layout, "k", set())
        for at, word in stacks.plan(layout, Sizes({"a": 1, "b": 1, "c": 0}), {0: TaskGeometry(rows)}).words:
            block.put(at, word)
        for stack in layout.stacks:
            first = block.word(stack.offset_at) * block.word(layout.rows[0, stack.slab])
            assert first % stack.alloca.dtype.size == 0, types


def _with(*types: str) -> str:
    declared = [
        f"adstack_alloca {name}: {t.split()[0]}{' adjoint' if 'adjoint' in t else ''}" for name, t in zip("abc", types)
    ]
    return f"""kernel k(n: i32) {{
      bounds {{ %0: i32 = const 0 %1: i32 = arg n }} parallel %2: i32 in %0 .. %1 {{ {" ".join(declared)} }}
    }}"""
