"""This module makes all imports of the project that golden records need, so that renamings change only this module.

Invariant: no other module of this package imports anything else of the project. The names that this module gives to
what it imports stay when the project renames it, because the package is also run on earlier commits, with the adapter
that they have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ....backends.base import Options
from ....backends.codegen.target import CPU, Target
from ....backends.cpu.pool_code import pool_code
from ....backends.cpu.pool_platform import platform_of
from ....backends.cuda.code import generate as generate_cuda
from ....backends.cuda.host_code import host_code as cuda_host_code
from ....backends.cuda.ptx import ptx
from ....backends.cuda.toolkit import libdevice_path
from ....backends.host.trampoline import text_of as trampoline_text
from ....backends.llvm.masked import generate_masked
from ....backends.llvm.module import generate as generate_llvm
from ....backends.llvm.optimize import initialize as initialise
from ....backends.llvm.optimize import optimize as optimise
from ....backends.llvm.optimize import parse
from ....backends.metal.program import program as metal_program
from ....backends.metal.translate import PROGRAM as METAL_TRANSLATOR
from ....backends.spirv.emit import ShaderFeatures as Features
from ....backends.spirv.quirks import Quirks
from ....backends.spirv.shaders import generate as generate_spirv
from ....backends.vulkan.block import block_layout as laid_out
from ....backends.vulkan.host_code import host_code as vulkan_host_code
from ....backends.vulkan.host_code import needed_entries as needed
from ....backends.vulkan.ring import SLOTS, groups_at
from ....cli.programs import defines_check, run_program
from ....compiler.ad.policies import LOWERINGS, POLICIES
from ....compiler.driver import Lowering as Lowered
from ....compiler.driver import prepare_forward, prepare_reverse, prepare_second, prepare_tangent
from ....compiler.errors import InternalError, StackgradError
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.parser import parse_kernel
from ....compiler.ir.printer import print_kernel
from ....compiler.ir.verify import verify
from ...testing.launch import is_forward, with_gradient

__all__ = [
    "CPU",
    "Features",
    "InternalError",
    "Kernel",
    "LOWERINGS",
    "Lowered",
    "METAL_TRANSLATOR",
    "Options",
    "POLICIES",
    "Quirks",
    "ROOT",
    "SLOTS",
    "StackgradError",
    "Target",
    "cuda_host_code",
    "defines_check",
    "generate_cuda",
    "generate_llvm",
    "generate_masked",
    "generate_spirv",
    "groups_at",
    "initialise",
    "is_forward",
    "laid_out",
    "libdevice_path",
    "metal_program",
    "needed",
    "optimise",
    "parse",
    "parse_kernel",
    "platform_of",
    "pool_code",
    "prepare_forward",
    "prepare_reverse",
    "prepare_second",
    "prepare_tangent",
    "print_kernel",
    "ptx",
    "run_program",
    "text_reader",
    "trampoline_text",
    "verify",
    "vulkan_host_code",
    "with_gradient",
]

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
"""The checkout that this package belongs to, wherever in it the package lies."""


def text_reader() -> Callable[[str], list[Any]]:
    """Return the reader of .kir files, which belongs to the tests.

    Returns:
        A function from the text of a file to its cases, each with `text`, `types`, `invalid` and `source(dtype)`.
    """
    folder = str(ROOT / "tests")
    if folder not in sys.path:
        sys.path.append(folder)
    reader: Callable[[str], list[Any]] = import_module("kir_test_support.directives").read_cases
    return reader
