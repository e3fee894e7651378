# ruff: noqa: B007, B018, E731, F401, F841, PLW0603, SIM115, UP028 - the programs do what the language refuses
"""Define programs whose kernels use names, or use them in ways, that the language refuses."""

from __future__ import annotations

import stackgrad as sg
from refused_support import refused

_ABSENT = "is not there: `sg.simt` has blocks, shared arrays, barriers, and subgroups of 32 lanes"
_PARTED = "{} stands where iterations of one block may part: {}"
_TRIPS = "the number of trips of a loop around it may differ between them"
_ALONE = "stands in no parallel loop, so there is no block"


@refused(sg.Unsupported, f"`sg.simt.subgroup.segmented_reduce_add` {_ABSENT}", "sg.simt.subgroup.shuffle")
def segmented() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            sg.simt.subgroup.segmented_reduce_add(i, i)  # here

    k()


@refused(sg.KernelSyntaxError, f"`sg.simt.block.sync` {_ALONE}", "outermost loop")
def barrier_outside() -> None:
    @sg.kernel
    def k():
        sg.simt.block.sync()  # here

    k()


@refused(sg.KernelSyntaxError, f"`sg.simt.subgroup.shuffle` {_ALONE}", "serialize=True")
def shuffle_in_a_serial_loop() -> None:
    @sg.kernel
    def k():
        sg.loop_config(serialize=True)
        for i in range(4):
            sg.simt.subgroup.shuffle(i, 0)  # here

    k()


@refused(
    sg.Unsupported,
    _PARTED.format("a barrier of the block", "a condition around it may differ between them"),
    "sg.select",
)
def barrier_in_a_branch() -> None:
    sg.init(arch="cpu")

    @sg.kernel
    def k():
        for i in range(64):
            if i % 3 == 0:
                sg.simt.block.sync()  # here

    k()


@refused(sg.Unsupported, _PARTED.format("`reduce_add` of a subgroup", _TRIPS), "loop")
def reduction_in_a_loop() -> None:
    sg.init(arch="cpu")
    x = sg.field(sg.f32, 64)

    @sg.kernel
    def k():
        for i in x:
            for j in range(i):
                x[i] += sg.simt.subgroup.reduce_add(1.0)  # here

    k()


@refused(sg.KernelSyntaxError, "a shared array is made in a branch or loop", "head of the parallel loop")
def shared_array_in_a_branch() -> None:
    x = sg.field(sg.f32, 64)

    @sg.kernel
    def k():
        for i in x:
            if i > 2:
                pad = sg.simt.block.SharedArray((64,), sg.f32)  # here
                x[i] = pad[0]

    k()


@refused(
    sg.KernelTypeError,
    "the shape of a shared array is known at compile time and positive; this is a tuple",
    "SharedArray((64,)",
)
def shape_of_a_shared_array() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            pad = sg.simt.block.SharedArray((i,), sg.f32)  # here

    k()


@refused(sg.KernelTypeError, "a shared array of 4194304 elements is too large", "1048576")
def large_shared_array() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            pad = sg.simt.block.SharedArray((2048, 2048), sg.f32)  # here

    k()


@refused(sg.KernelIndexError, "the shared array has 2 axes, but is indexed with 1", "one index for each axis")
def axes_of_a_shared_array() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            pad = sg.simt.block.SharedArray((4, 4), sg.f32)
            pad[i] = 1.0  # here

    k()


@refused(sg.KernelIndexError, "the index 4 is outside of axis 0, whose extent is 4", "from 0 to 3")
def index_of_a_shared_array() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            pad = sg.simt.block.SharedArray(4, sg.f32)
            pad[4] = 1.0  # here

    k()


@refused(sg.KernelSyntaxError, "`pad` has a value already, and shared arrays are not stored", "another name")
def name_of_a_shared_array() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            pad = 1.0
            pad = sg.simt.block.SharedArray(4, sg.f32)  # here

    k()


@refused(sg.KernelTypeError, "the block size 4096 of this loop is no number from 1 to 1024", "block_dim=128")
def block_size() -> None:
    @sg.kernel
    def k():
        sg.loop_config(block_dim=4096)
        for i in range(4):
            sg.simt.block.sync()  # here

    k()


@refused(sg.KernelTypeError, "`sg.simt.subgroup.reduce_and` does not take values of type f32", "integers")
def type_of_a_reduction() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            sg.simt.subgroup.reduce_and(1.5)  # here

    k()


@refused(sg.KernelTypeError, "the number of a lane is an integer, not f32", "int(...)")
def lane_of_a_shuffle() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            sg.simt.subgroup.shuffle(i, 0.5)  # here

    k()


@refused(sg.KernelTypeError, "`log2_size` is a number from 0 to 5 that is known at compile time", "logarithm")
def size_of_a_group() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            sg.simt.subgroup.reduce_add_tiled(1.0, i)  # here

    k()


@refused(
    sg.KernelSyntaxError,
    "the mask of a warp function names all lanes here: those without an iteration do not count anyway",
    "0xFFFFFFFF",
)
def mask_of_a_warp() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            sg.simt.warp.sync(15)  # here

    k()


@refused(sg.Unsupported, "random numbers are not drawn in a loop that uses blocks", "a loop of their own")
def draw_in_a_block() -> None:
    x = sg.field(sg.f32, 4)

    @sg.kernel
    def k():
        for i in x:
            x[i] = sg.random() + sg.simt.subgroup.reduce_add(1.0)  # here

    k()


@refused(
    sg.KernelSyntaxError, "a loop that uses blocks stores to a local that is declared outside it", "inside the loop"
)
def carried_local_of_blocks() -> None:
    @sg.kernel
    def k():
        last = 0
        for i in range(4):  # here
            last = sg.simt.subgroup.reduce_max(i)

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
