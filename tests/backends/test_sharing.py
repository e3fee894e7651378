"""Test tasks on several threads: which updates are atomic, and which tasks several threads run."""

from __future__ import annotations

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.compiler.ir.parser import parse_kernel

HEAVY = "%20: f32 = load x[%9, %9] " + " ".join(f"%{k}: f32 = sin %{k - 1}" for k in range(21, 41))

LIGHT = "%38: f32 = load x[%9, %9] %39: f32 = sin %38 %40: f32 = sin %39"


def text(updates: str, work: str = HEAVY) -> str:
    """Return a kernel over the index %9 that updates elements with the value %40; %8 is a loaded value, %5 is 1."""
    return f"""kernel k(x: f32[2], at: i32[1], n: i32) {{
      bounds {{ %0: i32 = const 0 %1: i32 = const 1000 }} parallel %9: i32 in %0 .. %1 {{
        %5: i32 = const 1
        %6: i32 = arg n
        %7: i32 = add %9, %5
        %8: i32 = load at[%9]
        {work}
        {updates}
      }}
    }}"""


def code(source: str, threads: int = 4) -> str:
    options = Options(threads=threads, lanes=0, bounds=False)  # an error record takes a cmpxchg
    return CpuBackend().ir_text(parse_kernel(source), options, optimize=False)


@pytest.mark.parametrize(
    ("updates", "atomic"),
    [
        ("%50: f32 = atomic add x[%9, %8], %40", False),
        ("%50: f32 = atomic add x[%9, %8], %40 %51: f32 = atomic max x[%9, %5], %40", False),
        ("%50: f32 = atomic add x[%9, %5], %40 %51: f32 = atomic add x[%7, %5], %40", True),
        ("%50: f32 = atomic add x[%9, %5], %40 %51: f32 = atomic add x[%5, %9], %40", True),
        ("%50: f32 = atomic add x[%8, %5], %40", True),
        ("for %60: i32 in %5 .. %6 { %50: f32 = atomic add x[%60, %9], %40 }", False),
        ("for %60: i32 in %5 .. %6 { %61: i32 = add %60, %9 %50: f32 = atomic add x[%61, %5], %40 }", True),
        ("%50: i32 = atomic cas at[%9], %8 expected %5", False),
        ("%50: i32 = atomic cas at[%8], %8 expected %5", True),
    ],
)
def test_only_updates_that_may_meet_are_atomic(updates: str, atomic: bool) -> None:
    made = code(text(updates))
    assert ("atomicrmw" in made or "cmpxchg" in made) == atomic
    alone = code(text(updates), threads=1)
    assert "atomicrmw" not in alone and "cmpxchg" not in alone


def test_serial_tasks_are_plain() -> None:
    body = "%0: i32 = const 0 %1: f32 = load x[%0] %2: f32 = atomic add x[%0], %1"
    assert "atomicrmw" not in code(f"kernel k(x: f32[1]) {{ serial {{ {body} }} }}")


@pytest.mark.parametrize(
    ("source", "spreads"),
    [
        (text("%50: f32 = atomic add x[%9, %5], %40"), True),
        (text("%50: i32 = atomic add at[%5], %5 store at[%9], %50", ""), False),  # they would take turns all the time
        (text('print "{}" %9'), False),
        (text("%50: f32 = atomic add x[%5, %5], %40", LIGHT), False),
        (text("%50: f32 = atomic add x[%8, %8], %40"), True),
        (text("%50: f32 = atomic add x[%8, %8], %40", "%40: f32 = load x[%9, %9]"), False),
    ],
)
def test_threads_where_they_pay(source: str, spreads: bool) -> None:
    assert ("sg.spent" in code(source)) == spreads
    assert "sg.spent" not in code(source, threads=1)


def test_masked_code_combines_updates_of_one_element() -> None:
    """So threads pay where branching code would take turns; not where each iteration asks for the old value."""
    summed = text("%50: f32 = atomic add x[%5, %5], %40")
    counted = text("%50: f32 = atomic add x[%5, %5], %40 store x[%9, %5], %50")
    made = [CpuBackend().ir_text(parse_kernel(k), Options(threads=4), optimize=False) for k in (summed, counted)]
    assert ["sg.spent" in source for source in made] == [True, False]


def test_debug_builds_run_one_iteration_after_another() -> None:
    options = Options(debug=True, threads=4, lanes=8)
    assert (options.threads, options.lanes) == (1, 0)


def test_threads_change_nothing_on_a_gpu() -> None:
    from stackgrad.backends.cuda.ptx import ir_text

    kernel = parse_kernel(text("%50: f32 = atomic add x[%9, %8], %40"))
    assert ir_text(kernel, options=Options(threads=4)) == ir_text(kernel, options=Options())
