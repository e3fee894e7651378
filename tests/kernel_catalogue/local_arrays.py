"""Define kernels of the catalogue with local arrays, as IR text, because it has dynamic indices into them."""

from __future__ import annotations

from types import SimpleNamespace

from stackgrad.compiler.ir.parser import parse_kernel

from .entry import entry

LANES = """
kernel k(x: f64[1] grad, w: f64[1] grad, y: f64[1] grad, c: i32[1]) {{
  bounds {{
    %0: i32 = const 0
    %1: i32 = shape x, 0
  }} parallel %2: i32 in %0 .. %1 {{
    %3: i32 = const 0
    %4: i32 = const 1
    %5: i32 = const 2
    %6: i32 = const 3
    %7: f64 = load x[%2]
    %8: i32 = load c[%2]
    %9: i32 = add %8, %6
    %10: f64 = const 0.5
    {body}
  }}
}}
"""


def lanes(body: str) -> SimpleNamespace:
    """Return a kernel over lanes: %2 is the lane, %3 .. %6 are 0 .. 3, %7 is x[lane], %9 is c[lane] + 3, %10 is 0.5."""
    return SimpleNamespace(ir=lambda: parse_kernel(LANES.format(body=body)))


@entry(
    "a read of a local array is repeated only where it finds the same",
    "overwritten-element-reread",
    "restored-element-reread",
)
def _element_overwritten(f):
    return lanes("""
    local_array a: f64[3]
    %11: f64 = load w[%2]
    set_element a[%3], %7
    set_element a[%4], %11
    set_element a[%5], %10
    for %12: i32 in %3 .. %6 {
      %13: i32 = add %9, %12
      %14: i32 = mod %13, %6
      %15: f64 = get_element a[%14]
      %16: f64 = sin %15
      set_element a[%14], %16
      %17: i32 = add %14, %4
      %18: i32 = mod %17, %6
      %19: f64 = mul %15, %15
      set_element a[%18], %19
    }
    %20: f64 = get_element a[%3]
    %21: f64 = get_element a[%4]
    %22: f64 = get_element a[%5]
    %23: f64 = mul %20, %21
    %24: f64 = add %23, %22
    store y[%2], %24""")


@entry("an array declared in a loop ends with the iteration", "array-outlives-iteration")
def _array_of_an_iteration(f):
    return lanes("""
    local v: f64
    set v, %7
    for %11: i32 in %3 .. %6 {
      local_array a: f64[3]
      %12: f64 = get v
      %13: f64 = load w[%11]
      set_element a[%3], %12
      set_element a[%4], %13
      set_element a[%5], %10
      %14: i32 = add %9, %11
      %15: i32 = mod %14, %6
      %16: i32 = add %15, %4
      %17: i32 = mod %16, %6
      %18: f64 = get_element a[%15]
      %19: f64 = get_element a[%17]
      %20: f64 = mul %18, %19
      %21: f64 = sin %20
      %22: f64 = add %21, %12
      set v, %22
    }
    %23: f64 = get v
    store y[%2], %23""")


@entry("a slope belongs to one operation and operand", "slopes-shared")
def _two_sines(f):
    """Return a loop of three trips of which only the slopes are saved."""
    return lanes("""
    local v: f64
    local u: f64
    %11: f64 = load w[%2]
    set v, %7
    set u, %11
    for %12: i32 in %3 .. %6 {
      %13: f64 = get v
      %14: f64 = sin %13
      set v, %14
      %15: f64 = get u
      %16: f64 = sin %15
      set u, %16
    }
    %17: f64 = get v
    %18: f64 = get u
    %19: f64 = mul %17, %18
    store y[%2], %19""")


@entry(
    "a loop that restores elements is reversed, active or not", "restoring-loop-skipped", "overwritten-element-reread"
)
def _integers_changed_by_an_inactive_loop(f):
    return lanes("""
    local_array at: i32[3]
    set_element at[%4], %4
    set_element at[%5], %5
    local v: f64
    set v, %7
    for %11: i32 in %3 .. %6 {
      for %12: i32 in %3 .. %6 {
        %13: i32 = get_element at[%12]
        %14: i32 = add %13, %11
        %15: i32 = add %14, %4
        %16: i32 = mod %15, %6
        set_element at[%12], %16
      }
      %17: i32 = get_element at[%11]
      %18: f64 = load w[%17]
      %19: f64 = get v
      %20: f64 = mul %19, %18
      %21: f64 = sin %19
      %22: f64 = add %20, %21
      set v, %22
    }
    %23: f64 = get v
    store y[%2], %23""")
