"""This module compiles LLVM IR to machine code for the host and keeps it loaded while it may be called.

Target machines and the linker are made once and shared, under LLVM's lock: they cost more than a small kernel. Code is
position-independent in the small model, which LLVM selects fastest; the linker reaches far functions by stubs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import count

import llvmlite
import llvmlite.binding as llvm

from ...compiler.errors import InternalError
from .. import disk_cache
from ..codegen.target import CPU, Target
from ..crash import crash_error
from ..llvm.compiler_lock import LOCK
from ..llvm.module import KernelCode
from ..llvm.optimize import InvalidLLVMError, initialize, optimize, parse
from .code_map import note

_NUMBERS = count()
"""Numbers in the names of libraries: a name cannot be used again, even when its library is gone."""


@cache
def host_cpu() -> tuple[str, str]:
    """Return (name, features) of the CPU that runs this process."""
    initialize()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def host_target() -> Target:
    """Return the description of this CPU that the code generator uses."""
    initialize()
    triple, features = llvm.get_default_triple(), llvm.get_host_cpu_features()
    # All 64-bit ARM CPUs fuse; x86 CPUs say if they do.
    fused = triple.startswith(("aarch64", "arm64")) or bool(features.get("fma"))
    # Only x86 CPUs with all of AVX-512 that masks of every element need have masked access to memory that is fast.
    masks = all(features.get(name) for name in ("avx512f", "avx512bw", "avx512dq", "avx512vl"))
    return replace(CPU, fused=fused, vector_masks=masks)


@cache
def machine(effort: int = 2) -> llvm.TargetMachine:
    """Return LLVM's target machine for the host; `effort` is its optimization level, 0 to 3."""
    name, features = host_cpu()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=effort, reloc="pic", codemodel="small")


@cache
def _linker() -> llvm.LLJIT:
    initialize()
    return llvm.create_lljit_compiler(use_jit_link=True)


class NativeCode:
    """Represent native code loaded into this process; the code is unloaded when this object is deleted.

    Machine code that an earlier process has left in the cache is loaded as it is; else it is made, and left in the
    cache.

    Attributes:
        addresses: Addresses of the exported functions, by name.
        address: Address of the first exported function.
    """

    def __init__(self, generated: KernelCode, effort: int = 2, exports: Sequence[str] = ("launch",)) -> None:
        image = _image(generated, effort)
        try:
            with LOCK:
                library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
                for name in exports:
                    library = library.export_symbol(name)
                self._library = library.link(_linker(), f"kernel.{next(_NUMBERS)}")
            self.addresses: dict[str, int] = {name: self._library[name] for name in exports}
        except RuntimeError as error:
            raise _crashed("the linker refuses the code", error, generated, effort) from error
        self.address = self.addresses[exports[0]]
        note(generated.kernel.name, image, self.addresses)


def _image(generated: KernelCode, effort: int) -> bytes:
    """Return the object file of a module: from the disk cache, or made by LLVM and then stored there."""
    cache = disk_cache.active_cache()
    if cache is None:
        return _emitted(generated, effort)
    key = disk_cache.entry_key(
        "object", disk_cache.package_hash(), _versions(), *host_cpu(), str(effort), generated.key
    )
    # An entry of the cache is the digest of the text, and then the object.
    found = cache.get(key)
    if found is not None:
        generated.expect(found[:_DIGEST])
        return found[_DIGEST:]
    image = _emitted(generated, effort)
    cache.put(key, generated.digest + image)
    return image


_DIGEST = 32


@cache
def _versions() -> str:
    """Return the versions of LLVM and llvmlite, which are part of the cache's key."""
    return f"LLVM {'.'.join(map(str, llvm.llvm_version_info))}, llvmlite {llvmlite.__version__}"


def _emitted(generated: KernelCode, effort: int) -> bytes:
    """Return the object file of a module, made by LLVM."""
    # The text is read before the lock is taken, because the generator may make it now.
    text = generated.text
    try:
        with LOCK:
            image: bytes = machine(effort).emit_object(optimized_module(text, effort))
    except (InvalidLLVMError, RuntimeError) as error:
        raise _crashed("LLVM failed", error, generated, effort) from error
    return image


def _crashed(what: str, error: Exception, generated: KernelCode, effort: int) -> InternalError:
    """Return an InternalError that names a folder with a reproducer of LLVM's failure."""
    name, features = host_cpu()
    texts = {"module.ll": generated.text}
    options, cpu = generated.options, f"{name} {features}"
    return crash_error(
        what, error, {"kernel": generated.kernel}, texts, options=options, effort=effort, cpu=cpu, llvm=_versions()
    )


def optimized_module(text: str, effort: int = 2) -> llvm.ModuleRef:
    """Return the LLVM module of an IR text, optimized at level `effort`; the caller holds LLVM's lock."""
    owner = machine(effort)
    module = parse(text, owner.triple, str(owner.target_data))
    optimize(module, owner, effort)
    return module
