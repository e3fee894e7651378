# ruff: noqa: B007, B018, E731, F401, F841, PLW0603, SIM115, UP028 - the programs do what the language refuses
"""Define programs with statements and expressions of Python that the kernel language refuses."""

from __future__ import annotations

import stackgrad as sg
from refused_support import refused

COUNT = 0


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
        global COUNT  # here

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
