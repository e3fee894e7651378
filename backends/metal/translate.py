"""Translate SPIR-V to the Metal Shading Language by the program `spirv-cross`, one text for each entry point.

SPIRV-Cross writes the names of memory accesses; this module puts in what they do (accesses.py). Each text begins with
pragmas that keep Metal's compiler from what IEEE forbids, because its default is to reorder and to contract.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...compiler.errors import DeviceError
from .accesses import MetalAccess

PROGRAM = "spirv-cross"
CURE = "apt-get install spirv-cross"
VERSION = 30000
"""Version of the language.

3.0 is the first version with atomic sums of f32, and with addresses of buffers on the host (Metal 3).
"""

_OPTIONS = ("--msl", "--msl-version", str(VERSION), "--force-zero-initialized-variables")

HEAD = """#include <metal_stdlib>
using namespace metal;

#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif
"""
"""The begin of each text; before version 3.2 the host must turn fast math off when it compiles the text."""

_DROPPED = ("#include <metal_stdlib>", "#include <simd/simd.h>", "using namespace metal;")


class TranslatorMissing(DeviceError):
    """Signal that the program SPIRV-Cross, which translates SPIR-V to Metal, is not installed."""


@cache
def translator_path() -> str:
    """Return the path of the program `spirv-cross`. Raise TranslatorMissing if it is not installed."""
    found = shutil.which(PROGRAM)
    if found is None:
        raise TranslatorMissing(f"{PROGRAM}, which writes code for Metal, is not installed; cure: {CURE}")
    return found


def translate(code: bytes, entries: Sequence[str], accesses: Sequence[MetalAccess]) -> dict[str, str]:
    """Return the Metal source text of each entry point, from the bytes of a module that `rewrite` returned.

    Raises:
        TranslatorMissing: without SPIRV-Cross
        DeviceError: with what the translator says of a module that it does not take
    """
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "module.spv"
        module.write_bytes(code)
        return {entry: completed(_run(module, entry), accesses) for entry in entries}


def _run(module: Path, entry: str) -> str:
    """Run `spirv-cross` for one entry point and return the Metal source text."""
    command = [translator_path(), str(module), *_OPTIONS, "--entry", entry]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
        raise DeviceError(f"{PROGRAM} does not translate {entry}: {said}")
    return done.stdout


def completed(text: str, accesses: Sequence[MetalAccess]) -> str:
    """Return Metal source text in which the functions for memory accesses replace their stubs."""
    by_name = {access.name: access.text for access in accesses}
    for line in _DROPPED:
        text = text.replace(f"{line}\n", "")
    text = _FUNCTION.sub(lambda m: by_name.get(m["name"], m[0]), text)
    return f"{HEAD}\n{text.strip()}\n"


_FUNCTION = re.compile(
    r"^static inline __attribute__\(\(always_inline\)\)\n\w+ (?P<name>\w+)\(.*\)\n\{\n(?:.*\n)*?\}\n", re.MULTILINE
)
"""The pattern of a function of the text; SPIRV-Cross ends functions with a brace at the begin of a line."""
