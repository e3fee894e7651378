"""CudaBackend: NVIDIA GPUs. Kernels compile to PTX; launching them is not there yet, and the probe says so."""
from __future__ import annotations

from ...compiler.errors import Unsupported
from ...compiler.ir.nodes import Kernel
from ..base import SLABS, Executable, Options, Probe, Sizes
from .ptx import ptx

_REASON = "this version generates PTX but has no launcher for NVIDIA GPUs"
_CURE = "run on the cpu backend; `stackgrad ir --stage ptx` shows the code"


class CudaBackend:
    """Kernels for NVIDIA GPUs."""

    name = "cuda"

    def probe(self) -> Probe:
        """Not available on any machine."""
        return Probe(False, reason=_REASON, cure=_CURE)

    def compile(self, kernel: Kernel, options: Options) -> Executable:
        """Raises Unsupported."""
        raise Unsupported(f"kernel {kernel.name}: {_REASON}", _CURE)

    def ptx(self, kernel: Kernel, arch: str = "sm_90", options: Options | None = None) -> str:
        """PTX of a kernel; see `ptx.ptx`."""
        return ptx(kernel, arch, options)

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> None:
        """Nothing is ever in flight."""

    def heap_report(self) -> dict[str, dict[str, int]]:
        """No device memory is ever held."""
        return {slab: {"current": 0, "peak": 0} for slab in SLABS}

    def reset(self) -> None:
        """Nothing to give back."""
