"""Provide the validator of SPIR-V and its disassembler to the tests of shaders."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest
from stackgrad.backends.spirv.shaders import Shaders
from stackgrad.harness.testing.spirv_text import MissingDisassembler, text_of


@pytest.fixture(scope="session")
def validate(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Shaders], str]:
    """Return the complaint of `spirv-val` about a module, or "" if it is valid."""
    program = shutil.which("spirv-val")
    if program is None:
        pytest.skip("spirv-val is not installed; cure: apt-get install spirv-tools")
    path = tmp_path_factory.mktemp("spirv") / "module.spv"

    def judge(shaders: Shaders) -> str:
        path.write_bytes(shaders.code)
        command = [str(program), "--target-env", "vulkan1.2", "--scalar-block-layout", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout + done.stderr or f"status {done.returncode}"

    return judge


@pytest.fixture
def disassemble() -> Callable[[Shaders, str], str]:
    """Return the text that `spirv-dis` prints for a module."""

    def printed(shaders: Shaders, options: str = "") -> str:
        try:
            return text_of(shaders.code, *options.split())
        except MissingDisassembler as missing:
            pytest.skip(str(missing))

    return printed
