"""Test the CPU backend: checks of debug builds, mistakes that release builds survive, prints, arguments, threads."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.compiler.errors import DivisionByZero, KernelAssertionError, KernelTypeError, OutOfBounds
from stackgrad.compiler.ir.parser import parse_kernel

ACCESS = """kernel access(i: {t}, x: f32[2], y: f32[1]) {{
  serial {{
    %0: i32 = const 1
    %1: {t} = arg i
    {access}
  }}
}}"""
LOAD = "%2: f32 = load x[%0, %1] store y[%0], %2"
STORE = "%2: f32 = const 5.0 store x[%0, %1], %2"
ATOMIC = "%2: f32 = const 5.0 %3: f32 = atomic add x[%0, %1], %2"


@pytest.mark.parametrize("access", [LOAD, STORE, ATOMIC], ids=["load", "store", "atomic"])
@pytest.mark.parametrize(("t", "index"), [("i32", 3), ("i32", -1), ("i64", 2**40), ("u8", 255), ("u64", 2**64 - 1)])
@pytest.mark.parametrize("debug", [True, False], ids=["debug", "release"])
def test_index_outside_an_array(bench: Any, access: str, t: str, index: int, debug: bool) -> None:
    """The message names array, axis, index and extent; nothing is accessed; the next launch is well."""
    text = ACCESS.format(t=t, access=access)
    arrays = {"x": np.zeros((2, 3), np.float32), "y": np.full(2, 9, np.float32)}
    with pytest.raises(OutOfBounds) as caught:
        bench.run(text, arrays, {"i": index}, debug=debug)
    assert f"index {index} is outside axis 1 of x, which has 3 elements" in str(caught.value)
    assert isinstance(caught.value, IndexError)
    assert not arrays["x"].any() and arrays["y"].tolist() == [9, 9]
    bench.run(text, arrays, {"i": 2}, debug=debug)


LOCAL = """kernel local(i: {t}, y: {d}[1]) {{
  serial {{
    local_array guard: i64[4]
    local_array a: {d}[3]
    local_array guard2: i64[4]
    %0: {t} = arg i
    %1: {d} = const {v}
    %2: i32 = const 0
    %3: i32 = const 1
    %4: i32 = const 2
    %5: i32 = const 3
    set_element a[%0], %1
    %6: {d} = get_element a[%0]
    store y[%5], %6
    %7: {d} = get_element a[%2]
    %8: {d} = get_element a[%3]
    %9: {d} = get_element a[%4]
    store y[%2], %7
    store y[%3], %8
    store y[%4], %9
  }}
}}"""


@pytest.mark.parametrize(("d", "v"), [("f64", "7.0"), ("u1", "true"), ("i16", "7"), ("f16", "7.0")])
@pytest.mark.parametrize(("t", "index"), [("i32", 3), ("i32", -1), ("i64", -(2**63)), ("u64", 2**63), ("i8", 100)])
def test_index_outside_a_local_array(bench: Any, d: str, v: str, t: str, index: int) -> None:
    """An error; where checks are switched off, 0 is read and nothing written."""
    text = LOCAL.format(t=t, d=d, v=v)
    y = np.ones(4, {"f64": float, "u1": bool, "i16": np.int16, "f16": np.float16}[d])
    bench.run(text, {"y": y}, {"i": index}, bounds=False)
    assert not y.any()
    for debug in (True, False):
        with pytest.raises(OutOfBounds, match=f"index {index} is outside local array a, which has 3 elements"):
            bench.run(text, {"y": y}, {"i": index}, debug=debug)
    bench.run(text, {"y": y}, {"i": 1})
    assert y.astype(bool).tolist() == [False, True, False, True]


@pytest.mark.parametrize("op", ["floordiv", "mod"])
@pytest.mark.parametrize("t", ["i8", "i32", "u32", "i64"])
def test_integer_division_by_zero(bench: Any, op: str, t: str) -> None:
    """0 in a release build, an error in a debug build; in both, the least integer by -1 wraps."""
    text = f"""kernel k(x: {t}[1], y: {t}[1]) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
        %3: {t} = load x[%2]
        %4: {t} = load y[%2]
        %5: {t} = {op} %3, %4
        store x[%2], %5
      }}
    }}"""
    dtype = np.dtype(t.replace("u", "uint") if t[0] == "u" else t.replace("i", "int"))
    least = np.iinfo(dtype).min
    x, y = np.array([7, least, 5], dtype), np.array([0, 0, 2], dtype)
    with pytest.raises(DivisionByZero, match="integer division or modulo by zero") as caught:
        bench.run(text, {"x": x.copy(), "y": y}, debug=True)
    assert isinstance(caught.value, ZeroDivisionError)
    assert bench.run(text, {"x": x, "y": y})["x"].tolist() == [0, 0, 2 if op == "floordiv" else 1]
    if t[0] == "i":
        x, y = np.array([least], dtype), np.array([-1], dtype)
        assert bench.run(text, {"x": x, "y": y}, debug=True)["x"][0] == (least if op == "floordiv" else 0)


def test_assert(bench: Any) -> None:
    """Checked in debug builds alone; what was written before stays."""
    text = """kernel k(x: i32[1]) {
      serial {
        %0: i32 = const 0
        %1: i32 = const 1
        %2: i32 = load x[%0]
        store x[%1], %1
        %3: u1 = cmp_gt %2, %0
        assert %3, "x must be positive"
        store x[%0], %1
      }
      serial { %10: i32 = const 1 %11: i32 = const 2 store x[%11], %10 }
    }"""
    x = np.zeros(3, np.int32)
    with pytest.raises(KernelAssertionError, match="x must be positive") as caught:
        bench.run(text, {"x": x}, debug=True)
    assert isinstance(caught.value, AssertionError)
    assert x.tolist() == [0, 1, 0], "later statements and tasks do not run"
    bench.run(text, {"x": x})
    assert x.tolist() == [1, 1, 1]
    bench.run(text, {"x": x}, debug=True)


def test_a_check_in_bounds_ends_the_launch(bench: Any) -> None:
    text = """kernel k(x: i32[1]) {
      bounds { %0: i32 = const 0 %1: i32 = const 4 %2: i32 = load x[%1] } parallel %3: i32 in %0 .. %2 {
        store x[%3], %3
      }
    }"""
    with pytest.raises(OutOfBounds, match="index 4 is outside axis 0 of x, which has 2"):
        bench.run(text, {"x": np.ones(2, np.int32)}, debug=True)


def test_print(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In order, flushed, each type in its shortest form."""
    text = """kernel k(n: u8) {
      serial {
        %0: f32 = const 0.1
        %1: f64 = const 0.1
        %2: i64 = const -9223372036854775808
        %3: u1 = const true
        %4: u8 = arg n
        %5: f16 = const 0.1
        %6: u64 = const 18446744073709551615
        %7: f32 = const nan
        print "{} {}, {} and {}" %0, %1, %2, %3
        print "n={}" %4
        print "none"
        print "{} {}|{}" %5, %6, %7
      }
    }"""
    bench.run(text, scalars={"n": 200})
    out = capsys.readouterr().out
    lines = ["0.1 0.1, -9223372036854775808 and True", "n=200", "none", "0.1 18446744073709551615|nan"]
    assert out == "\n".join([*lines, ""])


def test_an_exception_of_print_surfaces(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError("closed")

    text = 'kernel k() { serial { print "hello" } }'
    monkeypatch.setattr(sys, "stdout", Broken())
    with pytest.raises(BrokenPipeError):
        bench.run(text)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    bench.run(text)


# ---- arguments ----------------------------------------------------------------------------------------------

COPY = """kernel copy(a: {t}, x: f32[1] grad, y: f32[1]) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
    %3: f32 = load x.grad[%2]
    %4: {t} = arg a
    %5: f32 = cast %4
    %6: f32 = add %3, %5
    store y[%2], %6
  }}
}}"""


@pytest.mark.parametrize(
    ("t", "value", "want"),
    [
        ("f32", 1.5, 1.5),
        ("f16", 1.5, 1.5),
        ("f64", 1e300, np.inf),
        ("f32", 1e39, np.inf),
        ("i8", 300, 44),
        ("u8", -1, 255),
        ("u1", True, 1),
        ("u1", False, 0),
        ("i32", -5, -5),
        ("i64", -(2**63), -(2.0**63)),
        ("u64", 2**64 - 1, 2.0**64),
    ],
)
def test_scalars(shared: Any, t: str, value: Any, want: float) -> None:
    arrays = {"x": np.zeros(2, np.float32), "x.grad": np.zeros(2, np.float32), "y": np.zeros(2, np.float32)}
    assert shared.run(COPY.format(t=t), arrays, {"a": value})["y"].tolist() == [want, want]


def test_arrays_are_rebound_when_they_change(bench: Any) -> None:
    """Other objects, other sizes, the same object again, and objects that died in between."""
    executable = bench.compile(COPY.format(t="f32"))
    kept = {name: np.full(3, 1, np.float32) for name in ("x", "x.grad", "y")}
    for n in (3, 5, 1, 3):
        for _ in range(50):
            fresh = {name: np.zeros(n, np.float32) for name in ("x", "y")} | {"x.grad": np.arange(n, dtype=np.float32)}
            executable.run(fresh, {"a": 1.0}, Sizes(), Draws())
            assert fresh["y"].tolist() == [i + 1.0 for i in range(n)]
        kept["x.grad"] += 1
        executable.run(kept, {"a": 1.0}, Sizes(), Draws())
        assert (kept["y"] == kept["x.grad"] + 1).all()


def _readonly() -> np.ndarray:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("x", np.zeros(3), "array x is float64 of rank 1, not float32 of rank 1"),
        ("x", np.zeros((3, 1), np.float32), "array x is float32 of rank 2"),
        ("x.grad", np.zeros(6, np.float32)[::2], "array x.grad is not contiguous"),
        ("x.grad", np.zeros(4, np.float32), r"x.grad has shape \(4,\), but its primal has \(3,\)"),
        ("x", [1.0, 2.0, 3.0], "array x is a list"),
        ("y", _readonly(), "array y is read-only, but the kernel writes it"),
        ("y", np.zeros(13, np.uint8)[1:].view(np.float32), "array y is not contiguous and aligned"),
    ],
)
def test_arrays_that_do_not_fit(bench: Any, name: str, bad: Any, message: str) -> None:
    arrays: dict[str, Any] = {n: np.zeros(3, np.float32) for n in ("x", "x.grad", "y")}
    bench.run(COPY.format(t="f32"), arrays, {"a": 1.0})
    for _ in range(2):
        with pytest.raises(KernelTypeError, match=message):
            bench.run(COPY.format(t="f32"), arrays | {name: bad}, {"a": 1.0})
    bench.run(COPY.format(t="f32"), arrays | {"x": _readonly()}, {"a": 2.0})
    assert arrays["y"].tolist() == [2, 2, 2], "a read-only array may be read"


def test_missing_arguments(bench: Any) -> None:
    arrays = {n: np.zeros(3, np.float32) for n in ("x", "x.grad", "y")}
    with pytest.raises(KernelTypeError, match="no argument 'a'"):
        bench.run(COPY.format(t="f32"), arrays, {})
    del arrays["x.grad"]
    with pytest.raises(KernelTypeError, match="no argument 'x.grad'"):
        bench.run(COPY.format(t="f32"), arrays, {"a": 1.0})


# ---- launches -----------------------------------------------------------------------------------------------


def test_threads_may_launch_at_once(bench: Any) -> None:
    """Each launch has a block of its own, and launches with adstacks take turns on the heap."""
    text = """kernel k(a: i64, n: i32, y: i64[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
        adstack_alloca s: i64
        %3: i64 = arg a
        %4: i32 = arg n
        %5: i32 = const 0
        for %6: i32 in %5 .. %4 { adstack_push s, %3 }
        for %7: i32 in %5 .. %4 {
          %8: i64 = adstack_load_top s
          %9: i64 = atomic add y[%2], %8
          adstack_pop s
        }
      }
    }"""
    executable = bench.compile(text)
    wrong: list[int] = []

    def work(a: int) -> None:
        for _ in range(100):
            y = np.zeros(200, np.int64)
            executable.run({"y": y}, {"a": a, "n": a}, Sizes({"s": a}), Draws())
            wrong.extend(y[y != a * a])

    threads = [threading.Thread(target=work, args=(a,)) for a in (3, 7, 11, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_gil_is_released() -> None:
    """Python runs while a kernel spins until another thread stops it."""
    text = """kernel k(flag: i32[1], zero: i32[1]) {
      serial {
        %0: i32 = const 0
        %1: i32 = const 1000000000
        %5: i32 = load zero[%0]
        local stop: u1
        for %2: i32 in %0 .. %1 until stop {
          %3: i32 = atomic add flag[%0], %5
          %4: u1 = cmp_ne %3, %0
          set stop, %4
        }
      }
    }"""
    executable = CpuBackend(replace(CPU, concurrent=True)).compile(parse_kernel(text), Options())
    flag = np.zeros(1, np.int32)
    arrays = {"flag": flag, "zero": np.zeros(1, np.int32)}
    runner = threading.Thread(target=executable.run, args=(arrays, {}, Sizes(), Draws()))
    runner.start()
    assert runner.is_alive()
    flag[0] = 1
    runner.join(timeout=60)
    assert not runner.is_alive()


def test_code_is_readable(bench: Any) -> None:
    kernel = parse_kernel(
        "kernel root(x: f32[1]) { serial { %0: i32 = const 0 %1: f32 = load x[%0] %2: f32 = sqrt %1 store x[%0], %2 } }"
    )
    assert "call float @llvm.sqrt.f32" in bench.backend.ir_text(kernel)
    assert "sg.task.0" in bench.backend.ir_text(kernel, optimize=False)
    assert "sqrt" in bench.backend.assembly(kernel)


def test_importing_the_package_loads_no_llvm() -> None:
    code = "import sys, stackgrad, stackgrad.backends.registry; assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
