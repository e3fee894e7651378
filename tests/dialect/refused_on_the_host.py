# ruff: noqa: B007, B018, E731, F401, F841, PLW0603, SIM115, UP028 - the programs do what the language refuses
"""Define programs that use refused names outside of kernels."""

from __future__ import annotations

import stackgrad as sg
from refused_support import refused


@refused(
    sg.Unsupported,
    "`sg.real_func`: functions that are not inlined are not supported: they would have no derivative",
    "@sg.func",
)
def real_function() -> None:
    @sg.real_func  # here
    def f(x: sg.f32) -> sg.f32:
        return x


@refused(sg.KernelSyntaxError, "`sg.simt.block.SharedArray` works inside kernels only", "a parallel loop")
def shared_array_on_the_host() -> None:
    sg.simt.block.SharedArray((64,), sg.f32)  # here


@refused(sg.Unsupported, "`sg.Mesh.load`: meshes are not supported", "connectivity")
def mesh() -> None:
    sg.Mesh.load("bunny.obj")  # here


@refused(sg.Unsupported, "`sg.TetMesh`: meshes are not supported", "integer fields")
def tetrahedra() -> None:
    sg.TetMesh()  # here


@refused(
    sg.Unsupported, "a launch on a stream is not differentiated: tapes and gradients run launches in order", "leave out"
)
def stream_under_a_tape() -> None:
    x = sg.field(sg.f32, (), needs_grad=True)

    @sg.kernel
    def k():
        x[None] = 1.0

    with sg.ad.Tape(x):
        k(qd_stream=sg.create_stream())  # here


@refused(
    sg.Unsupported, "a launch on a stream is not differentiated: tapes and gradients run launches in order", "leave out"
)
def gradient_on_a_stream() -> None:
    x = sg.field(sg.f32, (), needs_grad=True)

    @sg.kernel
    def k():
        x[None] = 1.0

    k.grad(qd_stream=sg.create_stream())  # here


@refused(sg.Unsupported, "`sg.GUI`: windows, textures and drawing are not supported", "to_numpy")
def window() -> None:
    sg.GUI("title", (320, 240))  # here


@refused(sg.Unsupported, "`sg.ui.Window`: windows, textures and drawing are not supported", "to_numpy")
def vulkan_window() -> None:
    sg.ui.Window("title", (320, 240))  # here


@refused(sg.Unsupported, "`sg.aot.Module`: modules compiled ahead of time are not supported", "when the program runs")
def ahead_of_time() -> None:
    sg.aot.Module(sg.cpu)  # here


@refused(sg.Unsupported, "`sg.quant.int`: quantized types are not supported: every element is a whole scalar", "sg.i8")
def quantized() -> None:
    sg.quant.int(5, True)  # here


@refused(
    sg.Unsupported, "`sg.BitpackedFields`: quantized types are not supported: every element is a whole scalar", "sg.f16"
)
def bit_packed() -> None:
    sg.BitpackedFields(max_num_bits=32)  # here


@refused(sg.Unsupported, "`sg.lang.impl.get_runtime` reaches into another compiler", "remove it")
def foreign_internals() -> None:
    sg.lang.impl.get_runtime()  # here


@refused(
    sg.Unsupported, "`sg.root.pointer`: sparse fields are not supported: every element of a field exists", "dense field"
)
def sparse_node() -> None:
    x = sg.field(sg.f32)
    sg.root.pointer(sg.ij, (4, 4)).place(x)  # here


@refused(
    sg.Unsupported,
    "`sg.root.dynamic`: sparse fields are not supported: every element of a field exists",
    "integer field of indices",
)
def dynamic_node() -> None:
    sg.root.dynamic(sg.i, 1024)  # here


@refused(
    sg.Unsupported,
    "`sg.types.quant.fixed`: quantized types are not supported: every element is a whole scalar",
    "sg.f16",
)
def quantized_type() -> None:
    sg.types.quant.fixed(16, True)  # here


@refused(sg.Unsupported, "`sg.linalg.SparseMatrixBuilder`: sparse linear algebra on the host is not supported", "scipy")
def sparse_matrix() -> None:
    sg.linalg.SparseMatrixBuilder(4, 4)  # here
