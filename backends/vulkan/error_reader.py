"""Make exceptions of the error records of shaders, which can also say that a driver has left a loop too early."""

from __future__ import annotations

from ...compiler.errors import DeviceError, StackgradError
from ..device.error_reader import ErrorReader, Record

_LOOPS = (
    "kernel {}, task {}: the results are void, because this driver (llvmpipe) leaves the loops of a shader after "
    "65,535 trips in all; cure: fewer steps of the loop per launch, or the cpu backend"
)


class ShaderErrorReader(ErrorReader):
    """Convert error records of shaders to exceptions, including the record that a driver left a loop too early."""

    def __call__(self, record: Record) -> StackgradError:
        """Return the exception for an error record of a shader."""
        site = self.sites[record[0]]
        if site.kind == "loops":
            return DeviceError(_LOOPS.format(self.kernel.name, site.task))
        return super().__call__(record)
