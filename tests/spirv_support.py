"""Read the kernels of the .kir files as text, for tests that compile them without running their checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kir_test_support.directives import read_cases
from stackgrad.compiler.driver import prepare_forward
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.passes.lower_blocks import has_blocks

TESTS = Path(__file__).parent


def kernel_texts(folder: str, every_type: bool = True) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every legal kernel of a folder, once for each type."""
    for path in sorted((TESTS / folder).glob("*.kir")):
        for number, case in enumerate(read_cases(path.read_text())):
            if not case.invalid:
                for dtype in case.types if every_type else case.types[:1]:
                    yield f"{path.stem}{number}-{dtype}", case.source(dtype)


def shader_texts(folder: str, every_type: bool = True) -> Iterator[tuple[str, str]]:
    """(name, text) of every legal kernel of a folder, with blocks prepared for shaders."""
    for name, text in kernel_texts(folder, every_type):
        kernel = parse_kernel(text)
        made = prepare_forward(kernel, blocks="threads").kernel if has_blocks(kernel) else None
        yield name, text if made is None else print_kernel(made)
