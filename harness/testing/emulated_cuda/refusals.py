"""This module creates the errors of driver calls, with the names and texts of the CUDA driver."""

from __future__ import annotations

from ....backends.cuda.driver import DriverError

NAMES = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    400: ("CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    900: ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}
"""Name and text of each code of CUresult."""


def refusal(code: int, call: str, detail: str = "") -> DriverError:
    """Return the error of a driver call, with the name and text of its error code."""
    name, text = NAMES.get(code, NAMES[999])
    return DriverError(code, name, f"{text}: {detail}" if detail else text, call)
