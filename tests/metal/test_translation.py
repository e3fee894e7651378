"""Kernels of the .kir files and of the examples become texts for Metal, or are refused as declared."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from shutil import which

import pytest
from metal_support import Make, complaints, variants
from spirv_support import kernel_texts
from stackgrad.backends.base import Options
from stackgrad.backends.limits import LIMITS
from stackgrad.backends.metal import translate
from stackgrad.backends.metal.arguments import BLOCK_INDEX
from stackgrad.backends.metal.program import MetalProgram, program
from stackgrad.cli.ir import find_kernels
from stackgrad.compiler.errors import DeviceError, InternalError, StackgradError, Unsupported
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel

EXAMPLES = sorted(p for p in Path(__file__).parents[2].joinpath("examples").glob("*.py") if p.stem != "common")
DECLARED = {limit.reason for limit in LIMITS if limit.backend == "metal"}


def judged(kernel: Kernel, options: Options) -> str:
    """What is wrong with the program of a kernel; nothing is with a kernel in a declared limit."""
    try:
        made = program(kernel, options)
    except Unsupported as refused:
        return "" if any(reason in str(refused) for reason in DECLARED) else str(refused)
    except StackgradError as error:
        return str(error)
    return "; ".join(complaints(made))


@pytest.mark.rotating
@pytest.mark.parametrize("folder", ["ops", "statements", "ad"])
def test_kernels_of_tests(folder: str, translator: None) -> None:
    """Forward in debug builds, which have the traps too; and what gradients launch."""
    wrong: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for name, text in kernel_texts(folder, every_type=folder != "ad"):
        if "f64" in name:
            continue
        forward, *others = variants(parse_kernel(text))
        wrong[name] = judged(forward, Options(debug=True))
        for other in others if "f32" in name else ():
            wrong[f"{name} {other.name}"] = judged(other, Options())
        seen[folder] += 1
    assert not {name: said for name, said in wrong.items() if said}
    assert seen[folder] > 15


@pytest.mark.rotating
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path, translator: None) -> None:
    """They compute in f64 by themselves: their kernels are taken with f32 in its place."""
    kernels = [parse_kernel(print_kernel(k).replace("f64", "f32")) for k in find_kernels(path, None)]
    assert kernels
    wrong = {k.name: judged(k, Options()) for kernel in kernels for k in variants(kernel)}
    assert not {name: said for name, said in wrong.items() if said}


@pytest.mark.expensive
def test_modules_that_are_translated_are_valid(translator: None, tmp_path: Path) -> None:
    """What `rewrite` makes of them is SPIR-V still."""
    if which("spirv-val") is None:
        pytest.skip("spirv-val is not installed; cure: apt-get install spirv-tools")
    for name, text in kernel_texts("statements", False):
        for kernel in variants(parse_kernel(text)):
            try:
                words = program(kernel, Options(debug=True)).words
            except Unsupported:
                continue
            path = tmp_path / "module.spv"
            path.write_bytes(b"".join(word.to_bytes(4, "little") for word in words))
            command = ["spirv-val", "--target-env", "vulkan1.2", "--scalar-block-layout", str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"


SWAP = """kernel swap(x: f32[1], y: f32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2] %4: f32 = load y[%2] store x[%2], %4 store y[%2], %3 } }"""


def body(made: MetalProgram) -> list[str]:
    """Lines of the last entry point's loop."""
    text = made.entries[-1].text
    return [line.strip() for line in text[text.rindex("for (") :].splitlines()]


def test_loads_stay_before_stores_that_follow(make: Make) -> None:
    accesses = [line for line in body(make(SWAP)) if "sg_load_f32" in line or "sg_store_f32" in line]
    assert ["load" in line for line in accesses] == [True, True, False, False]


def test_products_keep_their_operands_and_no_sum_is_fused(make: Make) -> None:
    made = make("""kernel k(x: f32[1]) { serial { %0: i32 = const 0 %1: f32 = load x[%0]
      %2: f32 = mul %1, %1 %3: f32 = add %2, %1 store x[%0], %3 } }""")
    text = made.entries[0].text
    assert "#pragma METAL fp contract(off)" in text and "#pragma METAL fp math_mode(safe)" in text
    value = text[text.index("= sg_load_f32") - 4 :].split()[0]
    assert f"({value} * {value}) + {value}" in text and "fma(" not in text


def test_threads_and_groups(make: Make) -> None:
    """One buffer; bounds before the task, a thread of their own; groups of 64."""
    made = make(SWAP)
    assert [(e.name, e.task, e.threads) for e in made.entries] == [("bounds_0", None, 1), ("task_0", 0, 64)]
    buffers = [[a.attribute for a in e.arguments if a.attribute.startswith("buffer")] for e in made.entries]
    assert buffers == [[f"buffer({BLOCK_INDEX})"]] * 2
    filled = {a.attribute for a in made.entries[1].arguments} - {f"buffer({BLOCK_INDEX})"}
    assert filled == {"thread_position_in_grid", "threadgroups_per_grid"}


def test_without_the_translator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate.shutil, "which", lambda name: None)
    translate.translator_path.cache_clear()
    with pytest.raises(
        translate.TranslatorMissing, match="spirv-cross.* is not installed; cure: apt-get install spirv-cross"
    ):
        program(parse_kernel(SWAP), Options())
    translate.translator_path.cache_clear()


def test_what_the_translator_refuses_is_a_defect_of_ours(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it said, and what is needed to see it again."""

    def refuse(*args: object) -> dict[str, str]:
        raise DeviceError("spirv-cross does not translate task_0: no")

    monkeypatch.setattr("stackgrad.backends.metal.program.translate", refuse)
    with pytest.raises(InternalError, match="kernel swap: SPIRV-Cross failed: .* not translate task_0: no"):
        make(SWAP)
