# ruff: noqa: B007, B018, E731, F401, F841, PLW0603, SIM115, UP028 - the programs do what the language refuses
"""Define programs whose kernels use names, or use them in ways, that the language refuses."""

from __future__ import annotations

import stackgrad as sg
from refused_support import refused

_GPU = "addresses the threads of a GPU block, which kernels here do not see"


@refused(sg.Unsupported, f"`sg.simt.block.sync` {_GPU}", "atomic and differentiable")
def barrier() -> None:
    x = sg.field(sg.f32, 64)

    @sg.kernel
    def k():
        for i in x:
            x[i] = 1.0
            sg.simt.block.sync()  # here

    k()


@refused(sg.Unsupported, f"`sg.simt.subgroup.shuffle` {_GPU}", "write the loop over elements")
def shuffle() -> None:
    x = sg.field(sg.f32, 64)

    @sg.kernel
    def k():
        for i in x:
            x[i] = sg.simt.subgroup.shuffle(x[i], 0)  # here

    k()


@refused(sg.Unsupported, f"`sg.simt.subgroup.invocation_id` {_GPU}", "write the loop over elements")
def lane() -> None:
    x = sg.field(sg.i32, 64)

    @sg.kernel
    def k():
        for i in x:
            x[i] = sg.simt.subgroup.invocation_id()  # here

    k()


@refused(sg.Unsupported, f"`sg.simt.warp.sync` {_GPU}", "reduce")
def warp() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            sg.simt.warp.sync(0xFFFFFFFF)  # here

    k()


@refused(sg.Unsupported, f"`sg.simt.grid.mem_fence` {_GPU}", "reduce")
def fence() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            sg.simt.grid.mem_fence()  # here

    k()


@refused(
    sg.Unsupported,
    "`sg.simt.block.SharedArray` is memory shared by a GPU block, which kernels here do not see",
    "a loop of its own",
)
def shared_array() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            pad = sg.simt.block.SharedArray((64,), sg.f32)  # here

    k()


@refused(
    sg.Unsupported,
    "`sg.simt.Tile16x16.zeros` multiplies tiles with the matrix units of a GPU, which kernels here do not address",
    "loops over elements",
)
def tile() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            sg.simt.Tile16x16.zeros(sg.f32)  # here

    k()


@refused(sg.Unsupported, "`sg.append`: sparse fields are not supported: every element of a field exists", "dense field")
def append() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        for i in range(4):
            sg.append(x, [], i)  # here

    k()


@refused(sg.Unsupported, "`sg.is_active`: sparse fields are not supported: every element of a field exists", "flags")
def is_active() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        for i in range(4):
            if sg.is_active(x, i):  # here
                x[i] = 1.0

    k()


@refused(sg.Unsupported, "`sg.deactivate`: sparse fields are not supported: every element of a field exists", "flags")
def deactivate() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        for i in range(4):
            sg.deactivate(x, i)  # here

    k()


@refused(
    sg.Unsupported, "`sg.length`: sparse fields are not supported: every element of a field exists", "integer field"
)
def dynamic_length() -> None:
    x, n = sg.field(sg.f32, 8), sg.field(sg.i32, ())

    @sg.kernel
    def k():
        n[None] = sg.length(x, 0)  # here

    k()


@refused(sg.Unsupported, "`sg.mesh_patch_idx`: meshes are not supported", "connectivity")
def patch() -> None:
    x = sg.field(sg.i32, 8)

    @sg.kernel
    def k():
        for i in x:
            x[i] = sg.mesh_patch_idx()  # here

    k()


@refused(sg.KernelSyntaxError, "`a` is an argument of the kernel and cannot be assigned", "copy it to a new local")
def assigned_argument() -> None:
    @sg.kernel
    def k(a: sg.f32):
        a = 2.0  # here

    k(1.0)


@refused(sg.NotDifferentiable, "the gradient of an atomic exchange needs the values it overwrote in 'y'", "sg.ad.Tape")
def gradient_of_an_exchange() -> None:
    x, y = sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            sg.atomic_exchange(y[None], x[i])  # here

    k.grad()


@refused(sg.NotDifferentiable, "the gradient of an atomic mul needs the values it overwrote in 'y'", "sg.ad.Tape")
def gradient_of_an_atomic_product() -> None:
    x, y = sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            sg.atomic_mul(y[None], x[i])  # here
            x[i] = y[None]

    k.grad()
