"""Read the kernels of the .kir files as text, for tests that compile them without running their checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kir_test_support.directives import read_cases

TESTS = Path(__file__).parent


def kernel_texts(folder: str, every_type: bool = True) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every legal kernel of a folder, once for each type."""
    for path in sorted((TESTS / folder).glob("*.kir")):
        for number, case in enumerate(read_cases(path.read_text())):
            if not case.invalid:
                for dtype in case.types if every_type else case.types[:1]:
                    yield f"{path.stem}{number}-{dtype}", case.source(dtype)
