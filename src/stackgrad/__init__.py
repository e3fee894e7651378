# ruff: noqa: F401, F403 - what type checkers see is imported for them alone
"""Differentiable parallel kernels in Python: reverse mode through dynamic loops.

`import stackgrad as sg` gives what a program of the kernel dialect needs. Names are looked up at first use, so the
import itself loads no code generator, no driver and not even NumPy.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import ad, capture, jax, linalg, math, torch, types
    from .backends.disk_cache import CacheWarning
    from .classes import data_oriented, pyfunc
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
    from .dispatch import perf_dispatch
    from .fields import (
        Backend,
        Field,
        Layout,
        MatrixField,
        MatrixNdarray,
        Ndarray,
        ScalarField,
        ScalarNdarray,
        StructField,
        Tensor,
        field,
        wrap,
    )
    from .gpu import Cuda, cuda
    from .graphs import RecordedGraph
    from .kernels import Kernel, KernelStats, KernelWarning, TextKernel, kernel, kernel_from_text
    from .language import *
    from .linalg import eig, make_spd, outer, polar_decompose, solve, svd, sym_eig
    from .names import MatrixTensor, VectorNdarray, VectorTensor
    from .ndarrays import from_dlpack, ndarray, tensor
    from .profiling import KernelProfile, Profile, TaskProfile, profile
    from .report import AdstackReport, adstack_report
    from .session import init, reset, sync
    from .snodes import FieldsBuilder, axes, i, ij, ijk, ijkl, ijl, ik, ikl, il, j, jk, jkl, jl, k, kl, l, root
    from .streams import Event, Stream, create_event, create_stream
    from .types import dataclass
    from .usage import (
        ArgumentError,
        FieldError,
        GradientError,
        MatrixError,
        OptionError,
        StaleFieldError,
        StructError,
        TapeError,
        UsageError,
        ViewError,
    )
    from .values import Matrix, Struct, Vector
    from .views import BufferView

__version__ = "0.1.0"

cpu, reference, vulkan = "cpu", "reference", "vulkan"
gpu, x64, arm64 = "gpu", "x64", "arm64"

_ARCHES = ("cpu", "reference", "cuda", "vulkan", "gpu", "x64", "arm64")
_PRIVATE = {"Any", "ModuleType", "TYPE_CHECKING", "annotations"}

_ERRORS = (
    "AdstackOverflow",
    "DeviceError",
    "DivisionByZero",
    "InternalError",
    "KernelAssertionError",
    "KernelSyntaxError",
    "KernelTypeError",
    "NotDifferentiable",
    "OutOfBounds",
    "ParseError",
    "StackgradError",
    "Unsupported",
    "VerifyError",
)
_USAGE = (
    "ArgumentError",
    "FieldError",
    "GradientError",
    "MatrixError",
    "OptionError",
    "StaleFieldError",
    "StructError",
    "TapeError",
    "UsageError",
    "ViewError",
)
_LONG_TYPES = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint1",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
_KINDS = (
    "Backend",
    "Field",
    "Layout",
    "MatrixField",
    "MatrixNdarray",
    "Ndarray",
    "ScalarField",
    "ScalarNdarray",
    "StructField",
    "Tensor",
    "field",
    "wrap",
)
_AXES = ("i", "ij", "ijk", "ijkl", "ijl", "ik", "ikl", "il", "j", "jk", "jkl", "jl", "k", "kl", "l", "axes")
_TYPES = ("f16", "f32", "f64", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64")

_HOMES: dict[str, str] = {
    **dict.fromkeys(("init", "reset", "sync"), ".session"),
    **dict.fromkeys(_KINDS, ".fields"),
    **dict.fromkeys(("VectorNdarray", "VectorTensor", "MatrixTensor"), ".names"),
    **dict.fromkeys(("ndarray", "tensor", "from_dlpack"), ".ndarrays"),
    **dict.fromkeys(("Matrix", "Struct", "Vector"), ".values"),
    **dict.fromkeys((*_AXES, "FieldsBuilder", "root"), ".snodes"),
    **dict.fromkeys(("Template", "dataclass", "template"), ".types"),
    **dict.fromkeys(_LONG_TYPES, ".primitive_types"),
    **dict.fromkeys(("kernel", "Kernel", "TextKernel", "KernelStats", "KernelWarning", "kernel_from_text"), ".kernels"),
    **dict.fromkeys(("data_oriented", "pyfunc"), ".classes"),
    **dict.fromkeys(("adstack_report", "AdstackReport"), ".report"),
    **dict.fromkeys(("profile", "Profile", "KernelProfile", "TaskProfile"), ".profiling"),
    **dict.fromkeys(("eig", "make_spd", "outer", "polar_decompose", "solve", "svd", "sym_eig"), ".linalg"),
    **dict.fromkeys(("Event", "Stream", "create_event", "create_stream"), ".streams"),
    "CacheWarning": ".backends.disk_cache",
    **dict.fromkeys(("cuda", "Cuda"), ".gpu"),
    **dict.fromkeys(("graph", "RecordedGraph"), ".graphs"),
    "perf_dispatch": ".dispatch",
    "BufferView": ".views",
    **dict.fromkeys(_TYPES, ".compiler.ir.types"),
    **dict.fromkeys(_ERRORS, ".compiler.errors"),
    **dict.fromkeys(_USAGE, ".usage"),
}
"""Public names by the module that defines them. What the kernel language adds is `EXPORTS` of the frontend, and type
checkers read it in language.pyi."""

_MODULES = ("ad", "capture", "jax", "linalg", "math", "torch", "types")
_FUNCTIONS = ".compiler.frontend.functions"


if not TYPE_CHECKING:  # they know every name by the imports above, and a name that is not there as a mistake

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
    raise _Missing(name)


class _Missing(AttributeError):
    """An AttributeError that looks for close names when it is shown: the frontend asks modules for marks of fields and
    kernels, and drops the answer.
    """

    def __str__(self) -> str:
        (name,) = self.args
        hint = importlib.import_module(".usage", __name__).close_names(name, __dir__())
        return f"module {__name__!r} has no attribute {name!r}. {hint}".rstrip(". ")

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


_Missing.__module__, _Missing.__qualname__ = "builtins", "AttributeError"  # as tracebacks show it


def __dir__() -> list[str]:
    exports = importlib.import_module(_FUNCTIONS, __name__).EXPORTS
    own = [name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, ModuleType)]
    return sorted({*own, *_ARCHES, *_HOMES, *_MODULES, *exports, "__version__"} - _PRIVATE)
