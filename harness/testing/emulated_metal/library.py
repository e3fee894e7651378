"""This module compiles Metal programs to a shared library for the CPU and makes their entry points callable.

Every text has its own namespace, as it would be its own library for Metal. The arguments of an entry point follow from
the table of its arguments, so a wrong table does not compile or gives wrong results.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

from ....backends.metal.arguments import BLOCK_INDEX, EntryArgument
from ....backends.metal.program import MetalEntry
from ....compiler.errors import InternalError
from .header import HEADER

COMPILER = "g++"
CURE = "apt-get install g++"
OPTIONS = (
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-fsingle-precision-constant",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-O1",
    "-Wno-attributes",
    "-Wno-unknown-pragmas",
    "-Werror=uninitialized",
    "-Werror=maybe-uninitialized",
)
"""Options of the compiler; a variable that may be read before it is written is an error, if the compiler sees it."""

EntryFunction = Callable[[int, int], None]
"""Function that runs an entry point, given the address of the argument block and the number of threadgroups."""

_ARRAYS = re.compile(r"^template<.*>\nstruct spvUnsafeArray\n\{\n.*?^\};\n", re.MULTILINE | re.DOTALL)
"""Pattern of the array type for several address spaces. The host has only one, so the header has its own type."""
_GIVEN = {"thread_position_in_grid": "uint3{k, 0, 0}", "threadgroups_per_grid": "uint3{groups, 1, 1}"}
"""Arguments that Metal fills in, for thread k of a grid of one axis."""


@cache
def has_compiler() -> bool:
    """Return True if a C++ compiler is installed."""
    return shutil.which(COMPILER) is not None


def source(entries: Sequence[MetalEntry]) -> str:
    """Return the C++ source of a program with these entry points."""
    return "\n".join([HEADER, *map(_namespace, entries)])


def _namespace(entry: MetalEntry) -> str:
    lines = [line for line in _ARRAYS.sub("", entry.text).splitlines() if not line.startswith("#")]
    given = ", ".join(_given(argument) for argument in entry.arguments)
    run = f"in_{entry.name}::run(address, groups);"
    return "\n".join(
        [
            f"namespace in_{entry.name} {{",
            *lines,
            "static void run(ulong address, uint groups) {",
            f"  for (uint k = 0; k < groups * {entry.threads}u; k++) {entry.name}({given});",
            "}",
            "}",
            f'extern "C" void run_{entry.name}(ulong address, uint groups) {{ {run} }}',
        ]
    )


def _given(argument: EntryArgument) -> str:
    if argument.attribute == f"buffer({BLOCK_INDEX})":
        return f"reinterpret_cast<{argument.type}>(address)"
    return _GIVEN[argument.attribute]


@lru_cache(256)
def load_library(text: str) -> ctypes.CDLL:
    """Return C++ source compiled to a shared library and loaded.

    Raises:
        InternalError: the compiler does not accept the text; the message holds its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "program.so"
        command = [COMPILER, "-x", "c++", "-", "-o", str(made), *OPTIONS]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode != 0:
            raise InternalError(f"{COMPILER} does not take a program for Metal:\n{done.stderr[:4000]}")
        return ctypes.CDLL(str(made))


def functions(entries: Sequence[MetalEntry]) -> dict[str, EntryFunction]:
    """Return functions that call the entry points of a compiled Metal program, by name."""
    library = load_library(source(entries))
    found: dict[str, EntryFunction] = {}
    for entry in entries:
        function = library[f"run_{entry.name}"]
        function.argtypes, function.restype = (ctypes.c_uint64, ctypes.c_uint32), None
        found[entry.name] = function
    return found
