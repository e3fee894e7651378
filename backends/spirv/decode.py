"""This module decodes the words of a SPIR-V module into its instructions.

`harness/testing/spirv_text.py` prints modules for people and tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import opcodes as op

_NAMES = {number: name for name, number in op.OPCODES.items()}


def instructions(words: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """Yield the name and the operand words of each instruction of a SPIR-V module, without its header."""
    at = 5
    while at < len(words):
        count = words[at] >> 16
        yield _NAMES[words[at] & 0xFFFF], list(words[at + 1 : at + count])
        at += count
