# ruff: noqa: T201 - kernels print
"""`print` in kernels: formats, separators and ends as Python has them."""

from __future__ import annotations

import pytest
import stackgrad as sg


@pytest.fixture(autouse=True)
def executor(arch) -> str:
    return arch


def test_formats(capfd) -> None:
    @sg.kernel
    def k(a: sg.f64, i: sg.i32):
        v = sg.Vector([a, 2.0])
        digits = sg.static(3)
        print(f"a = {a:.2f}, {a:10.3e}|{i:04d}|{i:>5}|{i:x}")
        print(f"{v:.1f} {a!r} {digits:02d} {a:.{digits}f}", i)

    k(0.123456, 42)
    sg.sync()
    a, i = 0.123456, 42
    expected = f"a = {a:.2f}, {a:10.3e}|{i:04d}|{i:>5}|{i:x}\n[{a:.1f}, 2.0] {a!r} 03 {a:.3f} 42\n"
    assert capfd.readouterr().out == expected


def test_ends_and_separators(capfd) -> None:
    @sg.kernel
    def k(n: sg.i32):
        sg.loop_config(serialize=True)
        for i in range(n):
            print(i, i * i, sep=":", end=" ")
        print("", end=".\n")
        print("done", end="")
        print()
        print("a", "b", end="\n\n")

    k(3)
    sg.sync()
    assert capfd.readouterr().out == "0:0 1:1 2:4 .\ndone\na b\n\n"


def test_a_format_that_does_not_fit_is_refused() -> None:
    @sg.kernel
    def k(a: sg.f64):
        print(f"{a:d}")

    with pytest.raises(sg.KernelTypeError, match="the format `d` does not fit"):
        k(1.0)


def test_constant_text(capfd) -> None:
    digits = 2

    @sg.kernel
    def k(a: sg.f64):
        print("%d of %s" % (3, "x"), "-" * digits, "a" + "b")  # noqa: UP031
        print("a", a)

    k(0.5)
    sg.sync()
    assert capfd.readouterr().out == "3 of x -- ab\na 0.5\n"

    @sg.kernel
    def formatted(a: sg.f64):
        print("%f" % a)  # noqa: UP031

    with pytest.raises(sg.KernelTypeError, match="text is made of what is known at compile time"):
        formatted(0.5)
