"""What a module declares is what it uses; its size is linear in the kernel; equal kernels give equal words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.decode import instructions
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.spirv.module import encode, text_words
from stackgrad.backends.spirv.opcodes import OPCODES
from stackgrad.backends.spirv.payne_hanek import two_over_pi
from stackgrad.backends.spirv.quirks import Quirks
from stackgrad.backends.spirv.shaders import Shaders, generate
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.errors import Unsupported
from stackgrad.compiler.ir.parser import parse_kernel


def shaders(dtype: str, statements: str, features: ShaderFeatures | None = None, params: str = "") -> Shaders:
    text = f"""kernel k(x: {dtype}[1]{params}) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
        %3: {dtype} = load x[%2]
        {statements}
      }} }}"""
    return generate(parse_kernel(text), Options(bounds=False), features)


def names(words: tuple[int, ...]) -> list[str]:
    """The instructions of a module, in order."""
    return [name for name, _ in instructions(words)]


@pytest.mark.parametrize(
    ("dtype", "needs"),
    [
        ("f32", set()),
        ("f64", {"Float64"}),
        ("i8", {"Int8", "StorageBuffer8BitAccess"}),
        ("u16", {"Int16", "StorageBuffer16BitAccess"}),
        ("i64", set()),
    ],
)
def test_capabilities(dtype: str, needs: set[str]) -> None:
    """Addresses are integers of 64 bits, so those are always there."""
    made = shaders(dtype, f"%4: {dtype} = add %3, %3 store x[%2], %4")
    assert set(made.capabilities) == {"Shader", "PhysicalStorageBufferAddresses", "Int64"} | needs


@pytest.mark.parametrize(
    ("dtype", "features", "declared"),
    [
        ("f32", ShaderFeatures(), "AtomicFloat32AddEXT"),
        ("f32", ShaderFeatures(float32_add=False), ""),
        ("f64", ShaderFeatures(), ""),
        ("f64", ShaderFeatures(float64_add=True), "AtomicFloat64AddEXT"),
        ("f32", ShaderFeatures(quirks=Quirks(flushes=True)), ""),
    ],
)
def test_atomic_sums(dtype: str, features: ShaderFeatures, declared: str) -> None:
    """By the device where it can and may, else by compare-and-swap: a precise build keeps subnormal numbers."""
    body = f"%4: i32 = const 0 %5: {dtype} = atomic add y[%4], %3"
    made = shaders(dtype, body, features, f", y: {dtype}[1]")
    added = [c for c in made.capabilities if c.startswith("AtomicFloat")]
    assert added == ([declared] if declared else [])
    assert ("AtomicFAddEXT" in names(made.words)) == bool(declared)
    assert ("AtomicCompareExchange" in names(made.words)) != bool(declared)


def test_no_real_instruction_may_be_fused() -> None:
    """Each is decorated, so that drivers neither contract nor reorder."""
    made = shaders("f32", "%4: f32 = mul %3, %3 %5: f32 = add %4, %3 %6: f32 = floor %5 store x[%2], %6")
    found = names(made.words)
    reals = sum(found.count(name) for name in ("FMul", "FAdd", "ExtInst"))
    assert reals == 3 and found.count("Decorate") >= reals


def test_size_is_linear() -> None:
    """64 values carried through two nested loops, reversed: no more words a value than 8 of them take."""

    def size(count: int) -> int:
        sets = "".join(
            f"%{k}: f32 = get v{k - 100} %{k + 200}: f32 = sin %{k} set v{k - 100}, %{k + 200}\n"
            for k in range(100, 100 + count)
        )
        text = f"""kernel k(x: f32[1] grad, y: f32[1] grad) {{
          bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
            {" ".join(f"local v{k}: f32" for k in range(count))}
            %3: f32 = load x[%2]
            %6: i32 = const 0
            {" ".join(f"set v{k}, %3" for k in range(count))}
            for %4: i32 in %6 .. %2 {{ for %5: i32 in %6 .. %4 {{ {sets} }} }}
            {
            " ".join(
                f"%{1000 + 2 * k}: f32 = get v{k} %{1001 + 2 * k}: f32 = atomic add y[%2], %{1000 + 2 * k}"
                for k in range(count)
            )
        }
          }} }}"""
        kernel = prepare_reverse(parse_kernel(text)).kernel
        return len(generate(kernel, Options()).words)

    assert size(64) < 8 * size(8)


def test_equal_kernels_give_equal_words() -> None:
    body = "%4: f32 = tanh %3 store x[%2], %4"
    assert shaders("f32", body).code == shaders("f32", body).code


def test_limits_are_refused_before_any_word() -> None:
    with pytest.raises(Unsupported, match="local arrays of one task take more"):
        generate(parse_kernel("kernel k() { serial { local_array a: f64[131073] } }"), Options())


GOLDEN = """OpEntryPoint GLCompute %task_0 "task_0" %"""


def test_text(disassemble: Callable[[Shaders, str], str]) -> None:
    """Entries and constants as SPIRV-Tools prints them."""
    made = shaders("f32", "%4: f32 = floor %3 %5: f32 = const -0.5 %6: f32 = add %4, %5 store x[%2], %6")
    lines = disassemble(made, "--no-indent").splitlines()
    assert [line for line in lines if line.startswith(GOLDEN)] and "OpExecutionMode %task_0 LocalSize 64 1 1" in lines
    ends = [line.split(" = ")[-1] for line in lines]
    assert "OpMemoryModel PhysicalStorageBuffer64 GLSL450" in lines
    assert any(line.startswith("OpConstant ") and line.endswith(" -0.5") for line in ends)
    assert sum("Floor" in line for line in ends) == 1 and sum(line.startswith("OpFAdd ") for line in ends) == 1


def test_words() -> None:
    assert encode("Return") == [1 << 16 | 253]
    assert text_words("abc") == [0x00636261] and text_words("abcd") == [0x64636261, 0]


def test_two_over_pi() -> None:
    """The first words of the table, as they stand in every library that reduces large arguments."""
    assert two_over_pi()[2:7] == (0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599)


def test_remainders_are_made_of_quotients() -> None:
    """Vulkan says nothing about OpSRem, OpSMod, OpFRem and OpFMod of negative numbers; drivers make use of that."""
    assert not {"SRem", "SMod", "FRem", "FMod"} & set(OPCODES)
    body = "%1: i32 = load x[%0] %2: i32 = const 5 %3: i32 = mod %1, %2 store x[%0], %3"
    text = f"kernel k(x: i32[1]) {{ serial {{ %0: i32 = const 0 {body} }} }}"
    names = {name for name, _ in instructions(generate(parse_kernel(text), Options()).words)}
    assert {"SDiv", "IMul"} <= names
