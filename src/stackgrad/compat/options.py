"""Start the runtime with the options of the peers: architectures, environment variables, fallback to the CPU.

The variables are those of the peers, `QD_ARCH`, `QD_DEBUG`, `TI_DEFAULT_FP` and so on: `QD_` or `TI_` and the name of
an option. An argument of `init` counts more than a variable.
"""

from __future__ import annotations

import os
from typing import Any

from ..compiler.errors import DeviceError, warn
from ..compiler.ir.types import f32, f64, i32, i64
from ..runtime import session
from ..runtime.dialect_options import OPTIONS
from ..runtime.usage_errors import UsageError
from . import arches, logs, profiler
from .hooks import after_reset

_PREFIXES = ("QD_", "TI_")
_WIDTHS: dict[str, dict[str, Any]] = {"default_fp": {"32": f32, "64": f64}, "default_ip": {"32": i32, "64": i64}}
_TEXTS = ("arch", "log_level", "offline_cache_file_path", "bounds", "debug_dump_path", "offline_cache_cleaning_policy")
_NUMBERS = ("random_seed", "cpu_max_num_threads", "ad_stack_size", "num_compile_threads", "opt_level")
_OWN = ("debug", "precise", "deterministic", "debug_info")

CURRENT: dict[str, Any] = {}
"""What the last `init` was given, by argument or variable."""


def init(arch: Any = None, default_fp: Any = None, default_ip: Any = None, **options: Any) -> None:
    """Start the runtime as `sg.init` does, with the options that the peers accept.

    Args:
        arch: An architecture of a peer or of stackgrad, or a list of them, of which the first that can run is taken.
        default_fp: Type of Python floats in kernels.
        default_ip: Type of Python ints in kernels.
        **options: Options of `sg.init` and of the peers. `enable_fallback` is True unless it is given: where the arch
            cannot run, the CPU does, and a warning says so.

    Raises:
        OptionError: There is no such option.
        DeviceError: The arch cannot run here, and `enable_fallback=False`.
    """
    given = {"arch": arch, "default_fp": default_fp, "default_ip": default_ip, **options}
    given = {**from_environment(), **{name: value for name, value in given.items() if value is not None}}
    given["enable_fallback"] = bool(given.get("enable_fallback", True))
    logs.set_logging_level(given.get("log_level", "info"))
    given["arch"] = _replaced(arches.choose(given.pop("arch", None)), given["enable_fallback"])
    session.init(**given)
    profiler.set_kernel_profiler_mode(bool(given.get("kernel_profiler", False)))
    CURRENT.clear()
    CURRENT.update(given)
    after_reset()


def _replaced(arch: str | None, is_fallback: bool) -> str | None:
    """Return the backend for an architecture; if stackgrad lacks it, return the CPU or raise DeviceError."""
    if arch is None or arch in session.ARCHES or not hasattr(arches, arch):
        return arch
    if not is_fallback:
        raise DeviceError(f"no kernel runs on {arch} here; cure: use sg.cpu, sg.cuda or sg.vulkan")
    warn(f"no kernel runs on {arch} here; the CPU runs the kernels instead", RuntimeWarning)
    return "cpu"


def from_environment() -> dict[str, Any]:
    """Return the options of `init` that the peers' environment variables set.

    Raises:
        UsageError: A variable has a value that its option does not take.
    """
    names = ("arch", "default_fp", "default_ip", *_NUMBERS, *_TEXTS, *_OWN, *OPTIONS)
    found: dict[str, Any] = {}
    for name in dict.fromkeys(names):
        for prefix in _PREFIXES:
            text = os.environ.get(f"{prefix}{name.upper()}", "")
            if text:
                found[name] = _parsed(f"{prefix}{name.upper()}", name, text)
    return found


def _parsed(variable: str, name: str, text: str) -> Any:
    """Return an option's value, parsed from an environment variable's text; raise UsageError if it is invalid."""
    if name in _TEXTS:
        return text
    if name in _WIDTHS:
        if text not in _WIDTHS[name]:
            raise UsageError(f"{variable} cannot be {text!r}", "set it to 32 or 64")
        return _WIDTHS[name][text]
    try:
        return int(text) if name in _NUMBERS else bool(int(text))
    except ValueError:
        if name in OPTIONS and name not in ("check_out_of_bound", "enable_fallback", "fast_math", "offline_cache"):
            return text
        raise UsageError(f"{variable} cannot be {text!r}", "set it to a number; 0 and 1 are False and True") from None


class extension:  # noqa: N801 - the name of the peers
    """List the optional features, "extensions", that programs of the peers pass to `is_extension_supported`."""

    sparse, quant, mesh = "sparse", "quant", "mesh"
    data64, adstack, bls, assertion, extfunc, quant_basic = (
        "data64",
        "adstack",
        "bls",
        "assertion",
        "extfunc",
        "quant_basic",
    )


def is_extension_enabled(name: object) -> bool:
    """Return True if kernels of stackgrad have the feature that an extension of the peers stands for."""
    return name in (extension.data64, extension.adstack, extension.assertion, extension.bls)


def is_extension_supported(arch: object, name: object) -> bool:
    """Return True if kernels on an architecture have the feature that an extension of the peers stands for.

    Args:
        arch: A name of a peer or of stackgrad; the machine need not have it.
        name: An attribute of `extension`.
    """
    lacks_64_bits = arches.known(arch) == "metal"
    return is_extension_enabled(name) and not (lacks_64_bits and name == extension.data64)


def is_arch_supported(arch: object, use_gles: bool = False) -> bool:
    """Return True if an architecture can run kernels on this machine.

    Args:
        arch: A name of a peer or of stackgrad.
        use_gles: Ignored.
    """
    return arches.can_run(arch)
