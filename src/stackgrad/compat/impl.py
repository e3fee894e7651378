"""Provide the state of the runtime in the form of the peers' `lang.impl`: `get_runtime()`, `current_cfg()` and more."""

from __future__ import annotations

from types import SimpleNamespace

from ..compiler.ir.types import Scalar, i32, u32, u64
from ..runtime import session
from ..runtime.session import RUNTIME, sync
from . import arches, options
from .hooks import after_reset, on_reset


class Program:
    """Represent what the peers call a program: an object by which a user waits for launches and reads options."""

    def synchronize(self) -> None:
        """Wait for all launches."""
        sync()

    def finalize(self) -> None:
        """Wait for all launches; memory is freed later, when no object refers to it."""
        sync()

    def config(self) -> SimpleNamespace:
        """Return the options of the runtime."""
        return current_cfg()

    def get_kernel_profiler_total_time(self) -> float:
        """Return the total run time of all launches since `init(kernel_profiler=True)`, in seconds."""
        from .profiler import get_kernel_profiler_total_time

        return get_kernel_profiler_total_time()

    def get_total_compilation_time(self) -> float:
        """Return the seconds of code generation of all compiled programs that still exist."""
        return sum(launcher.stats.compile_seconds for launcher in RUNTIME.launchers)


class Patchable(type):
    """Let a program replace `materialize` of a class; the replacement is called before fields are first used."""

    def __setattr__(cls, name: str, value: object) -> None:
        """Set an attribute of the class; a new `materialize` is called before fields are first used."""
        super().__setattr__(name, value)
        if name == "materialize":
            RUNTIME.before_use = _materialize


def _materialize() -> None:
    """Call the function by which the program has replaced `materialize`."""
    get_runtime().materialize()


class PyQuadrants(metaclass=Patchable):
    """Represent the runtime as the peers do; a program may replace its methods `materialize` and `clear`.

    Attributes:
        prog: The program.
        materialized: True, because fields have memory as soon as they are placed.
    """

    materialized = True
    target_tape = None
    inside_kernel = False
    short_circuit_operators = True
    print_full_traceback = False
    unrolling_limit = 0
    stackgrad_settings = frozenset(("default_fp", "default_ip", "default_up"))
    """Attributes that are the same until the runtime is started again."""

    def __init__(self) -> None:
        self.prog = Program()

    @property
    def default_fp(self) -> Scalar:
        """Return the type of Python floats in kernels."""
        return RUNTIME.settings.default_fp

    @property
    def default_ip(self) -> Scalar:
        """Return the type of Python ints in kernels."""
        return RUNTIME.settings.default_ip

    @property
    def default_up(self) -> Scalar:
        """Return the unsigned integer type with as many bits as `default_ip`."""
        return u32 if self.default_ip == i32 else u64

    @property
    def _arch(self) -> arches.Arch:
        return current_cfg().arch  # type: ignore[no-any-return]

    def materialize(self) -> None:
        """Do nothing, because fields have memory as soon as they are placed."""

    def clear(self) -> None:
        """Do nothing, because `init` and `reset` already drop the fields and kernels of the old runtime."""

    def sync(self) -> None:
        """Wait for all launches."""
        sync()

    def get_num_compiled_functions(self) -> int:
        """Return the number of compiled programs that still exist."""
        return len(list(RUNTIME.launchers))


PyTaichi = PyQuadrants
_RUNTIME = PyQuadrants()


def _clear() -> None:
    """Call the function by which the program has replaced `clear`."""
    _RUNTIME.clear()


on_reset(_clear)


def get_runtime() -> PyQuadrants:
    """Return the object that represents the runtime as the peers do."""
    return _RUNTIME


def current_cfg() -> SimpleNamespace:
    """Return the options of the runtime as attributes; an option without effect has the value that was given."""
    settings = RUNTIME.settings
    return SimpleNamespace(
        **{
            **options.CURRENT,
            "arch": arches.Arch(settings.arch),
            "default_fp": settings.default_fp,
            "default_ip": settings.default_ip,
            "debug": settings.debug,
            "fast_math": not settings.precise,
            "random_seed": settings.random_seed,
            "kernel_profiler": bool(options.CURRENT.get("kernel_profiler", False)),
        }
    )


default_cfg = current_cfg


def configuration_or_none() -> SimpleNamespace | None:
    """Return the options of the runtime, or None before the first `init`."""
    return current_cfg() if RUNTIME.initialized else None


def is_python_backend() -> bool:
    """Return True if the reference interpreter runs the kernels."""
    return RUNTIME.settings.arch == "reference"


def get_max_shared_memory_bytes(*, is_lowerbound_ok: bool = True) -> int:
    """Return 0, because kernels cannot use the memory that the threads of a GPU block share.

    Args:
        is_lowerbound_ok: Ignored.
    """
    return 0


def get_cuda_compute_capability() -> int:
    """Return 0, which means in the peers that no kernel uses instructions of one GPU architecture only."""
    return 0


def inside_kernel() -> bool:
    """Return True while a kernel is traced."""
    return RUNTIME.tracing


def reset() -> None:
    """Drop all fields and kernels, as `sg.reset()` does, and call the functions that `on_reset` registered."""
    session.reset()
    after_reset()


__all__ = [
    "Program",
    "PyQuadrants",
    "PyTaichi",
    "configuration_or_none",
    "current_cfg",
    "default_cfg",
    "get_cuda_compute_capability",
    "get_max_shared_memory_bytes",
    "get_runtime",
    "inside_kernel",
    "is_python_backend",
    "on_reset",
    "reset",
]
