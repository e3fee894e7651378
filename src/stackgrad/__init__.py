# ruff: noqa: F403 - what type checkers see is imported for them alone
"""This package compiles differentiable parallel kernels, written in Python, with reverse mode through dynamic loops.

`import stackgrad as sg` provides every name that a program of the kernel dialect needs. A name is looked up when it is
first used, so the import itself loads no code generator, no driver and not even NumPy.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .language import *

__version__ = "0.1.0"
"""The version of the package."""

cpu = "cpu"
"""Name the architecture of CPUs, for `sg.init(arch=sg.cpu)`: machine code, with SIMD lanes and threads."""
reference = "reference"
"""Name the interpreter that defines what a kernel means, for `sg.init(arch=sg.reference)`: exact and slow."""
vulkan = "vulkan"
"""Name the architecture of GPUs with a Vulkan driver, for `sg.init(arch=sg.vulkan)`."""
gpu = "gpu"
"""Name the architecture of the GPU at hand, for `sg.init(arch=sg.gpu)`: it means `sg.cuda`."""
x64 = "x64"
"""Name the CPU as programs of the dialect do for x86 processors; it means `sg.cpu`."""
arm64 = "arm64"
"""Name the CPU as programs of the dialect do for ARM processors; it means `sg.cpu`."""

_PRIVATE = {"Any", "ModuleType", "TYPE_CHECKING", "annotations"}

_HOMES: dict[str, str] = {
    name: module
    for module, names in {
        ".runtime.session": "init reset sync",
        ".data.fields": "Backend Field Layout MatrixField MatrixNdarray Ndarray ScalarField ScalarNdarray StructField"
        " Tensor field wrap",
        ".data.names": "VectorNdarray VectorTensor MatrixTensor",
        ".data.ndarrays": "ndarray tensor from_dlpack",
        ".data.values": "Matrix Struct Vector",
        ".data.snodes": "i ij ijk ijkl ijl ik ikl il j jk jkl jl k kl l axes FieldsBuilder root",
        ".types": "Template dataclass template",
        ".data.primitive_types": "float16 float32 float64 int8 int16 int32 int64 uint1 uint8 uint16 uint32 uint64",
        ".compiler.ir.types": "f16 f32 f64 i8 i16 i32 i64 u1 u8 u16 u32 u64",
        ".launch.kernels": "kernel Kernel TextKernel KernelStats KernelWarning kernel_from_text",
        ".launch.classes": "data_oriented pyfunc",
        ".runtime.report": "adstack_report AdstackReport",
        ".runtime.profiling": "profile Profile KernelProfile TaskProfile",
        ".linalg": "eig make_spd outer polar_decompose solve svd sym_eig",
        ".runtime.streams": "Event Stream create_event create_stream",
        ".backends.disk_cache": "CacheWarning",
        ".runtime.gpu": "cuda Cuda",
        ".launch.graphs": "graph RecordedGraph",
        ".launch.dispatch": "perf_dispatch",
        ".data.views": "BufferView",
        ".compiler.errors": "AdstackOverflow CallError DeviceError DivisionByZero InternalError KernelAssertionError"
        " KernelIndexError KernelNameError KernelSyntaxError KernelTypeError NotDifferentiable OutOfBounds ParseError"
        " StackgradError Unsupported VerifyError",
        ".runtime.usage_errors": "ArgumentError FieldError GradientError MatrixError OptionError StaleFieldError"
        " StructError TapeError UsageError ViewError",
    }.items()
    for name in names.split()
}
"""The table maps each public name to the module that defines the name.

It is the only list of them. Names that the kernel language adds are in `EXPORTS` of `compiler/frontend/functions.py`.
What type checkers read, language.pyi, and the page docs/reference.md are made from both.
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
    """Return the object that the kernel language exports under a name.

    Raises:
        AttributeError: The kernel language has no such name. The message lists close names.
    """
    exports = importlib.import_module(_FUNCTIONS, __name__).EXPORTS
    if name in exports:
        return exports[name]
    raise _Missing(name)


class _Missing(AttributeError):
    """Signal that stackgrad has no such name; close names are searched only when the message is shown.

    The frontend asks modules for the attributes that mark fields and kernels, and drops the error. So the search for
    close names must not run when the error is raised.
    """

    def __str__(self) -> str:
        (name,) = self.args
        hint = importlib.import_module(".runtime.cures", __name__).cure_of(name, __dir__())
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
