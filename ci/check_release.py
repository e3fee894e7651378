"""This script builds what is released, a wheel and a source archive, and checks it in an empty environment.

    python ci/check_release.py FOLDER

FOLDER then holds `dist`, the files to upload. They are built in isolation, the wheel from the source archive, so that
a complete wheel proves that the archive is complete. twine checks their descriptions. The wheel is installed into an
empty environment, in which the program of the README and the tests TESTS of this checkout run. The exit status is 1 if
a step fails. The script runs under an interpreter that has build and twine, and needs the network.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = (
    "tests/ops/sin.kir",
    "tests/ops/mul.kir",
    "tests/statements/while.kir",
    "tests/kernels",
    "tests/cli/test_explain.py",
)
"""Tests of this checkout that judge the installed wheel: operations, loops, launches and the command line."""

PLACE = "import stackgrad; print(stackgrad.__version__, stackgrad.__file__)"
PYTEST_TOOLS = ("pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.5", "psutil>=5.9")


class ReleaseError(Exception):
    """Signal that the files to be released are faulty, or that a step of the check failed."""


def run(*command: str, folder: Path = ROOT) -> str:
    """Run a command, show its output, and return what it printed.

    Raises:
        ReleaseError: the command ended with a status other than 0.
    """
    print("==", *command, flush=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        raise ReleaseError(f"status {done.returncode}: {' '.join(command)}")
    return done.stdout


def program(readme: str) -> str:
    """Return the first program of the README.

    Raises:
        ReleaseError: the README has no program.
    """
    block = re.search(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    if block is None:
        raise ReleaseError("README.md has no program")
    return block[1]


def build(folder: Path) -> tuple[Path, Path]:
    """Build and check both files in an empty folder, and return the wheel and the source archive.

    Raises:
        ReleaseError: the files cannot be built, twine refuses them, or the build made other files too.
    """
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    wheels, archives = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(archives) != 1:
        raise ReleaseError(f"one wheel and one source archive are expected: {[*wheels, *archives]}")
    run(sys.executable, "-m", "twine", "check", "--strict", str(wheels[0]), str(archives[0]))
    return wheels[0], archives[0]


def check_place(printed: str, wheel: Path, environment: Path) -> None:
    """Check that the package comes from the environment and has the version that the wheel is named after.

    Raises:
        ReleaseError: the package comes from elsewhere, or has another version.
    """
    version, _, place = printed.strip().partition(" ")
    if not Path(place).is_relative_to(environment):
        raise ReleaseError(f"the package comes from {place}, not from the wheel")
    if wheel.name.split("-")[1] != version:
        raise ReleaseError(f"{wheel.name} holds version {version}")


def check_installed(wheel: Path, folder: Path) -> None:
    """Install a wheel into an empty environment below a folder, and run program and tests there.

    Raises:
        ReleaseError: something fails.
    """
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", str(environment))
    python = str(environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    run(python, "-m", "pip", "install", "--quiet", str(wheel))
    check_place(run(python, "-c", PLACE, folder=folder), wheel, environment)
    (folder / "sines.py").write_text(program((ROOT / "README.md").read_text(encoding="utf-8")), encoding="utf-8")
    run(python, "sines.py", folder=folder)
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[harness]", *PYTEST_TOOLS)
    check_place(run(python, "-c", PLACE), wheel, environment)
    run(python, "-m", "pytest", "-n", "0", *TESTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check and install, and return the exit status."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    try:
        wheel, _ = build(Path(folder).resolve() / "dist")
        with tempfile.TemporaryDirectory() as empty:
            check_installed(wheel, Path(empty).resolve())
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
