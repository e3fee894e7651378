"""Machine code for the host: target machines, and loaded code that stays while it may be called.

Target machines and the linker are made once and shared, under LLVM's lock: they cost more than a small kernel. Code
is position-independent in the small model, which LLVM selects fastest; the linker reaches far functions by stubs.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count

import llvmlite.binding as llvm

from ..llvm.module import Generated
from ..llvm.optimise import LOCK, initialise, optimise, parse

_NUMBERS = count()
"""Names of libraries: one cannot be used again, even when the library is gone."""


@cache
def host() -> tuple[str, str]:
    """(name, features) of the CPU that runs this process."""
    initialise()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def machine(effort: int = 2) -> llvm.TargetMachine:
    """The target machine for the host, by effort of its code generator."""
    name, features = host()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=effort, reloc="pic", codemodel="small")


@cache
def _linker() -> llvm.LLJIT:
    initialise()
    return llvm.create_lljit_compiler(use_jit_link=True)


class NativeCode:
    """A loaded module. addresses: of what it exports; address: of the first. The code goes away with this object."""

    def __init__(self, generated: Generated, effort: int = 2, exports: Sequence[str] = ("launch",)) -> None:
        with LOCK:
            image = machine(effort).emit_object(optimised(generated, effort))
            library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
            for name in exports:
                library = library.export_symbol(name)
            self._library = library.link(_linker(), f"kernel.{next(_NUMBERS)}")
        self.addresses: dict[str, int] = {name: self._library[name] for name in exports}
        self.address = self.addresses[exports[0]]


def optimised(generated: Generated, effort: int = 2) -> llvm.ModuleRef:
    """The optimised module. The caller holds LLVM's lock."""
    owner = machine(effort)
    module = parse(generated.text, owner.triple, str(owner.target_data))
    optimise(module, owner, effort)
    return module
