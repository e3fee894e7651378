"""What stands in a loop: the instructions of a trip, named one by one, because every one of them is run so often."""

from __future__ import annotations

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.decode import instructions
from stackgrad.backends.spirv.shaders import generate
from stackgrad.compiler.ir.parser import parse_kernel

SWEEP = """kernel sweep(x: f32[1], y: f32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f32
    %3: f32 = load x[%2] %4: i32 = const 0 %5: i32 = const 64 %6: f32 = const 1.1
    local v: f32 set v, %3
    for %7: i32 in %4 .. %5 {
      %8: f32 = get v adstack_push s, %8 %9: f32 = sin %8 %10: f32 = mul %9, %6 %11: f32 = add %10, %3 set v, %11
    }
    local d: f32 set d, %6
    for %12: i32 in %4 .. %5 descending {
      %13: f32 = get d %14: f32 = adstack_load_top s adstack_pop s
      %15: f32 = mul %13, %6 %16: f32 = cos %14 %17: f32 = mul %15, %16 set d, %17
    }
    %18: f32 = get d store y[%2], %18
  } }"""
"""A sweep there and one back, as reverse mode makes them."""

HEAD = ["LoopMerge", "Branch", "Label", "Load", "ULessThan", "BranchConditional", "Label"]
LATCH = ["Branch", "Label", "IAdd", "Store", "Branch"]


def loops(words: tuple[int, ...]) -> list[list[str]]:
    """Names of the instructions of each innermost loop of the last function, from its header to the way back."""
    function: list[tuple[str, list[int]]] = []
    for name, operands in instructions(words):
        function = [] if name == "Function" else [*function, (name, operands)]
    found, begins = [], [k for k, (name, _) in enumerate(function) if name == "LoopMerge"]
    for begin, following in zip(begins, [*begins[1:], len(function)]):
        end = function.index(("Label", [function[begin][1][0]]))
        if end < following:
            found.append([name for name, _ in function[begin:end]])
    return found


def test_history_costs_a_store_and_an_addition() -> None:
    """Room and content are looked at before the loops; nothing is multiplied where slots are accessed."""
    there, back = loops(generate(parse_kernel(SWEEP), Options()).words)
    pushed = ["Load", "ConvertUToPtr", "Store", "IAdd", "Store"]
    popped = ["Load", "ISub", "ConvertUToPtr", "Load", "Store"]
    assert there == [*HEAD, "Load", *pushed, "FunctionCall", "FMul", "FAdd", "Store", *LATCH]
    assert back == [*HEAD, "Load", *popped, "FMul", "FunctionCall", "FMul", "Store", *LATCH]


def test_debug_builds_look_at_each_push() -> None:
    """So that the error is at the very one."""
    there, back = loops(generate(parse_kernel(SWEEP), Options(debug=True)).words)
    assert "SelectionMerge" in there and "Select" in back


@pytest.mark.parametrize(("index", "counts"), [("i8", 32), ("u16", 32), ("i32", 32), ("u32", 32), ("i64", 64)])
def test_counters_have_the_bits_of_the_index(index: str, counts: int) -> None:
    """No 64-bit counter where 32 bits hold every number of trips."""
    kernel = parse_kernel(f"""kernel k(x: {index}[1]) {{ serial {{
      %0: i32 = const 0 %1: {index} = const 0 %2: {index} = load x[%0]
      for %3: {index} in %1 .. %2 step 3 {{ store x[%0], %3 }} }} }}""")
    made = generate(kernel, Options())
    widths = {operands[0]: operands[1] for name, operands in instructions(made.words) if name == "TypeInt"}
    kinds = {operands[1]: operands[0] for name, operands in instructions(made.words) if name in ("IAdd", "Load")}
    compared = [operands[2] for name, operands in instructions(made.words) if name == "ULessThan"][-1]
    assert widths[kinds[compared]] == counts


def test_what_a_block_computes_is_known_where_it_dominates() -> None:
    """Once before a branch and not again in it or behind it; what an arm computes is not known behind it."""
    kernel = parse_kernel("""kernel k(x: f32[1]) { serial {
      %0: i32 = const 0 %1: f32 = load x[%0] %2: f32 = mul %1, %1 %3: u1 = cmp_gt %2, %1
      if %3 { %4: f32 = mul %1, %1 %5: f32 = add %4, %1 store x[%0], %5 }
      %6: f32 = mul %1, %1 %7: f32 = add %6, %1 store x[%0], %7 } }""")
    names = [name for name, _ in instructions(generate(kernel, Options()).words)]
    assert names.count("FMul") == 1 and names.count("FAdd") == 2
