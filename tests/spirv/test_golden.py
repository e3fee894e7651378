"""Whole shaders, instruction by instruction, as they stand in tests/spirv/golden.

A change of the generator that is meant to change code changes these files too, where the difference can be read:
`python tests/spirv/test_golden.py` writes them anew. Ids, and slots of the argument block, count from 0 in order of
appearance in a function.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.spirv.shaders import generate
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.spirv_text import MissingDisassembler, text_of

FOLDER = Path(__file__).parent / "golden"
FEATURES = ShaderFeatures(subgroups=True, wide_subgroups=True, lists=True)

OVER = "bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1"
KERNELS = {
    "elementwise": f"""kernel k(x: f32[1], a: f32) {{ {OVER} {{
        %3: f32 = load x[%2] %4: f32 = arg a %5: f32 = mul %3, %4 %6: f32 = add %5, %3 store x[%2], %6 }} }}""",
    "history": f"""kernel k(x: f32[1], n: i32) {{ {OVER} {{
        adstack_alloca a: f32 adstack_alloca b: f32 adstack_alloca c: u1
        %3: f32 = load x[%2] %4: i32 = const 0 %5: i32 = arg n %6: u1 = cmp_gt %3, %3
        for %7: i32 in %4 .. %5 {{ adstack_push a, %3 adstack_push c, %6 adstack_push b, %3 }}
        for %8: i32 in %4 .. %5 descending {{
          %9: f32 = adstack_load_top a %10: f32 = adstack_load_top b %11: f32 = mul %9, %10 store x[%2], %11
          adstack_pop b adstack_pop a adstack_pop c }} }} }}""",
    "sum": f"""kernel k(x: f32[1], y: f32[1]) {{ {OVER} {{
        %3: f32 = load x[%2] %4: i32 = const 0 %5: f32 = atomic add y[%4], %3 }} }}""",
    "gated": f"""kernel k(x: f32[1], g: i32[1], n: i32) {{ {OVER} {{
        %3: i32 = load g[%2] %4: i32 = const 0 %5: u1 = cmp_gt %3, %4
        if %5 {{ adstack_alloca a: f32 %6: f32 = load x[%2] %7: i32 = arg n
          for %8: i32 in %4 .. %7 {{ adstack_push a, %6 }} %9: f32 = adstack_load_top a store x[%2], %9 }} }} }}""",
    "axes": """kernel k(x: f32[2]) {
        bounds { %0: i32 = const 0 %1: i32 = shape x, 0 %2: i32 = shape x, 1 }
        parallel %3: i32, %4: i32 in %0 .. %1, %0 .. %2 { %5: f32 = load x[%4, %3] store x[%3, %4], %5 } }""",
    "checked": f"""kernel k(x: f32[1], y: f32[1], at: i32[1]) {{ {OVER} {{
        %3: i32 = load at[%2] %4: f32 = load y[%3] store x[%2], %4 store at[%2], %2 }} }}""",
}
CHECKED = {"checked"}
"""Kernels whose indices are compared with extents; of the others the rest of the code is to be seen."""


def functions(name: str) -> str:
    """The functions of a kernel's module as text, in the order of the module."""
    made = generate(parse_kernel(KERNELS[name]), Options(bounds=name in CHECKED), FEATURES)
    text = text_of(made.code, "--raw-id", "--no-header", "--no-indent")
    names = dict(re.findall(r'^OpName (%\d+) "(\S+)"$', text, re.M))
    text = re.sub(
        r"%\d+\b", lambda found: "%" + names[found[0]].replace(".", "_") if found[0] in names else found[0], text
    )
    constants = dict(re.findall(r"^(%\d+) = OpConstant %\d+ (\S+)$", text, re.M))
    truths = re.findall(r"^(%\d+) = OpConstant(True|False) %\d+$", text, re.M)
    constants |= {found: kind.lower() for found, kind in truths}
    types = dict(re.findall(r"^(%\d+) = OpType(\w+ \d+)(?: \d+)?$", text, re.M))
    spelled = constants | {found: "!" + kind.replace(" ", "").lower() for found, kind in types.items()}
    bodies = re.findall(r"^(%\w+ = OpFunction .*?^OpFunctionEnd)$", text, re.M | re.S)
    return "\n\n".join(_numbered(body, spelled) for body in bodies) + "\n"


def _numbered(body: str, spelled: dict[str, str]) -> str:
    numbers: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return spelled.get(found[0]) or numbers.setdefault(found[0], f"%{len(numbers)}")

    body = re.sub(r"%\d+\b", name, body)
    block = re.search(r"^%\d+ = OpAccessChain .*\n(%\d+) = OpLoad !int64 ", body, re.M)
    slots: dict[str, str] = {}
    if block is None:
        return body
    return re.sub(
        rf"(?<=OpIAdd !int64 {block[1]} )(\d+)$",
        lambda found: slots.setdefault(found[0], f"slot{len(slots)}"),
        body,
        flags=re.M,
    )


@pytest.mark.parametrize("name", KERNELS)
def test_code_is_as_it_was(name: str) -> None:
    try:
        found = functions(name)
    except MissingDisassembler as missing:
        pytest.skip(str(missing))
    assert found == (FOLDER / f"{name}.txt").read_text()


def test_every_file_belongs_to_a_kernel() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(KERNELS)


if __name__ == "__main__":
    for each in KERNELS:
        (FOLDER / f"{each}.txt").write_text(functions(each))
