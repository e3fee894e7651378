"""What the tests of shaders share: the validator of SPIR-V."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest
from stackgrad.backends.spirv.shaders import Shaders


@pytest.fixture(scope="session")
def validate(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Shaders], str]:
    """What `spirv-val` says of a module; empty if it is valid."""
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


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """The module that `spirv-as` makes of a text."""
    program = shutil.which("spirv-as")
    if program is None:
        pytest.skip("spirv-as is not installed; cure: apt-get install spirv-tools")
    folder = tmp_path_factory.mktemp("text")

    def make(text: str) -> bytes:
        (folder / "text").write_text(text)
        command = [str(program), "--target-env", "spv1.5", "--preserve-numeric-ids", str(folder / "text"), "-o"]
        done = subprocess.run([*command, str(folder / "made")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return (folder / "made").read_bytes()

    return make
