"""Measure the startup time of a program: `import stackgrad` and the start of a backend.

Each sample runs in a fresh process. The start of the interpreter is not included; `bench_control.Processes` measures
that, and the import of NumPy. The import must stay free of NumPy and of code generators.
"""

from __future__ import annotations

import subprocess
import sys

COUNT = "import sys; before = len(sys.modules); import stackgrad; print(len(sys.modules) - before)"


class Import:
    """Measure imports, each sample in its own interpreter."""

    repeat = (3, 10, 6.0)
    rounds = 2
    number = 1

    def timeraw_import(self) -> str:
        """Return Python code that asv times in a fresh process: the import of stackgrad."""
        return "import stackgrad"

    def timeraw_init_reference(self) -> str:
        """Return Python code that asv times: import stackgrad and start the interpreter backend."""
        return "import stackgrad as sg\nsg.init(arch='reference')"

    def timeraw_init_cpu(self) -> str:
        """Return Python code that asv times: import stackgrad and start the CPU backend, which loads LLVM."""
        return "import stackgrad as sg\nsg.init(arch='cpu')"

    def track_modules(self) -> int:
        """Count the modules that `import stackgrad` loads."""
        run = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
        return int(run.stdout)

    track_modules.unit = "modules"  # type: ignore[attr-defined]
