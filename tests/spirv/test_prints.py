"""Shaders that print."""
from __future__ import annotations

from collections.abc import Callable

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.spirv.emit import Features
from stackgrad.backends.spirv.shaders import Shaders, generate
from stackgrad.compiler.errors import Unsupported
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import SCALARS


def test_shaders_that_print_every_type_are_valid(validate: Callable[[Shaders], str]) -> None:
    """Values narrower than a word among them."""
    lines = []
    for number, t in enumerate(SCALARS.values()):
        literal = "true" if t.is_bool else "1.5" if t.is_real else "7"
        lines += [f"%{number}: {t} = const {literal}", f'print "{t} {{}}" %{number}']
    kernel = parse_kernel(f"kernel k() {{ serial {{ {chr(10).join(lines)} }} }}")
    assert not validate(generate(kernel, Options(), Features()))


def test_without_buffer_addresses_it_is_refused() -> None:
    kernel = parse_kernel('kernel k() { serial { print "hello" } }')
    with pytest.raises(Unsupported, match="print needs buffer addresses") as refused:
        generate(kernel, Options(), Features(buffer_addresses=False))
    assert "cpu backend" in str(refused.value)
