"""Tasks with blocks, written as loops, as threads and as threads of warps, mean what the reference runs as it is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from kir_test_support.directives import Case, read_cases, read_check
from kir_test_support.running import memory
from stackgrad.backends.base import Draws
from stackgrad.compiler.driver import BLOCKS, prepare_forward
from stackgrad.compiler.errors import Unsupported
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.roles import BLOCKS as STATEMENTS
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.compiler.passes.lower_blocks import has_blocks, lower_blocks
from stackgrad.compiler.passes.thread_blocks import thread_blocks, thread_blocks_of_warps
from stackgrad.reference.launch import run
from stackgrad.reference.traps import PartedBlock

FILE = Path(__file__).parents[1] / "statements" / "blocks.kir"


@cache
def cases() -> list[Case]:
    return [case for case in read_cases(FILE.read_text()) if not case.invalid]


RUNS = [
    pytest.param(case, dtype, directive, id=f"{number}-{dtype}-{directive.line}")
    for number, case in enumerate(cases())
    for dtype in case.types
    for directive in case.checks
    if directive.kind == "run"
]


@pytest.mark.parametrize("way", ["loops", "threads", "warps"])
@pytest.mark.parametrize(("case", "dtype", "directive"), RUNS)
def test_every_way_to_run_a_block(case: Case, dtype: str, directive: object, way: str) -> None:
    kernel = parse_kernel(case.source(dtype))
    made = prepare_forward(kernel, check=True, blocks=way).kernel
    check = read_check(directive)
    arrays, scalars = memory(kernel, check)
    wanted = {name: array.copy() for name, array in arrays.items()}
    run(kernel, wanted, scalars)
    run(made, arrays, scalars)
    for name, array in arrays.items():
        assert np.array_equal(array, wanted[name]), (way, name)


def parsed(body: str, size: int = 4) -> str:
    return f"""kernel k(x: i32[1], y: f32[1]) {{
  bounds {{
    %0: i32 = const 0
    %1: i32 = shape x, 0
  }} parallel %2: i32 in %0 .. %1 block {size} {{
{body}
  }}
}}
"""


SYNCED = parsed("""    shared_array pad: i32[4]
    %3: i32 = collective thread
    set_element pad[%3], %2
    sync block
    %4: i32 = get_element pad[%3]
    store x[%2], %4""")


def test_the_text_of_a_task_with_blocks() -> None:
    kernel = parse_kernel(SYNCED)
    assert kernel.tasks[0].block == 4 and print_kernel(kernel) == SYNCED
    verify(kernel, "source")


def test_what_is_left_of_the_statements() -> None:
    kernel = parse_kernel(SYNCED)
    loops, threads, warps = lower_blocks(kernel), thread_blocks(kernel), thread_blocks_of_warps(kernel)
    assert not has_blocks(loops) and not any(isinstance(s, STATEMENTS) for s in walk_kernel(loops))
    verify(loops, "structured")
    for made in (threads, warps):
        assert [task.block for task in made.tasks] == [4]
        verify(made, "tasks")
    assert lower_blocks(loops) is loops


def test_shuffles_stay_for_warps_alone() -> None:
    kernel = parse_kernel(parsed("    %3: i32 = collective reduce_add %2\n    store x[%2], %3"))

    def left(made: object) -> set[str]:
        return {s.op for s in walk_kernel(made) if isinstance(s, n.Collective)}

    assert left(thread_blocks_of_warps(kernel)) == {"shuffle"} and left(thread_blocks(kernel)) == set()


def test_an_element_of_one_iteration_is_updated_without_atomics() -> None:
    def updates(index: str) -> int:
        text = parsed(f"""    shared_array pad: i32[4]
    %3: i32 = collective thread
    %4: i32 = const 1
    %5: i32 = sub %4, %4
    %6: i32 = update_element add pad[{index}], %2
    store x[%2], %6""")
        return sum(isinstance(s, n.UpdateElement) for s in walk_kernel(thread_blocks(parse_kernel(text))))

    assert updates("%3") == 0 and updates("%5") == 1


PARTED = {
    "branch": """    %3: i32 = collective thread
    %4: i32 = const 2
    %5: u1 = cmp_lt %3, %4
    if %5 {
      sync block
    }""",
    "loop": """    %3: i32 = const 0
    for %4: i32 in %3 .. %2 {
      %5: i32 = collective reduce_add %4
    }""",
    "while": """    local left: i32
    set left, %2
    while {
      %3: i32 = get left
      %4: i32 = const 0
      %5: u1 = cmp_gt %3, %4
    } test %5 {
      %6: i32 = const 1
      %7: i32 = get left
      %8: i32 = sub %7, %6
      set left, %8
      sync subgroup
    }""",
    "exit": """    %3: i32 = load x[%2]
    %4: i32 = const 2
    %5: u1 = cmp_gt %3, %4
    if %5 {
      return
    }
    sync block""",
}


@pytest.mark.parametrize("name", PARTED)
def test_iterations_that_part_before_a_meeting(name: str) -> None:
    kernel = parse_kernel(parsed(PARTED[name]))
    with pytest.raises(Unsupported, match="may part"):
        lower_blocks(kernel)
    with pytest.raises(Unsupported, match="may part"):
        thread_blocks(kernel)
    # The reference looks at what happens: four iterations that go alike are fine.
    alike = np.full(4, 1 if name == "exit" else 0, np.int32)
    if name == "exit":
        run(kernel, {"x": alike, "y": np.zeros(4, np.float32)}, {})
    with pytest.raises(PartedBlock, match="of 4 iterations of a block reach this place"):
        run(kernel, {"x": np.arange(4, dtype=np.int32) + 1, "y": np.zeros(4, np.float32)}, {})


def test_what_is_refused() -> None:
    nested = parsed("""    %3: i32 = collective live
    %4: i32 = const 4
    %5: u1 = cmp_eq %3, %4
    if %5 {
      shared_array pad: i32[4]
      sync block
    }""")
    with pytest.raises(Unsupported, match="the shared array `pad` is made in a branch or loop"):
        lower_blocks(parse_kernel(nested))
    drawn = parsed("    %3: f32 = random\n    store y[%2], %3\n    sync block")
    for way in BLOCKS:
        with pytest.raises(Unsupported, match="random numbers are not drawn in a loop that uses blocks"):
            prepare_forward(parse_kernel(drawn), blocks=way)


@pytest.mark.parametrize("order", ["vector", "forward", "reverse", "shuffled:3"])
def test_the_iterations_of_a_block_run_together_in_every_order(order: str) -> None:
    x = np.zeros(11, np.int32)
    kernel = parse_kernel(parsed("    %3: i32 = collective block_reduce_max %2\n    store x[%2], %3"))
    run(kernel, {"x": x, "y": np.zeros(1, np.float32)}, {}, draws=Draws(), order=order)
    assert x.tolist() == [3] * 4 + [7] * 4 + [10] * 3
