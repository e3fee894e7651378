"""Suggest replacements for names that `stackgrad` lacks, such as names of Taichi and Quadrants, or misspelled ones.

Invariant: the hint for a name comes from the first of three places that has one: the table CURES, the modules of the
package, and the names with a similar spelling.
"""

from __future__ import annotations

from importlib import import_module

from . import usage_errors

_PACKAGE = __name__.partition(".")[0]
_SEARCHED = ("ad", "math", "types", "linalg", "capture")
"""Modules of the package whose names programs expect at the top."""

_ARRAY = "annotate with sg.types.ndarray(dtype, ndim)"
_BOTH = "remove it: a function decorated with sg.func runs in kernels and in Python, and need not ask where it runs"
_LOG = "remove it: the runtime keeps no log; print, or see sg.profile()"
_PROFILE = "use sg.profile(), a context manager whose result has the times"
_WINDOW = "copy with to_numpy() and show or store it with another package"
_ARCH = "choose sg.cpu, sg.cuda, sg.vulkan or sg.reference"
_OPTION = "give it to sg.init(...)"
_LOOP = "use sg.loop_config(serialize=True) before the loop"
_INTERNAL = "remove it: it reaches into another compiler"
_SUPPORT = "remove it: docs/support.md says what each backend supports, and `stackgrad doctor` what can run here"
_MESH = "keep vertices in fields and the connectivity in integer fields, and loop"
_PYTHON = "write Python's operator: "

_ERRORS = {
    "CompilationError": "StackgradError",
    "RuntimeError": "StackgradError",
    "RuntimeTypeError": "CallError",
    "TypeError": "KernelTypeError",
    "SyntaxError": "KernelSyntaxError",
    "NameError": "KernelNameError",
    "IndexError": "KernelIndexError",
    "AssertionError": "KernelAssertionError",
}

CURES: dict[str, str] = {
    "complex_kernel": "decorate with sg.ad.grad_replaced",
    "complex_kernel_grad": "decorate with sg.ad.grad_for(function)",
    "nograd": "decorate with sg.ad.no_grad",
    "clear_gradients": "use sg.ad.clear_all_gradients()",
    **dict.fromkeys(("ext_arr", "any_arr", "external_arr", "any_array"), _ARRAY),
    **dict.fromkeys(("inside_kernel", "python_scope", "kernel_scope", "taichi_scope", "quadrants_scope"), _BOTH),
    "var": "use sg.field(dtype, shape)",
    "Var": "use sg.field(dtype, shape)",
    "global_var": "use sg.field(dtype, shape)",
    "layout": "call the function that places the fields before the first kernel, without the decorator",
    "set_default_fp": "use sg.init(default_fp=sg.f64)",
    "sqr": "write x ** 2",
    "transposed": "write m.transpose()",
    "outer_product": "write a.outer_product(b)",
    "SNode": "use sg.root",
    "argpack": "give a Python dataclass of arrays and numbers as argument",
    "ArgPack": "give a Python dataclass of arrays and numbers as argument",
    "AOS": "use sg.Layout.AOS",
    "SOA": "use sg.Layout.SOA",
    **dict.fromkeys(("set_logging_level", "set_log_level", "is_logging_effective", "warning", "info", "warn"), _LOG),
    **dict.fromkeys(("debug", "trace", "error", "critical"), _LOG),
    **dict.fromkeys(
        ("profiler", "kernel_profiler", "print_kernel_profile_info", "clear_kernel_profile_info"), _PROFILE
    ),
    **dict.fromkeys(("kernel_profiler_print", "kernel_profiler_clear", "print_memory_profile_info"), _PROFILE),
    **dict.fromkeys(("query_kernel_profile_info", "get_kernel_stats", "profiler_print"), _PROFILE),
    **dict.fromkeys(("tools", "imshow", "imread", "imwrite", "imresize", "imdisplay", "VideoManager"), _WINDOW),
    **dict.fromkeys(("PLYWriter", "hex_to_rgb", "rgb_to_hex", "rw_texture", "TextureArg", "Format", "GGUI"), _WINDOW),
    **dict.fromkeys(("opengl", "gles", "dx11", "dx12", "cc", "wasm", "js", "arch"), _ARCH),
    "metal": "choose sg.cpu or sg.vulkan: kernels are translated for Metal but not launched there (docs/metal.md)",
    "amdgpu": "choose sg.vulkan, which runs on GPUs of AMD",
    "cfg": _OPTION,
    "default_cfg": _OPTION,
    "init_cfg": _OPTION,
    **dict.fromkeys(("parallelize", "block_dim", "bit_vectorize"), "give it to sg.loop_config(...) before the loop"),
    **dict.fromkeys(("serialize", "strictly_serialize"), _LOOP),
    **dict.fromkeys(("core", "impl", "misc", "expr_init", "Expr", "Expression", "get_runtime", "_lib"), _INTERNAL),
    **dict.fromkeys(("extension", "is_extension_supported", "is_extension_enabled", "is_arch_supported"), _SUPPORT),
    **dict.fromkeys(("async_flush", "async_engine"), "remove it: launches are not waited for; sg.sync() waits"),
    **dict.fromkeys(("mesh", "Patch", "MeshElementField"), _MESH),
    "experimental": "decorate functions with sg.func",
    "static_range": "write sg.static(range(n))",
    "randint": "write int(sg.random() * n)",
    "unit_vector": "write sg.Vector.unit(n, i)",
    **{f"{peer}{name}": f"catch sg.{error}" for peer in ("Taichi", "Quadrants") for name, error in _ERRORS.items()},
    "add": f"{_PYTHON}x + y",
    "sub": f"{_PYTHON}x - y",
    "mul": f"{_PYTHON}x * y",
    "truediv": f"{_PYTHON}x / y",
    "floordiv": f"{_PYTHON}x // y",
    "neg": f"{_PYTHON}-x",
    "bit_and": f"{_PYTHON}x & y",
    "bit_or": f"{_PYTHON}x | y",
    "bit_xor": f"{_PYTHON}x ^ y",
    "bit_not": f"{_PYTHON}~x",
    "bit_shl": f"{_PYTHON}x << y",
    "bit_sar": f"{_PYTHON}x >> y",
    "logical_and": f"{_PYTHON}x and y",
    "logical_or": f"{_PYTHON}x or y",
    "logical_not": f"{_PYTHON}not x",
    **dict.fromkeys(("sum", "any", "all", "len", "range", "print", "int", "float", "bool"), "use that of Python"),
    "ceil_div": "write (x + y - 1) // y",
    "sinh": "write (sg.exp(x) - sg.exp(-x)) / 2.0",
    "cosh": "write (sg.exp(x) + sg.exp(-x)) / 2.0",
    "asinh": "write sg.log(x + sg.sqrt(x * x + 1.0))",
    "acosh": "write sg.log(x + sg.sqrt(x * x - 1.0))",
    "atanh": "write 0.5 * sg.log((1.0 + x) / (1.0 - x))",
    "atan": "write sg.atan2(x, 1.0)",
    "log10": "write sg.log(x) / 2.302585092994046",
    "exp2": "write 2.0 ** x",
    "cbrt": "write sg.sgn(x) * abs(x) ** (1.0 / 3.0)",
    "hypot": "write sg.sqrt(x * x + y * y)",
}
"""What to write for names that programs of Taichi, of Quadrants and of their older versions use."""


def cure_of(name: str, names: list[str]) -> str:
    """Return a hint for a name that the package lacks, or an empty string if there is no similar name.

    Args:
        name: The name that was asked for.
        names: The public names of the package.
    """
    if name in CURES:
        return f"cure: {CURES[name]}"
    inside = {public: f"sg.{path}" for public, path in _inside().items()}
    if name in inside:
        return f"cure: use {inside[name]}"
    return usage_errors.close_names(name, {**inside, **{public: f"sg.{public}" for public in names}})


def _inside() -> dict[str, str]:
    """Return the path within the package, such as `ad.Tape`, of each public name of its modules."""
    found: dict[str, str] = {}
    # Names of an earlier module hide equal ones of a later module, as `ad` is asked for more often.
    for module in reversed(_SEARCHED):
        public = import_module(f".{module}", _PACKAGE).__all__
        found.update((name, f"{module}.{name}") for name in public)
    return found
