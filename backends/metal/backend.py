"""Translate kernels to Metal programs, which are checked but do not run, because there is no launcher yet.

No machine with Metal has been at hand, and a launcher that nobody has run would be a guess. What a launcher has to do
is written down in docs/metal.md, and done by the code that runs the texts on the host in tests
(harness/testing/emulated_metal).
"""

from __future__ import annotations

import platform
import subprocess
from typing import NoReturn

from ...compiler.errors import DeviceError
from ...compiler.ir.kernels import Kernel
from ..base import SLABS, Concurrency, Options, Probe, Sizes
from .translate import CURE, PROGRAM, TranslatorMissing
from .translate import translator_path as translator

UNTESTED = (
    "kernels are translated and checked, but nothing launches them, because no Metal device was at hand to test it"
)


class MetalBackend:
    """Translate kernels to Metal source text without running them: `compile` always ends with an error."""

    name = "metal"
    blocks = "loops"

    def probe(self) -> Probe:
        """Return a Probe that says why the backend cannot be used, with the version of SPIRV-Cross if installed."""
        try:
            version = _version(translator())
        except TranslatorMissing:
            return Probe(False, reason=f"{UNTESTED}; {PROGRAM}, which translates, is missing", cure=CURE)
        cure = "use the cpu backend"
        return Probe(False, reason=f"{UNTESTED} ({version}; this machine runs {platform.system()})", cure=cure)

    def compile(self, kernel: Kernel, options: Options) -> NoReturn:
        """Translate a kernel to check that this works, then raise DeviceError, as Metal programs cannot run yet.

        Raises:
            Unsupported: for what Metal does not have
            DeviceError: for every other kernel
        """
        from .program import program

        program(kernel, options)
        raise DeviceError(f"kernel {kernel.name}: {UNTESTED}; cure: {self.probe().cure}")

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency | None:
        """Return a concurrency of one row, because this backend cannot launch kernels."""
        return Concurrency(1)

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Return a memory use of 0 bytes for each slab, because this backend allocates nothing."""
        return {slab: {"current": 0, "peak": 0} for slab in SLABS}

    def reset(self) -> None:
        """Do nothing, because this backend holds no memory."""


def _version(path: str) -> str:
    """Return the name and version that SPIRV-Cross prints for `--revision`."""
    done = subprocess.run([path, "--revision"], capture_output=True, text=True)
    said = (done.stdout or done.stderr).strip().splitlines()
    return f"{PROGRAM}: {said[0]}" if done.returncode == 0 and said else PROGRAM
