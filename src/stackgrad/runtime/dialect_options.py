"""List the options of Taichi and Quadrants that programs pass to `init`, each with its meaning in this runtime.

The tables contain all options of Quadrants and Taichi that `init` does not have under the same name and meaning.
Options in EFFECTIVE change what the runtime does. Any other option with a value that differs from its default is noted
in the log once.
"""

from __future__ import annotations

from typing import Any

_FIXED = "the pipeline is fixed"
_DUMP = "set STACKGRAD_DUMP_IR=DIR instead"
_MESHES = "there are no meshes"
_CHOSEN = "the backend chooses"
_GROWING = "memory is allocated as it is needed"
_CACHE = "the folder of compiled code keeps to its own limit"

EFFECTIVE: dict[str, str] = {
    "check_out_of_bound": "True is the same as debug=True",
    "cpu_max_num_threads": "at most so many threads for a launch, and no more than there are cores for the process",
    "enable_fallback": "True: where the arch cannot run, the CPU does, and a warning says so",
    "fast_math": "False is the same as precise=True",
    "offline_cache": "False: what was compiled is not kept on disk for the next process",
    "offline_cache_file_path": "the folder where it is kept",
}

IGNORED: dict[str, str] = {
    "ad_stack_experimental_enabled": "adstacks are always on",
    "ad_stack_size": "depths are counted before each launch, never guessed",
    "ad_stack_sparse_threshold_bytes": "rows are always claimed behind the gate",
    "advanced_optimization": _FIXED,
    "allow_nv_shader_extension": "extensions are used where the driver has them",
    "auto_mesh_local_default_occupacy": _MESHES,
    "cache_loop_invariant_global_vars": _FIXED,
    "cfg_optimization": _FIXED,
    "cpu_block_dim_adaptive": _CHOSEN,
    "cuda_stack_limit": "history lives on the heap, and locals in registers",
    "debug_dump_path": _DUMP,
    "default_cpu_block_dim": _CHOSEN,
    "default_gpu_block_dim": _CHOSEN,
    "default_up": "numbers without a type are signed",
    "demote_dense_struct_fors": _FIXED,
    "demote_no_access_mesh_fors": _MESHES,
    "detect_read_only": _FIXED,
    "device_memory_GB": _GROWING,
    "device_memory_fraction": _GROWING,
    "experimental_auto_mesh_local": _MESHES,
    "external_metal_command_queue": "kernels do not run on Metal",
    "external_metal_command_queue_is_torch_queue": "kernels do not run on Metal",
    "flatten_if": _FIXED,
    "force_scalarize_matrix": "vectors are always scalars",
    "gdb_trigger": "debug_info=True puts the program's lines into machine code, for debuggers",
    "gpu_max_reg": _CHOSEN,
    "half2_vectorization": _FIXED,
    "kernel_profiler": "sg.profile() takes a profile of any part of a program",
    "log_level": "the runtime logs by Python's `logging`, under the name stackgrad",
    "lower_access": _FIXED,
    "make_block_local": _FIXED,
    "make_cpu_multithreading_loop": _FIXED,
    "make_mesh_block_local": _MESHES,
    "make_thread_local": _FIXED,
    "max_block_dim": _CHOSEN,
    "mesh_localize_all_attr_mappings": _MESHES,
    "mesh_localize_from_end_mapping": _MESHES,
    "mesh_localize_to_end_mapping": _MESHES,
    "move_loop_invariant_outside_if": _FIXED,
    "num_compile_threads": "a kernel is compiled by the thread that launches it",
    "offline_cache_cleaning_factor": _CACHE,
    "offline_cache_cleaning_policy": _CACHE,
    "offline_cache_max_size_of_files": _CACHE,
    "opt_level": _FIXED,
    "optimize_mesh_reordered_mapping": _MESHES,
    "print_accessor_ir": _DUMP,
    "print_full_traceback": "errors show the line of the kernel; Python shows the rest",
    "print_ir": _DUMP,
    "print_ir_dbg_info": _DUMP,
    "print_kernel_amdgcn": _DUMP,
    "print_kernel_asm": _DUMP,
    "print_kernel_llvm_ir": _DUMP,
    "print_kernel_llvm_ir_optimized": _DUMP,
    "print_non_pure": "what a kernel reads of Python is always recorded and compared",
    "print_preprocessed_ir": _DUMP,
    "print_struct_llvm_ir": _DUMP,
    "quant_opt_atomic_demotion": "there are no quantized types",
    "quant_opt_store_fusion": "there are no quantized types",
    "raise_on_templated_floats": "a float that is known at compile time is compared before each launch",
    "real_matrix_scalarize": "vectors are always scalars",
    "require_version": "versions of other systems say nothing about this one",
    "saturating_grid_dim": _CHOSEN,
    "short_circuit_operators": "`and` and `or` always short-circuit",
    "simplify_after_lower_access": _FIXED,
    "simplify_before_lower_access": _FIXED,
    "src_ll_cache": "offline_cache decides what is kept on disk",
    "timeline": "sg.profile() takes a profile of any part of a program",
    "unrolling_limit": "static loops are unrolled; what would take minutes to compile is refused",
    "use_llvm": "each arch has one backend",
    "validate_autodiff": "what a gradient reads is checked when it is compiled, and saved by a tape",
    "verbose": "the runtime does not print",
    "verbose_kernel_launches": "sg.profile() lists the launches of any part of a program",
    "vk_api_version": "the driver's version is used",
    "_test_mode": "there is no such mode",
}

OPTIONS: dict[str, str] = {**EFFECTIVE, **IGNORED}
"""All options of the dialect, with the meaning of each."""


def note_ignored(given: dict[str, Any]) -> None:
    """Write one line to the log for each given option that has no effect in this runtime."""
    ignored = [name for name in given if name in IGNORED]
    if not ignored:
        return
    import logging  # takes 2 ms, which programs without such options need not spend

    for name in ignored:
        logging.getLogger("stackgrad").info("init: %s has no effect: %s", name, IGNORED[name])
