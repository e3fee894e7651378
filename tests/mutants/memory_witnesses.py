"""Kernels for the mutants about memory, draws and what only raw IR shows; entered as in `mutant_witnesses`."""

from __future__ import annotations

from types import SimpleNamespace

import stackgrad as sg
from mutant_witnesses import witness
from stackgrad.compiler.ir.parser import parse_kernel


@witness("earlier-tasks-not-repeated", "present-state-read")
def _read_between_two_writes(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = y[i] * x[i]
        for i in range(4):
            z[i] = sg.sin(y[i])
        for i in range(4):
            y[i] = x[i]

    return k


@witness("store-not-repeated", "overwritten-load-recomputed")
def _recurrence_in_memory(f):
    w, y = f.w, f.y

    @sg.kernel
    def k():
        sg.loop_config(serialize=True)
        for j in range(4):
            y[0] = sg.sin(y[0]) * w[j]

    return k


@witness("old-value-without-adjoint")
def _old_value(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            old = sg.atomic_add(y[i], x[i])
            z[i] = old * old

    return k


@witness("extreme-stored-again")
def _extreme_stored_again(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            sg.atomic_max(z[0], x[i])
        for i in range(4):
            y[i] = z[0] * x[i]
        z[0] = 2.0

    return k


@witness("extreme-read-between")
def _extreme_read_between(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        sg.loop_config(serialize=True)
        for i in range(4):
            sg.atomic_max(z[0], x[i] + 2.0 * i)
            y[i] = z[0] * z[0]

    return k


@witness("counted-on-old-content")
def _trips_counted_in_memory(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        v = x[0]
        sg.loop_config(serialize=True)
        for _i in range(4):
            c[1] += 2
            for _ in range(c[1]):
                v = sg.sin(v) * 1.5
        y[0] = v

    return k


@witness("temporaries-constant")
def _reduction(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        total = 0.0
        for i in range(4):
            total += x[i] * x[i]
        for i in range(4):
            y[i] = total * w[i]

    return k


@witness("draws-of-grad-tasks")
def _draw_in_the_second_task(f):
    x, y, z = f.x, f.y, f.z

    @sg.kernel
    def k():
        for i in range(4):
            z[i] = 2.0 * x[i]
        for i in range(4):
            y[i] = x[i] * sg.random()

    return k


@witness("condition-falls-through")
def _condition_that_returns_early(f):
    x, y = f.x, f.y

    @sg.func
    def goes_on(v):
        if v > 0.4:
            return 1
        return 0

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            while goes_on(v) == 1:
                v = 0.75 * sg.sin(v)
            y[i] = v

    return k


IR = """
kernel k(x: f64[1] grad, w: f64[1] grad, y: f64[1] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: i32 = const 3
    %15: i32 = const 0
    local s: f64
    for %5: i32 in %15 .. %4 {
      local v: f64
      for %6: i32 in %15 .. %4 {
        %7: f64 = get v
        %8: f64 = load w[%6]
        %9: f64 = mul %7, %8
        %10: f64 = add %9, %3
        set v, %10
      }
      %11: f64 = get v
      %12: f64 = get s
      %13: f64 = add %12, %11
      set s, %13
    }
    %14: f64 = get s
    store y[%2], %14
  }
}
"""


@witness("declaration-keeps-adjoint")
def _declared_and_not_stored(f):
    """No text of a program declares a local without storing to it."""
    return SimpleNamespace(ir=lambda: parse_kernel(IR))


@witness("nodes-marked")
def _equal_stores(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v, u = 0.5, x[i]
            if c[i] > 1:
                v = u
            if c[i] < 0:
                v = u
            y[i] = v

    return k


LANES = """
kernel k(x: f64[1] grad, w: f64[1] grad, y: f64[1] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: i32 = const 0
    %4: i32 = const 2
    %5: f64 = load x[%2]
    local v: f64
    set v, %5
    BODY
    %20: f64 = get v
    store y[%2], %20
  }
}
"""


@witness("overwritten-element-reread")
def _element_overwritten(f):
    """A recurrence through an element."""
    body = """local_array a: f64[2]
    set_element a[%3], %5
    for %6: i32 in %3 .. %4 {
      %7: f64 = get_element a[%3]
      %8: f64 = sin %7
      set_element a[%3], %8
      %9: f64 = get v
      %10: f64 = mul %9, %7
      set v, %10
    }"""
    return SimpleNamespace(ir=lambda: parse_kernel(LANES.replace("BODY", body)))


@witness("restored-element-reread")
def _element_used_behind_a_write(f):
    body = """local_array a: f64[2]
    set_element a[%3], %5
    for %6: i32 in %3 .. %4 {
      %7: f64 = get_element a[%3]
      %8: f64 = sin %7
      set_element a[%3], %8
      %9: f64 = mul %7, %7
      %10: f64 = get v
      %11: f64 = mul %10, %9
      set v, %11
    }"""
    return SimpleNamespace(ir=lambda: parse_kernel(LANES.replace("BODY", body)))


@witness("restoring-loop-skipped")
def _integer_changed_by_an_inactive_loop(f):
    body = """local_array at: i32[2]
    for %6: i32 in %3 .. %4 {
      for %7: i32 in %3 .. %4 {
        %8: i32 = get_element at[%7]
        %9: i32 = add %8, %6
        %10: i32 = add %9, %7
        %11: i32 = mod %10, %4
        set_element at[%7], %11
      }
      %12: i32 = get_element at[%6]
      %13: f64 = load w[%12]
      %14: f64 = get v
      %15: f64 = mul %14, %13
      %16: f64 = sin %14
      %17: f64 = add %15, %16
      set v, %17
    }"""
    return SimpleNamespace(ir=lambda: parse_kernel(LANES.replace("BODY", body)))


@witness("array-outlives-iteration")
def _array_of_an_iteration(f):
    body = """for %6: i32 in %3 .. %4 {
      local_array a: f64[2]
      %7: f64 = load w[%6]
      set_element a[%6], %7
      %8: f64 = get_element a[%6]
      %9: f64 = get v
      %10: f64 = mul %9, %8
      %11: f64 = get_element a[%3]
      %12: f64 = mul %11, %10
      %13: f64 = add %10, %12
      set v, %13
    }"""
    return SimpleNamespace(ir=lambda: parse_kernel(LANES.replace("BODY", body)))


@witness("mask-not-restored", "lane-across", "sizes-outlive-content")
def _as_often_as_data_say(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            v = x[i]
            for _ in range(c[i]):
                v = sg.sin(v) * 1.5
            y[i] = v

    return k


@witness("tail-lanes-active")
def _sum_of_cosines(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[0] += sg.cos(x[i])

    return k


@witness("zero-is-neutral")
def _maximum_below_zero(f):
    x, z = f.x, f.z

    @sg.kernel
    def k():
        for i in range(4):
            sg.atomic_max(z[0], x[i] - 1.0)

    return k


@witness("own-add-lost")
def _gathered(f):
    x, y, c = f.x, f.y, f.c

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = x[abs(c[i]) // 2] * 2.0

    return k


@witness("slopes-shared")
def _two_sines(f):
    x, w, y = f.x, f.w, f.y

    @sg.kernel
    def k():
        for i in range(4):
            y[i] = sg.sin(x[i]) + sg.sin(w[i] * 2.0)

    return k


@witness("sum-kept-in-half")
def _value_in_half_precision(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in range(4):
            h = sg.cast(x[i], sg.f16)
            a = h - sg.stop_grad(h)  # 0 however it is rounded
            s = 0.0
            for _ in range(3):
                s += a * 1.000244140625  # a slope that half precision takes for 1, and that f32 holds
            y[i] = s

    return k


@witness("wrong-extent")
def _loop_over_an_array(f):
    x, y = f.x, f.y

    @sg.kernel
    def k():
        for i in y:
            y[i] = y[i] + 2.0 * x[i]

    return k
