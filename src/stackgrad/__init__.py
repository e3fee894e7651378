# ruff: noqa: F401 - what type checkers see is imported for them alone
"""Differentiable parallel kernels in Python: reverse mode through dynamic loops.

`import stackgrad as sg` gives what a program of the kernel dialect needs. Names are looked up at first use, so the
import itself loads no code generator, no driver and not even NumPy.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import ad, capture
    from .compiler.errors import (
        AdstackOverflow,
        DeviceError,
        DivisionByZero,
        InternalError,
        KernelAssertionError,
        KernelSyntaxError,
        KernelTypeError,
        NotDifferentiable,
        OutOfBounds,
        ParseError,
        StackgradError,
        Unsupported,
        VerifyError,
    )
    from .compiler.ir.types import f16, f32, f64, i8, i16, i32, i64, u1, u8, u16, u32, u64
    from .fields import Field, field
    from .kernels import Kernel, TextKernel, kernel, kernel_from_text
    from .report import adstack_report
    from .session import init, reset, sync
    from .usage import UsageError

__version__ = "0.1.0"

cpu, reference, cuda = "cpu", "reference", "cuda"
gpu, x64, arm64 = "gpu", "x64", "arm64"

_ERRORS = (
    "AdstackOverflow", "DeviceError", "DivisionByZero", "InternalError", "KernelAssertionError", "KernelSyntaxError",
    "KernelTypeError", "NotDifferentiable", "OutOfBounds", "ParseError", "StackgradError", "Unsupported", "VerifyError",
)  # fmt: skip
_USAGE = ("ArgumentError", "FieldError", "GradientError", "OptionError", "StaleFieldError", "TapeError", "UsageError")
_TYPES = ("f16", "f32", "f64", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64")

_HOMES: dict[str, str] = {
    **dict.fromkeys(("init", "reset", "sync"), ".session"),
    **dict.fromkeys(("field", "Field"), ".fields"),
    **dict.fromkeys(("kernel", "Kernel", "TextKernel", "KernelStats", "KernelWarning", "kernel_from_text"), ".kernels"),
    **dict.fromkeys(("adstack_report", "AdstackReport"), ".report"),
    **dict.fromkeys(_TYPES, ".compiler.ir.types"),
    **dict.fromkeys(_ERRORS, ".compiler.errors"),
    **dict.fromkeys(_USAGE, ".usage"),
}
"""Public names by the module that defines them. What the kernel language adds is `EXPORTS` of the frontend."""

_MODULES = ("ad", "capture")
_FUNCTIONS = ".compiler.frontend.functions"


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    elif name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = _exported(name)
    globals()[name] = value
    return value


def _exported(name: str) -> Any:
    """A name of the kernel language; AttributeError with close names if there is none."""
    exports = importlib.import_module(_FUNCTIONS, __name__).EXPORTS
    if name in exports:
        return exports[name]
    hint = importlib.import_module(".usage", __name__).close_names(name, __dir__())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}. {hint}".rstrip(". "))


def __dir__() -> list[str]:
    exports = importlib.import_module(_FUNCTIONS, __name__).EXPORTS
    own = [name for name in globals() if not name.startswith("_") and name not in ("importlib", "annotations")]
    return sorted({*own, *_HOMES, *_MODULES, *exports, "__version__"} - {"Any", "TYPE_CHECKING"})
