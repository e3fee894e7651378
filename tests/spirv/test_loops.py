"""What stands in a loop: the instructions of a trip, named one by one, because every one of them is run so often."""
from __future__ import annotations

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.disassemble import instructions
from stackgrad.backends.spirv.shaders import generate
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel

SWEEP = """kernel sweep(x: f32[1] grad, y: f32[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    local v: f32
    %3: f32 = load x[%2] set v, %3
    %4: i32 = const 0 %5: i32 = const 64
    for %6: i32 in %4 .. %5 {
      %7: f32 = get v %8: f32 = sin %7 %9: f32 = const 1.1 %10: f32 = mul %8, %9 %11: f32 = add %10, %3 set v, %11
    }
    %12: f32 = get v store y[%2], %12
  } }"""

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
    kernel = prepare_reverse(parse_kernel(SWEEP)).kernel
    there, back = loops(generate(kernel, Options()).words)
    pushed = ["Load", "ConvertUToPtr", "Store", "IAdd", "Store"]
    popped = ["Load", "ISub", "ConvertUToPtr", "Load", "Store"]
    assert there == [*HEAD, "Load", *pushed, "FunctionCall", "FMul", "FAdd", "Store", *LATCH]
    adjoint = ["FAdd", "Store", "FMul", "FunctionCall", "FMul", "Store"]
    assert back == [*HEAD, "Load", "Load", *popped, *adjoint, *LATCH]


def test_debug_builds_look_at_each_push() -> None:
    """So that the error is at the very one."""
    kernel = prepare_reverse(parse_kernel(SWEEP)).kernel
    there, back = loops(generate(kernel, Options(debug=True)).words)
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
