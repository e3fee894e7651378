"""Values, names, functions and exits in the IR that small kernels become."""

from __future__ import annotations

import pytest
import stackgrad as sg
from frontend_support import DOUBLE, Field, body, check_text, integers, number, real, traced
from stackgrad.compiler.frontend.trace import FrontendOptions
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.walk import walk_kernel

x, y, z = Field(sg.f32, 4, needs_grad=True), Field(sg.f32, 4), Field(sg.f64, (2, 3))
count, flags, scalar = number(3), integers(1, 2), Field(sg.f32)
SINGLE = FrontendOptions()


def test_literals_take_the_type_of_what_they_meet() -> None:
    def k(a: sg.f64, i: sg.i64, h: sg.f16):
        z[0, 0] = 0.1 * a
        z[0, 1] = i + 1
        z[0, 2] = h * 2
        z[1, 0] = 5000000000

    constants = [s for s in walk_kernel(traced(k, SINGLE).kernel) if isinstance(s, n.Const)]
    assert [(c.value, c.result.type) for c in constants if c.value not in (0, 1, 2)] == [(0.1, sg.f64), (5e9, sg.f64)]
    assert "%1: f64 = const 0.1" in body(k, SINGLE) and "f16 = const 2.0" in body(k, SINGLE)


def test_local_names_are_unique() -> None:
    def k():
        for i in range(2):
            v = 1.0
            x[i] = v
        for i in range(2):
            v = 2
            flags[i] = v
        for inf in range(2):
            nan = 1.0
            y[inf] = nan

    names = [(s.var, s.dtype) for s in walk_kernel(traced(k, SINGLE).kernel) if isinstance(s, n.Local)]
    assert names == [("v", sg.f32), ("v.1", sg.i32), ("_nan", sg.f32)]


def test_unicode_names() -> None:
    θ = real(1.0)

    def k(ω: sg.f64):
        for i in range(1):
            α = ω
            θ[i] = α

    made = traced(k)
    assert list(made.arrays.values()) == [θ]
    assert all(name.isascii() for name in (*made.arrays, *(a.name for a in made.arguments)))


def test_augmented_assignment() -> None:
    def k(i: sg.i32, v: sg.f64):
        z[0, 0] += v
        z[0, 0] -= v
        z[0, 0] *= v
        z[0, 0] /= v
        z[0, 0] -= 2
        flags[i] |= 4
        flags[i] <<= 1
        sg.atomic_max(z[0, 0], v)
        sg.atomic_and(flags[i], 1)

    atomics = [s.op for s in walk_kernel(traced(k).kernel) if isinstance(s, n.Atomic)]
    assert atomics == ["add", "add", "mul", "add", "bit_or", "max", "bit_and"]
    assert body(k).count("neg") == 1 and "const -2.0" in body(k)
    assert [type(s) for s in walk_kernel(traced(k).kernel)].count(n.Store) == 2


def test_early_returns_leave_a_scope() -> None:
    @sg.func
    def pick(v):
        for j in range(3):
            if v > j:
                return j
        return 0.5

    def k(i: sg.i32):
        z[0, 0] = pick(i)

    check_text(
        body(k),
        """
        serial {
          %0: i32 = arg i
          local pick: f64
          scope {
            %1: i32 = const 0
            %2: i32 = const 3
            for %3: i32 in %1 .. %2 {
              %4: u1 = cmp_gt %0, %3
              if %4 {
                %5: f64 = cast %3
                set pick, %5
                break 2
              }
            }
            %6: f64 = const 0.5
            set pick, %6
            break 1
          }
          %7: f64 = get pick
          %8: i32 = const 0
          %9: i32 = const 0
          store z[%8, %9], %7
        }
    """,
    )


def test_single_return_needs_no_scope_and_unassigned_parameters_no_local() -> None:
    @sg.func
    def scaled(v, factor: sg.f64):
        w = v * factor
        return w + 1.0

    def k(a: sg.f64):
        z[0, 0] = scaled(a, 2)

    check_text(
        body(k),
        """
        serial {
          %0: f64 = arg a
          %1: f64 = const 2.0
          %2: f64 = mul %0, %1
          local w: f64
          set w, %2
          %3: f64 = get w
          %4: f64 = const 1.0
          %5: f64 = add %3, %4
          %6: i32 = const 0
          %7: i32 = const 0
          store z[%6, %7], %5
        }
    """,
    )


def test_function_without_result_keeps_its_loops_parallel() -> None:
    @sg.func
    def clear(field, value):
        for i in field:
            field[i] = value

    def k():
        clear(x, 0.0)
        clear(y, 1.0)

    assert [len(t.indices) for t in traced(k, SINGLE).kernel.tasks] == [1, 1]


def test_serialized_loop() -> None:
    def k():
        sg.loop_config(serialize=True, block_dim=64)
        for i in range(3):
            x[i + 1] = x[i]
        for i in range(3):
            x[i] = 0.0

    assert [t.is_parallel for t in traced(k, SINGLE).kernel.tasks] == [False, True]


def test_bounds_with_effects_run_before_the_loop() -> None:
    def k():
        for i in range(sg.atomic_add(count[None], 1)):
            flags[i] = 1

    serial, parallel = traced(k).kernel.tasks
    assert any(isinstance(s, n.Atomic) for s in serial.body)
    assert not any(isinstance(s, n.Atomic) for s in parallel.bounds)


def test_returns_and_exits_at_each_level() -> None:
    def k(m: sg.i32):
        if m == 0:
            return
        for i in range(m):
            if flags[i] > 0:
                continue
            flags[i] = 1

    first, second = traced(k).kernel.tasks
    assert [type(s) for s in first.body[-1].then] == [n.Return]
    inner = next(s for s in second.body if isinstance(s, n.If))
    assert [type(s) for s in inner.then] == [n.Return]


def test_what_follows_an_exit_is_dropped() -> None:
    def k():
        for i in range(2):
            flags[i] = 1
            continue
            flags[i] = 2

    assert body(k).count("store") == 1


def test_print_and_assert() -> None:
    def k(a: sg.f64):
        """Says something."""
        print("a is", a, f"twice {2 * a}; {sg.static(3):03d}", sep="-")
        assert a > 0.0, f"only {sg.static('positive')} values"
        assert a < 9.0

    check_text(
        body(k),
        """
        serial {
          %0: f64 = arg a
          %1: f64 = arg a
          %2: f64 = const 2.0
          %3: f64 = mul %2, %1
          print "a is-{}-twice {}; 003" %0, %3
          %4: f64 = arg a
          %5: f64 = const 0.0
          %6: u1 = cmp_gt %4, %5
          assert %6, "only positive values"
          %7: f64 = arg a
          %8: f64 = const 9.0
          %9: u1 = cmp_lt %7, %8
          assert %9, "assertion failed: a < 9.0"
        }
    """,
    )


def test_while_tests_before_each_run() -> None:
    def k():
        for i in range(2):
            v = 8
            while v > 1 and flags[i] > 0:
                v //= 2
                if v == 3:
                    break
            flags[i] = v

    (loop,) = (s for s in walk_kernel(traced(k).kernel) if isinstance(s, n.While))
    assert loop.test.type == sg.u1 and any(isinstance(s, n.If) for s in loop.condition)


def test_empty_kernel() -> None:
    def k():
        """Nothing."""

    assert traced(k).kernel.tasks == ()


def test_every_statement_has_a_place() -> None:
    @sg.func
    def helper(v):
        return v * 2.0

    def k():
        for i in range(2):
            y[i] = helper(x[i]) if i > 0 else 1.0

    kernel = traced(k, SINGLE).kernel
    spans = [kernel.span(s.loc) for s in walk_kernel(kernel)]
    assert all(span is not None and span.file == __file__ for span in spans)
    texts = {span.text[span.column : span.end_column] for span in spans if span}
    assert {"v * 2.0", "x[i]", "helper(x[i]) if i > 0 else 1.0"} <= texts
    assert kernel.span(kernel.tasks[0].loc).text.strip() == "for i in range(2):"


@pytest.mark.parametrize("options", [DOUBLE, FrontendOptions(default_ip=sg.i64)])
def test_loop_indices_are_i32_unless_a_bound_is_wider(options: FrontendOptions) -> None:
    def k(m: sg.i64):
        for i in range(3):
            flags[i] = 1
        for i in range(1, m):
            flags[i] = 1
        for i in range(3000000000):
            flags[i] = 1

    assert [t.indices[0].type for t in traced(k, options).kernel.tasks] == [sg.i32, sg.i64, sg.i64]
