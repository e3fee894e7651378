"""List the peers' names that raise an error when a program uses them, each with what to write instead."""

from __future__ import annotations

from ..compiler.frontend.refused_names import NAMES, Refusal, RefusedName

_SPARSE = NAMES["activate"]
_MESH = NAMES["Mesh"]
_WINDOW = NAMES["GUI"]
_DEPLOY = NAMES["aot"]
_LINEAR = NAMES["linalg.SparseMatrix"]
_GPU = NAMES["simt"]
_QUANTIZED = NAMES["quant"]
_FUNCTION = NAMES["real_func"]

_PACK = Refusal("`{name}`: packs of arguments are not supported", "pass a Python dataclass of arrays and numbers")
_CLOCK = Refusal("`{name}`: kernels have no clock", "take a profile with `sg.profile()`, which has the times")
_RESUMED = Refusal("`{name}`: graphs that end early and are resumed are not supported", "loop on the host")
_PARALLEL = Refusal(
    "`{name}`: kernels launch one task after the other", "launch independent kernels on streams, `sg.create_stream()`"
)
_VIDEO = Refusal("`{name}`: videos are not made here", "store images with `tools.imwrite`, and join them with ffmpeg")
_MODEL = Refusal("`{name}`: this file format is not written here", "write `to_numpy()` arrays with meshio or plyfile")
_METAL = Refusal("`{name}`: kernels do not run on Metal", "use `sg.cpu`, or `sg.vulkan` on other machines")
_METRIC = Refusal("`{name}`: counters of the hardware are not read", "take a profile with `sg.profile()`")
_ITERATIVE = Refusal(
    "`{name}`: iterative solvers on the host are not there", "use `scipy.sparse.linalg` on `to_numpy()` arrays"
)
_RECORDED = Refusal("`{name}`: graphs are not built by hand", "record launches with `sg.graph(function)`")
_DUMPED = Refusal("`{name}`: there is no such file", "set STACKGRAD_DUMP_IR=DIR to see what is compiled")
_INTERNAL = Refusal("`{name}` is a part of another compiler", "remove it: what programs ask of it is not needed here")

REFUSED: dict[str, Refusal] = {
    **{name: row for name, row in NAMES.items() if name not in ("lang", "tools.image")},
    "ArgPack": _PACK,
    "argpack": _PACK,
    "types.argpack": _PACK,
    "BitpackedFields": _QUANTIZED,
    "DeviceCapability": _DEPLOY,
    "Format": _WINDOW,
    "GraphStatus": _RESUMED,
    "checkpoint": _RESUMED,
    "Arg": _RECORDED,
    "ArgKind": _RECORDED,
    "graph": _RECORDED,
    "graph_parallel": _PARALLEL,
    "graph_parallel_context": _PARALLEL,
    "stream_parallel": _PARALLEL,
    "clock_counter": _CLOCK,
    "clock_freq_hz": _CLOCK,
    "dump_compile_config": _DUMPED,
    "experimental": _FUNCTION,
    "block": _GPU,
    "lang.simt": _GPU,
    "lang.mesh": _MESH,
    "interop": _METAL,
    "linalg.LinearOperator": _ITERATIVE,
    "linalg.MatrixFreeBICGSTAB": _ITERATIVE,
    "linalg.MatrixFreeCG": _ITERATIVE,
    "linalg.SparseCG": _ITERATIVE,
    "linalg.matrixfree_cg": _ITERATIVE,
    "linalg.sparse_cg": _ITERATIVE,
    "linalg.sparse_matrix": _LINEAR,
    "linalg.sparse_solver": _LINEAR,
    "profiler.CuptiMetric": _METRIC,
    "profiler.collect_kernel_profiler_metrics": _METRIC,
    "profiler.get_predefined_cupti_metrics": _METRIC,
    "profiler.set_kernel_profiler_metrics": _METRIC,
    "profiler.kernel_metrics": _METRIC,
    "ref": _FUNCTION,
    "sparse": _SPARSE,
    "sparse_matrix_builder": _LINEAR,
    "SparseMatrixEntry": _LINEAR,
    "tools.PLYWriter": _MODEL,
    "tools.np2ply": _MODEL,
    "tools.vtk": _MODEL,
    "tools.write_vtk": _MODEL,
    "tools.VideoManager": _VIDEO,
    "tools.video": _VIDEO,
    "tools.imshow": _WINDOW,
    "types.quant": _QUANTIZED,
    "types.ref": _FUNCTION,
    "types.rw_texture": _WINDOW,
    "types.texture": _WINDOW,
    "types.texture_type": _WINDOW,
    "types.sparse_matrix_builder": _LINEAR,
    "lang._texture": _WINDOW,
    "lang.ast": _INTERNAL,
    "lang.expr": _INTERNAL,
    "lang.impl.call_internal": _INTERNAL,
    "ui": _WINDOW,
}
"""Names by their path below the peer; a row also covers the names below it."""


def refusal_at(path: str) -> Refusal | None:
    """Return the refusal of a dotted name of a peer, or of its longest refused prefix; None if there is none."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        found = REFUSED.get(".".join(parts[:length]))
        if found is not None:
            return found
    return None


class RefusedPeerName(RefusedName):
    """Represent a name of a peer that stackgrad refuses; its attributes are refused names, too."""

    def __init__(self, name: str, row: Refusal | None) -> None:
        assert row is not None, name
        self._name = name
        self._found = row
        self.__name__ = name

    @property
    def reason(self) -> str:
        """Return the cause of the refusal, with the name that the program uses."""
        return self._found.message(self._name)

    @property
    def _row(self) -> Refusal:
        return self._found

    def __getattr__(self, attribute: str) -> RefusedPeerName:
        if attribute.startswith(("_", "is_stackgrad", "stackgrad_")):
            raise AttributeError(attribute)
        return RefusedPeerName(f"{self._name}.{attribute}", self._found)

    def __repr__(self) -> str:
        return f"<refused {self._name}>"
