# ruff: noqa: F401, F403 - what type checkers see is imported for them alone
"""This package compiles differentiable parallel kernels, written in Python, with reverse mode through dynamic loops.

`import stackgrad as sg` provides every name that a program of the kernel dialect needs. A name is looked up when it is
first used, so the import itself loads no code generator, no driver and not even NumPy.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import ad, capture, jax, linalg, math, torch, types
    from .backends.disk_cache import CacheWarning
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
    from .data.fields import (
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
    from .data.names import MatrixTensor, VectorNdarray, VectorTensor
    from .data.ndarrays import from_dlpack, ndarray, tensor
    from .data.snodes import FieldsBuilder, axes, i, ij, ijk, ijkl, ijl, ik, ikl, il, j, jk, jkl, jl, k, kl, l, root
    from .data.values import Matrix, Struct, Vector
    from .data.views import BufferView
    from .language import *
    from .launch.classes import data_oriented, pyfunc
    from .launch.dispatch import perf_dispatch
    from .launch.graphs import RecordedGraph
    from .launch.kernels import Kernel, KernelStats, KernelWarning, TextKernel, kernel, kernel_from_text
    from .linalg import eig, make_spd, outer, polar_decompose, solve, svd, sym_eig
    from .runtime.gpu import Cuda, cuda
    from .runtime.profiling import KernelProfile, Profile, TaskProfile, profile
    from .runtime.report import AdstackReport, adstack_report
    from .runtime.session import init, reset, sync
    from .runtime.streams import Event, Stream, create_event, create_stream
    from .runtime.usage import (
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
    from .types import dataclass

__version__ = "0.1.0"

cpu, reference, vulkan = "cpu", "reference", "vulkan"
gpu, x64, arm64 = "gpu", "x64", "arm64"

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
    **dict.fromkeys(("init", "reset", "sync"), ".runtime.session"),
    **dict.fromkeys(_KINDS, ".data.fields"),
    **dict.fromkeys(("VectorNdarray", "VectorTensor", "MatrixTensor"), ".data.names"),
    **dict.fromkeys(("ndarray", "tensor", "from_dlpack"), ".data.ndarrays"),
    **dict.fromkeys(("Matrix", "Struct", "Vector"), ".data.values"),
    **dict.fromkeys((*_AXES, "FieldsBuilder", "root"), ".data.snodes"),
    **dict.fromkeys(("Template", "dataclass", "template"), ".types"),
    **dict.fromkeys(_LONG_TYPES, ".data.primitive_types"),
    **dict.fromkeys(
        ("kernel", "Kernel", "TextKernel", "KernelStats", "KernelWarning", "kernel_from_text"), ".launch.kernels"
    ),
    **dict.fromkeys(("data_oriented", "pyfunc"), ".launch.classes"),
    **dict.fromkeys(("adstack_report", "AdstackReport"), ".runtime.report"),
    **dict.fromkeys(("profile", "Profile", "KernelProfile", "TaskProfile"), ".runtime.profiling"),
    **dict.fromkeys(("eig", "make_spd", "outer", "polar_decompose", "solve", "svd", "sym_eig"), ".linalg"),
    **dict.fromkeys(("Event", "Stream", "create_event", "create_stream"), ".runtime.streams"),
    "CacheWarning": ".backends.disk_cache",
    **dict.fromkeys(("cuda", "Cuda"), ".runtime.gpu"),
    **dict.fromkeys(("graph", "RecordedGraph"), ".launch.graphs"),
    "perf_dispatch": ".launch.dispatch",
    "BufferView": ".data.views",
    **dict.fromkeys(_TYPES, ".compiler.ir.types"),
    **dict.fromkeys(_ERRORS, ".compiler.errors"),
    **dict.fromkeys(_USAGE, ".runtime.usage"),
}
"""The table maps each public name to the module that defines the name.

Names that the kernel language adds are in `EXPORTS` of `compiler/frontend/functions.py`; type checkers read them in
language.pyi.
"""

_MODULES = ("ad", "capture", "jax", "linalg", "math", "torch", "types")
_FUNCTIONS = ".compiler.frontend.functions"


# Type checkers know every name by the imports above. They must report other names, so they must not see `__getattr__`.
if not TYPE_CHECKING:

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
    """Return a name of the kernel language.

    Raises:
        AttributeError: The kernel language has no such name. The message lists close names.
    """
    exports = importlib.import_module(_FUNCTIONS, __name__).EXPORTS
    if name in exports:
        return exports[name]
    raise _Missing(name)


class _Missing(AttributeError):
    """An AttributeError that searches for close names only when its message is shown.

    The frontend asks modules for the attributes that mark fields and kernels, and drops the error. So the search for
    close names must not run when the error is raised.
    """

    def __str__(self) -> str:
        (name,) = self.args
        hint = importlib.import_module(".runtime.usage", __name__).close_names(name, __dir__())
        return f"module {__name__!r} has no attribute {name!r}. {hint}".rstrip(". ")

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


# Tracebacks then show the class as a plain AttributeError.
_Missing.__module__, _Missing.__qualname__ = "builtins", "AttributeError"


def __dir__() -> list[str]:
    exports = importlib.import_module(_FUNCTIONS, __name__).EXPORTS
    session = importlib.import_module(".runtime.session", __name__)
    own = [name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, ModuleType)]
    return sorted({*own, *session.ARCHES, *session.ALIASES, *_HOMES, *_MODULES, *exports, "__version__"} - _PRIVATE)
