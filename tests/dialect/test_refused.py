# ruff: noqa: B007, B018, E731, F401, F841, PLW0603, SIM115, UP028 - the programs do what the language refuses
"""Programs that use what the language refuses: one message each, at the marked line, that says what, why and what else.

Every program is a function of the host; the line with the mark `# here` is where its error points.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import stackgrad as sg
from stackgrad.compiler.errors import LocatedError
from stackgrad.compiler.frontend.refused import NAMES, Refused

Program = Callable[[], object]
PROGRAMS: list[pytest.param] = []


def refused(kind: type[LocatedError], reason: str, cure: str) -> Callable[[Program], Program]:
    """Register a program with the error it gets: class, whole reason, part of the cure."""

    def register(program: Program) -> Program:
        PROGRAMS.append(pytest.param(program, kind, reason, cure, id=program.__name__))
        return program

    return register


@pytest.fixture(autouse=True)
def runtime() -> None:
    sg.init(arch="reference")


@pytest.mark.parametrize(("program", "kind", "reason", "cure"), PROGRAMS)
def test_refused(program: Program, kind: type[LocatedError], reason: str, cure: str) -> None:
    """One error of the class, its first line `file:line:column: reason`, and the cure under it."""
    lines, first = inspect.getsourcelines(program)
    (line,) = (first + i for i, text in enumerate(lines) if "# here" in text)
    with pytest.raises(LocatedError) as caught:
        program()
    assert type(caught.value) is kind
    assert len(caught.value.diagnostics) == 1
    span = caught.value.diagnostics[0].span
    assert span is not None
    rendered = str(caught.value).splitlines()
    assert rendered[0] == f"{__file__}:{line}:{span.column + 1}: {reason}"
    assert rendered[2].strip().strip("^") == "" and rendered[2].strip()
    assert cure in rendered[-1] and rendered[-1].startswith("    cure: ")


def test_there_are_thirty_programs() -> None:
    assert len(PROGRAMS) >= 30


def test_every_refused_name_has_a_reason_and_a_cure() -> None:
    for name, row in NAMES.items():
        assert "{name}" in row.reason and row.cure and not row.cure.endswith(".")
        assert Refused(name).reason.startswith(f"`sg.{name}`")


# ---- names, on the host ---------------------------------------------------------------------------------------------

_GPU = "addresses the threads of a GPU block, which kernels here do not see"


@refused(sg.Unsupported, "`sg.real_func`: functions that are not inlined are not supported: they would have no "
         "derivative", "@sg.func")
def real_function() -> None:
    @sg.real_func  # here
    def f(x: sg.f32) -> sg.f32:
        return x


@refused(sg.Unsupported, "`sg.simt.block.SharedArray` is memory shared by a GPU block, which kernels here do not see",
         "locals")
def shared_array_on_the_host() -> None:
    sg.simt.block.SharedArray((64,), sg.f32)  # here


@refused(sg.Unsupported, "`sg.Mesh.load`: meshes are not supported", "connectivity")
def mesh() -> None:
    sg.Mesh.load("bunny.obj")  # here


@refused(sg.Unsupported, "`sg.TetMesh`: meshes are not supported", "integer fields")
def tetrahedra() -> None:
    sg.TetMesh()  # here


@refused(sg.Unsupported, "`sg.create_stream`: streams and events are not supported: launches run in program order",
         "one after another")
def stream() -> None:
    sg.create_stream()  # here


@refused(sg.Unsupported, "`sg.create_event`: streams and events are not supported: launches run in program order",
         "one after another")
def event() -> None:
    sg.create_event()  # here


@refused(sg.Unsupported, "`sg.graph.do_while`: recorded graphs of launches are not supported", "Python loop")
def graph() -> None:
    sg.graph.do_while(lambda: True)  # here


@refused(sg.Unsupported, "`sg.BufferView`: views of a part of an array are not supported", "whole array")
def buffer_view() -> None:
    sg.BufferView(sg.field(sg.f32, 8), 2, 4)  # here


@refused(sg.Unsupported, "`sg.GUI`: windows, textures and drawing are not supported", "to_numpy")
def window() -> None:
    sg.GUI("title", (320, 240))  # here


@refused(sg.Unsupported, "`sg.ui.Window`: windows, textures and drawing are not supported", "to_numpy")
def vulkan_window() -> None:
    sg.ui.Window("title", (320, 240))  # here


@refused(sg.Unsupported, "`sg.aot.Module`: modules compiled ahead of time are not supported", "when the program runs")
def ahead_of_time() -> None:
    sg.aot.Module(sg.cpu)  # here


@refused(sg.Unsupported, "`sg.quant.int`: quantised types are not supported: every element is a whole scalar", "sg.i8")
def quantised() -> None:
    sg.quant.int(5, True)  # here


@refused(sg.Unsupported, "`sg.BitpackedFields`: quantised types are not supported: every element is a whole scalar",
         "sg.f16")
def bit_packed() -> None:
    sg.BitpackedFields(max_num_bits=32)  # here


@refused(sg.Unsupported, "`sg.lang.impl.get_runtime` reaches into another compiler", "remove it")
def foreign_internals() -> None:
    sg.lang.impl.get_runtime()  # here


@refused(sg.Unsupported, "`sg.root.pointer`: sparse fields are not supported: every element of a field exists",
         "dense field")
def sparse_node() -> None:
    x = sg.field(sg.f32)
    sg.root.pointer(sg.ij, (4, 4)).place(x)  # here


@refused(sg.Unsupported, "`sg.root.dynamic`: sparse fields are not supported: every element of a field exists",
         "integer field of indices")
def dynamic_node() -> None:
    sg.root.dynamic(sg.i, 1024)  # here


@refused(sg.Unsupported, "`sg.types.quant.fixed`: quantised types are not supported: every element is a whole scalar",
         "sg.f16")
def quantised_type() -> None:
    sg.types.quant.fixed(16, True)  # here


@refused(sg.Unsupported, "fields whose indices do not begin at 0 are not supported", "add the offset to the indices")
def offset() -> None:
    sg.field(sg.f32, (4,), offset=(-2,))  # here


@refused(sg.Unsupported, "`sg.linalg.SparseMatrixBuilder`: sparse linear algebra on the host is not supported", "scipy")
def sparse_matrix() -> None:
    sg.linalg.SparseMatrixBuilder(4, 4)  # here


# ---- names, in a kernel ---------------------------------------------------------------------------------------------


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


@refused(sg.Unsupported, "`sg.simt.block.SharedArray` is memory shared by a GPU block, which kernels here do not see",
         "a loop of its own")
def shared_array() -> None:
    @sg.kernel
    def k():
        for i in range(4):
            pad = sg.simt.block.SharedArray((64,), sg.f32)  # here

    k()


@refused(sg.Unsupported, "`sg.simt.Tile16x16.zeros` multiplies tiles with the matrix units of a GPU, "
         "which kernels here do not address", "loops over elements")
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


@refused(sg.Unsupported, "`sg.length`: sparse fields are not supported: every element of a field exists",
         "integer field")
def dynamic_length() -> None:
    x, n = sg.field(sg.f32, 8), sg.field(sg.i32, ())

    @sg.kernel
    def k():
        n[None] = sg.length(x, 0)  # here

    k()


@refused(sg.Unsupported, "`sg.volatile_load`: iterations of one loop cannot wait for each other's stores", "split")
def volatile() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        for i in range(4):
            x[i] = sg.volatile_load(x, i + 1)  # here

    k()


@refused(sg.Unsupported, "`sg.atomic_cas`: there is no atomic compare-and-swap", "atomic_exchange")
def compare_and_swap() -> None:
    x = sg.field(sg.i32, 8)

    @sg.kernel
    def k():
        for i in range(4):
            sg.atomic_cas(x[i], 0, 1)  # here

    k()


@refused(sg.Unsupported, "`sg.block_local` is memory shared by a GPU block, which kernels here do not see", "locals")
def block_local() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        sg.block_local(x)  # here
        for i in x:
            x[i] = 1.0

    k()


@refused(sg.Unsupported, "`sg.assume_in_range` promises the compiler what it cannot check", "remove it")
def promise() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        for i in x:
            x[sg.assume_in_range(i, 0, 0, 8)] = 1.0  # here

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


@refused(sg.NotDifferentiable, "the gradient of an atomic exchange needs the values it overwrote", "a local")
def gradient_of_an_exchange() -> None:
    x, y = sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            sg.atomic_exchange(y[None], x[i])  # here

    k.grad()


@refused(sg.NotDifferentiable, "the gradient of an atomic mul needs the values it overwrote", "a local")
def gradient_of_an_atomic_product() -> None:
    x, y = sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            sg.atomic_mul(y[None], x[i])  # here

    k.grad()


@refused(sg.NotDifferentiable, "'x.grad' is used in a kernel that is differentiated with respect to 'x'", "copy")
def gradient_of_a_kernel_that_uses_gradients() -> None:
    x = sg.field(sg.f32, 4, needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            x[i] = 0.0
            x.grad[i] = 0.0  # here

    k.grad()


@refused(sg.KernelTypeError, "the step of a range is an integer known at compile time", "constant step")
def step_of_the_launch() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k(step: sg.i32):
        for i in range(0, 8, step):  # here
            x[i] = 1.0

    k(2)


# ---- statements and expressions of Python ---------------------------------------------------------------------------


@refused(sg.KernelSyntaxError, "a kernel cannot catch exceptions", "`if`")
def exceptions() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        try:  # here
            x[0] = 1.0
        except ValueError:
            x[0] = 2.0

    k()


@refused(sg.KernelSyntaxError, "`with` is not part of the kernel language", "around the call")
def context() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        with open("f") as f:  # here
            x[0] = 1.0

    k()


@refused(sg.KernelSyntaxError, "a kernel cannot hold a lambda", "@sg.func")
def anonymous() -> None:
    @sg.kernel
    def k():
        f = lambda v: v  # here

    k()


@refused(sg.KernelSyntaxError, "a class cannot be defined inside a kernel", "outside")
def class_inside() -> None:
    @sg.kernel
    def k():
        class A:  # here
            pass

    k()


@refused(sg.KernelSyntaxError, "a kernel cannot rebind globals", "0-d field")
def rebinding_a_global() -> None:
    @sg.kernel
    def k():
        global PROGRAMS  # here

    k()


@refused(sg.KernelSyntaxError, "a kernel cannot rebind names outside it", "0-d field")
def rebinding_a_closure() -> None:
    count = 0

    @sg.kernel
    def k():
        nonlocal count  # here

    k()


@refused(sg.KernelSyntaxError, "a kernel cannot yield", "store to a field")
def generator() -> None:
    @sg.kernel
    def k():
        for i in range(3):
            yield i  # here

    k()


@refused(sg.KernelSyntaxError, "a kernel cannot be asynchronous", "`def` alone")
def coroutine() -> None:
    async def f(): ...

    async def k():  # here
        await f()

    sg.kernel(k)()


@refused(sg.KernelSyntaxError, "`else` after a loop is not part of the kernel language", "flag")
def loop_with_else() -> None:
    x = sg.field(sg.f32, 8)

    @sg.kernel
    def k():
        for i in range(8):
            x[i] = 1.0
        else:
            x[0] = 2.0  # here

    k()


@refused(sg.KernelSyntaxError, "the kernel takes `*args`", "name each parameter")
def variadic() -> None:
    @sg.kernel
    def k(*args):  # here
        pass

    k()


@refused(sg.KernelSyntaxError, "`is` and `in` compare objects known at compile time alone", "`==`")
def identity_at_run_time() -> None:
    x = sg.field(sg.i32, 8)

    @sg.kernel
    def k():
        if x[0] is x[1]:  # here
            x[2] = 1

    k()


@refused(sg.KernelSyntaxError, "a kernel has no sets", "sg.static")
def set_at_run_time() -> None:
    @sg.kernel
    def k():
        s = {1, 2}  # here

    k()


@refused(sg.KernelSyntaxError, "a kernel has no dictionaries", "sg.static")
def dictionary_at_run_time() -> None:
    @sg.kernel
    def k():
        d = {"a": 1}  # here

    k()


@refused(sg.KernelSyntaxError, "a kernel cannot delete names", "ends with its block")
def deletion() -> None:
    @sg.kernel
    def k():
        v = 1.0
        del v  # here

    k()


@refused(sg.KernelSyntaxError, "`match` is not part of the kernel language", "`elif`")
def matching() -> None:
    x = sg.field(sg.i32, 8)

    @sg.kernel
    def k():
        match x[0]:  # here
            case 0:
                x[1] = 1

    k()


@refused(sg.KernelSyntaxError, "a kernel cannot raise", "assert")
def raising() -> None:
    @sg.kernel
    def k():
        raise ValueError("no")  # here

    k()


@refused(sg.KernelSyntaxError, "a kernel cannot import", "top of the file")
def importing() -> None:
    @sg.kernel
    def k():
        import math  # here

    k()
