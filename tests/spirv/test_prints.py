"""Shaders that print."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.spirv.shaders import Shaders, generate
from stackgrad.compiler.errors import Unsupported
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import SCALARS


@pytest.mark.parametrize("int64", [False, True])
@pytest.mark.parametrize("addresses", [False, True])
def test_shaders_that_print_every_type_are_valid(
    addresses: bool, int64: bool, validate: Callable[[Shaders], str]
) -> None:
    """Values narrower than a word among them."""
    lines = []
    for number, t in enumerate(SCALARS.values()):
        literal = "true" if t.is_bool else "1.5" if t.is_real else "7"
        lines += [f"%{number}: {t} = const {literal}", f'print "{t} {{}}" %{number}']
    kernel = parse_kernel(f"kernel k() {{ serial {{ {chr(10).join(lines)} }} }}")
    assert not validate(generate(kernel, Options(), ShaderFeatures(buffer_addresses=addresses, int64=int64)))


def test_prints_have_a_buffer_of_their_own() -> None:
    """Beside those of arrays; a device that has too few says so."""
    kernel = parse_kernel('kernel k(x: f32[1], y: f32[1]) { serial { print "hello" } }')
    for most, arrays in ((4, {"x": 2, "y": 3}), (3, {"x": 2, "y": 2})):
        bindings = generate(kernel, Options(), ShaderFeatures(buffer_addresses=False, storage_buffers=most)).bindings
        assert bindings is not None and bindings.prints == 1 and bindings.arrays == arrays
    with pytest.raises(Unsupported, match="2 storage buffers, which is too few"):
        generate(kernel, Options(), ShaderFeatures(buffer_addresses=False, storage_buffers=2))
