"""Machine code for the host: the target machine, and a compiled module that stays alive while it may be called."""
from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from ..llvm.module import Generated
from ..llvm.optimise import LOCK, initialise, optimise, parse


@cache
def host() -> tuple[str, str]:
    """(name, features) of the CPU that runs this process."""
    initialise()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def machine(jit: bool = True, effort: int = 2) -> llvm.TargetMachine:
    """A target machine for the host. Not shared: an execution engine takes it over."""
    name, features = host()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=effort, jit=jit)


class NativeCode:
    """A loaded module. address: of `launch`. The code goes away with this object."""

    def __init__(self, generated: Generated, effort: int = 2) -> None:
        with LOCK:
            owner = machine(effort=effort)
            module = parse(generated.text, owner.triple, str(owner.target_data))
            optimise(module, owner, effort)
            self._engine = llvm.create_mcjit_compiler(module, owner)
            self._engine.finalize_object()
            self.address: int = self._engine.get_function_address("launch")


def optimised(generated: Generated, jit: bool = True) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """The optimised module and its machine, for reading."""
    with LOCK:
        owner = machine(jit)
        module = parse(generated.text, owner.triple, str(owner.target_data))
        optimise(module, owner)
        return module, owner
