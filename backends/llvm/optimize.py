"""This module parses, verifies and optimizes LLVM IR text and emits assembly from it.

A refusal by LLVM is a defect of the generator; `InvalidLLVMError` carries LLVM's message.
"""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from ...compiler.errors import InternalError


class InvalidLLVMError(InternalError):
    """Signal that LLVM cannot read the generated code, or that its verifier finds a mistake in it."""


MASKED = "masked."
"""Prefix of the names of functions of masked code."""


@cache
def initialize() -> None:
    """Initialize all targets and assembly printers of LLVM. Only the first call in a process has an effect."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


def parse(text: str, triple: str, data_layout: str) -> llvm.ModuleRef:
    """Parse and verify LLVM IR text for a target, and return the module.

    Args:
        text: LLVM IR of the module.
        triple: Target triple.
        data_layout: Data layout of the target. The parser must know it, because it chooses alignments by the layout.

    Raises:
        InvalidLLVMError: LLVM cannot read the text, or its verifier finds a mistake.
    """
    initialize()
    head = f'target triple = "{triple}"\ntarget datalayout = "{data_layout}"\n'
    try:
        module = llvm.parse_assembly(head + text)
        module.verify()
    except RuntimeError as error:
        raise InvalidLLVMError(f"LLVM refuses the generated code: {error}") from None
    return module


def optimize(module: llvm.ModuleRef, machine: llvm.TargetMachine, effort: int = 2) -> None:
    """Run LLVM's standard pipeline on a module without its vectorizers. Run no pass if `effort` is 0.

    Masked code is made of vectors already and gets few passes: more of them take longer than the rest of its
    compilation and make it no faster. Nor are loops vectorized: see `_optimize_masked` for what that leads to.
    """
    if effort == 0:
        return
    if any(f.name.startswith(MASKED) and not f.is_declaration for f in module.functions):
        _optimize_masked(module, machine)
        return
    options = llvm.create_pipeline_tuning_options(speed_level=effort)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    # Functions that are always inlined go first: the pipeline would work on them, and again where it has put them.
    inliner = llvm.create_new_module_pass_manager()
    inliner.add_always_inliner_pass()
    inliner.run(module, builder)
    builder.getModulePassManager().run(module, builder)


def _optimize_masked(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Run the few passes for masked code: always-inline, SROA, dead-code elimination and CFG simplification.

    Instructions are not combined: LLVM 22 would make a masked load whose result is selected by the same mask into one
    that stands at the select, after stores that have changed the memory meanwhile.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_aggressive_dce_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
