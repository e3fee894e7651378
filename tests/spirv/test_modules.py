"""Every kernel of the .kir files, forward and reverse, becomes a module that `spirv-val` accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from spirv_support import kernel_texts, shader_texts
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.decode import instructions
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.spirv.shaders import Shaders, generate
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.errors import StackgradError, Unsupported
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel

Validate = Callable[[Shaders], str]
FULL = ShaderFeatures(
    float64_add=True,
    modes=tuple(
        (mode, width)
        for mode in ("SignedZeroInfNanPreserve", "DenormPreserve", "RoundingModeRTE")
        for width in (32, 64)
    ),
)
"""A device that has everything."""
LEAST = ShaderFeatures(float32_add=False)
BOUND = replace(FULL, buffer_addresses=False)
"""A device that reaches memory by descriptors alone."""
PAIRED = replace(FULL, int64=False, int64_atomics=False)
"""A device whose integers of 64 bits are pairs of words."""


def judged(text: str, validate: Validate, options: Options, features: ShaderFeatures) -> str:
    """What is wrong with the module; nothing is with kernels in a declared limit."""
    return judged_kernel(parse_kernel(text), validate, options, features)


def judged_kernel(kernel: Kernel, validate: Validate, options: Options, features: ShaderFeatures) -> str:
    try:
        return validate(generate(kernel, options, features))
    except Unsupported:
        return ""


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("folder", "features"),
    [
        ("ops", FULL),
        ("statements", FULL),
        ("ad", FULL),
        ("statements", BOUND),
        ("ad", BOUND),
        ("ops", PAIRED),
        ("ad", replace(PAIRED, buffer_addresses=False)),
    ],
)
def test_forward(folder: str, features: ShaderFeatures, validate: Validate) -> None:
    """Debug builds have all that release builds have, and the traps."""
    texts = list(shader_texts(folder, every_type=folder == "ops"))
    assert len(texts) > 15
    wrong = {name: judged(text, validate, Options(debug=True), features) for name, text in texts}
    assert not {name: said for name, said in wrong.items() if said}


def test_without_tasks(validate: Validate) -> None:
    """A module has an entry point, whatever the kernel."""
    shaders = generate(parse_kernel("kernel k() { }"), Options())
    assert [name for name, _ in shaders.entries] == ["task_0"]
    assert not validate(shaders)


@pytest.mark.expensive
def test_without_features(validate: Validate) -> None:
    """Fallbacks of devices that have less."""
    wrong = {name: judged(text, validate, Options(), LEAST) for name, text in shader_texts("statements", False)}
    assert not {name: said for name, said in wrong.items() if said}


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("lowering", "features"), [("classic", FULL), ("lean", FULL), ("classic", BOUND), ("lean", PAIRED)]
)
def test_reverse(lowering: str, features: ShaderFeatures, validate: Validate) -> None:
    seen = 0
    for name, text in [*kernel_texts("ad", False), *kernel_texts("statements", False)]:
        try:
            kernel = prepare_reverse(parse_kernel(text), lowering).kernel
        except StackgradError:
            continue
        seen += 1
        said = judged_kernel(kernel, validate, Options(), features)
        assert not said, f"{name}: {said}"
    assert seen > 20


@pytest.mark.rotating
@pytest.mark.parametrize("subgroups", [False, True])
@pytest.mark.parametrize("addresses", [False, True])
def test_pairs_of_words(addresses: bool, subgroups: bool, validate: Validate) -> None:
    """No statement declares integers of 64 bits where there are none, and each is as valid."""
    features = replace(PAIRED, buffer_addresses=addresses, subgroups=subgroups, lists=addresses)
    seen = 0
    for name, text in shader_texts("statements", False):
        try:
            made = generate(parse_kernel(text), Options(debug=subgroups), features)
        except Unsupported:
            continue
        seen += 1
        assert not {"Int64", "Int64Atomics"} & set(made.capabilities), name
        assert 64 not in {operands[1] for word, operands in instructions(made.words) if word == "TypeInt"}, name
        assert not validate(made), name
    assert seen > 20


@pytest.mark.rotating
@pytest.mark.parametrize("features", [FULL, BOUND, PAIRED])
def test_instructions(features: ShaderFeatures, disassemble: Callable[[Shaders, str], str]) -> None:
    """The decoder finds the instructions that SPIRV-Tools finds."""
    seen = 0
    for name, text in shader_texts("statements", False):
        try:
            made = generate(parse_kernel(text), Options(debug=True), features)
        except Unsupported:
            continue
        seen += 1
        theirs = re.findall(r"^(?:%\d+ = )?Op(\w+)", disassemble(made, "--raw-id --no-header --no-indent"), re.M)
        assert [n for n, _ in instructions(made.words)] == theirs, name
    assert seen > 20
