"""Exits lowered to flags: what every place of a kernel may hold them."""

from __future__ import annotations

from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.lower_exits import lower_exits


def test_bounds_of_a_task_are_lowered_too() -> None:
    """A function with an early return that bounds a parallel loop; its loads count among those at risk."""
    kernel = parse_kernel("""
        kernel k(x: f64[1] grad, c: i32[0], y: f64[1] grad) {
          bounds {
            %0: i32 = const 0
            local r: i32
            scope {
              %1: i32 = load c[]
              %2: i32 = const 2
              %3: u1 = cmp_gt %1, %2
              if %3 {
                set r, %2
                break 1
              }
              set r, %1
            }
            %4: i32 = get r
          } parallel %5: i32 in %0 .. %4 {
            %6: f64 = load x[%5]
            %7: f64 = mul %6, %6
            store y[%5], %7
          }
        }
    """)
    verify(lower_exits(kernel), "structured")
