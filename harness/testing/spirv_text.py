"""Print SPIR-V modules as text, by the program `spirv-dis` of SPIRV-Tools."""

from __future__ import annotations

import shutil
import subprocess

from ...compiler.errors import StackgradError

DISASSEMBLER = "spirv-dis"
CURE = "apt-get install spirv-tools"


class MissingDisassembler(StackgradError):
    """Signal that the program `spirv-dis` is not installed, so that SPIR-V modules cannot be printed."""


def text_of(code: bytes, *options: str) -> str:
    """Return the disassembly of a SPIR-V module, as `spirv-dis` prints it.

    Args:
        code: The module.
        *options: Options of `spirv-dis`, such as `--raw-id` for numbers in place of names.

    Raises:
        MissingDisassembler: `spirv-dis` is not installed.
        StackgradError: `spirv-dis` refuses the module.
    """
    program = shutil.which(DISASSEMBLER)
    if program is None:
        raise MissingDisassembler(f"{DISASSEMBLER}, which prints shaders, is not installed; cure: {CURE}")
    done = subprocess.run([program, "--no-color", *options, "-"], input=code, capture_output=True, check=False)
    if done.returncode:
        raise StackgradError(f"{DISASSEMBLER} refuses a module: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()
