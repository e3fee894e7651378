"""Small kernels and the IR that they become."""

from __future__ import annotations

import stackgrad as sg
from frontend_support import Field, body, check_text, integers, number, text, traced
from stackgrad.compiler.frontend.trace import FrontendOptions
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.types import ArrayType
from stackgrad.compiler.ir.walk import walk_kernel

x, y, z = Field(sg.f32, 4, needs_grad=True), Field(sg.f32, 4), Field(sg.f64, (2, 3))
count, flags, scalar = number(3), integers(1, 2), Field(sg.f32)
SINGLE = FrontendOptions()


def test_parallel_range_and_arguments() -> None:
    def k(a: sg.f32, m: sg.i32):
        for i in range(m):
            y[i] = a * x[i]

    made = traced(k, SINGLE)
    assert [(a.name, a.type) for a in made.arguments] == [("a", sg.f32), ("m", sg.i32)]
    assert list(made.arrays.items()) == [("x", x), ("y", y)]
    assert made.kernel.array_types() == {"y": ArrayType(sg.f32, 1), "x": ArrayType(sg.f32, 1, grad=True)}
    check_text(
        text(k, SINGLE),
        """
        kernel k(a: f32, m: i32, x: f32[1] grad, y: f32[1]) {
          bounds {
            %0: i32 = arg m
            %1: i32 = const 0
          } parallel %2: i32 in %1 .. %0 {
            %3: f32 = arg a
            %4: f32 = load x[%2]
            %5: f32 = mul %3, %4
            store y[%2], %5
          }
        }
    """,
    )


def test_inner_loop_carries_a_local() -> None:
    def k():
        for i in x:
            v = x[i]
            for _ in range(count[None]):
                v = v * 0.5
            y[i] = v

    check_text(
        body(k, SINGLE),
        """
        bounds {
          %0: i32 = shape x, 0
          %1: i32 = const 0
        } parallel %2: i32 in %1 .. %0 {
          %3: f32 = load x[%2]
          local v: f32
          set v, %3
          %4: i32 = load count[]
          %5: i32 = const 0
          for %6: i32 in %5 .. %4 {
            %7: f32 = get v
            %8: f32 = const 0.5
            %9: f32 = mul %7, %8
            set v, %9
          }
          %10: f32 = get v
          store y[%2], %10
        }
    """,
    )


def test_serial_code_between_parallel_loops() -> None:
    def k():
        total = 0.0
        for i in range(4):
            total += x[i]
        scalar[None] = total

    check_text(
        body(k, SINGLE),
        """
        serial {
          %0: f32 = const 0.0
          local total: f32
          set total, %0
        }
        bounds {
          %1: i32 = const 0
          %2: i32 = const 4
        } parallel %3: i32 in %1 .. %2 {
          %4: f32 = get total
          %5: f32 = load x[%3]
          %6: f32 = add %4, %5
          set total, %6
        }
        serial {
          %7: f32 = get total
          store scalar[], %7
        }
    """,
    )


def test_box_of_ndrange_and_struct_for() -> None:
    def k():
        for i, j in sg.ndrange(2, (1, 3)):
            z[i, j] = 1.0
        for i, j in z:
            z[i, j] += 1.0

    first, second = traced(k).kernel.tasks
    assert len(first.indices) == len(second.indices) == 2
    check_text(
        body(k),
        """
        bounds {
          %0: i32 = const 0
          %1: i32 = const 1
          %2: i32 = const 2
          %3: i32 = const 3
        } parallel %4: i32, %5: i32 in %0 .. %2, %1 .. %3 {
          %6: f64 = const 1.0
          store z[%4, %5], %6
        }
        bounds {
          %7: i32 = shape z, 0
          %8: i32 = shape z, 1
          %9: i32 = const 0
          %10: i32 = const 0
        } parallel %11: i32, %12: i32 in %9 .. %7, %10 .. %8 {
          %13: f64 = const 1.0
          %14: f64 = atomic add z[%11, %12], %13
        }
    """,
    )


def test_inner_box_is_a_nest_of_loops() -> None:
    def k():
        for _ in range(1):
            for i, j in z:
                if j == 2:
                    break
                if i == 1:
                    continue
                z[i, j] = 1.0

    loops = [s for s in walk_kernel(traced(k).kernel) if isinstance(s, n.For)]
    assert len(loops) == 2 and loops[1] in loops[0].body
    exits = [s for s in walk_kernel(traced(k).kernel) if isinstance(s, (n.Break, n.Continue))]
    assert exits == [n.Break(2), n.Continue(1)]


def test_parallel_steps() -> None:
    def k(a: sg.i32, b: sg.i32):
        for i in range(a, b, -3):
            flags[i] = i

    check_text(
        body(k),
        """
        serial {
          %0: i32 = arg a
          %1: i32 = arg b
        }
        bounds {
          %2: i32 = const 0
          %3: i64 = cast %0
          %4: i64 = cast %1
          %5: i64 = const 3
          %6: i64 = sub %3, %4
          %7: i64 = const 2
          %8: i64 = add %6, %7
          %9: i64 = floordiv %8, %5
          %10: i64 = const 0
          %11: i64 = max %9, %10
          %12: i32 = cast %11
        } parallel %13: i32 in %2 .. %12 {
          %14: i32 = const -3
          %15: i32 = mul %13, %14
          %16: i32 = add %0, %15
          store flags[%16], %16
        }
    """,
    )


def test_serial_steps_and_reversed() -> None:
    def k():
        for _ in range(1):
            for i in range(5, -1, -2):
                flags[0] += i
            for i in reversed(range(3)):
                flags[1] += i

    first, second = (s for s in walk_kernel(traced(k).kernel) if isinstance(s, n.For))
    assert (first.step, first.descending) == (-2, False)
    assert (second.step, second.descending) == (1, True)


def test_short_circuit_is_a_branch_only_if_it_must_be() -> None:
    def loads(i: sg.i32):
        if i < 4 and x[i] > 0.0:
            flags[0] = 1

    def cheap(i: sg.i32):
        if i > 0 and i * 2 < 8 or not i > 5:
            flags[0] = 1

    def divides(i: sg.i32):
        if i != 0 or 8 // i == 2:
            flags[0] = 1

    check_text(
        body(loads, SINGLE),
        """
        serial {
          %0: i32 = arg i
          %1: i32 = const 4
          %2: u1 = cmp_lt %0, %1
          local _and: u1
          set _and, %2
          if %2 {
            %3: i32 = arg i
            %4: f32 = load x[%3]
            %5: f32 = const 0.0
            %6: u1 = cmp_gt %4, %5
            set _and, %6
          }
          %7: u1 = get _and
          if %7 {
            %8: i32 = const 0
            %9: i32 = const 1
            store flags[%8], %9
          }
        }
    """,
    )
    ops = [s.op for s in walk_kernel(traced(cheap).kernel) if isinstance(s, n.Op)]
    assert "logical_and" in ops and "logical_or" in ops
    assert [type(s) for s in walk_kernel(traced(cheap).kernel)].count(n.If) == 1
    assert "else {" in body(divides) and "logical_or" not in body(divides)


def test_conditional_expression_selects_or_branches() -> None:
    def linear(a: sg.f64, b: sg.f64):
        z[0, 0] = a + b if a > b else 2.0 * b

    def product(a: sg.f64, b: sg.f64):
        z[0, 0] = a * b if a > b else 0.0

    def loads(i: sg.i32):
        z[0, 0] = z[i, 0] if i < 2 else 0.0

    assert "select" in body(linear) and "if " not in body(linear)
    for skips in (product, loads):
        assert "select" not in body(skips) and "local _if: f64" in body(skips)
