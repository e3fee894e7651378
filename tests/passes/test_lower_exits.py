"""Test the lowering of early exits to flags, for exits at every place of a kernel."""

from __future__ import annotations

import numpy as np
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.lower_exits import lower_exits
from stackgrad.reference.launch import run


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


def test_a_kernel_that_returned_before_may_return_again() -> None:
    """Exits of a kernel are lowered twice where a later pass adds a return: both have a temporary of their own."""
    kernel = parse_kernel("""
        kernel k(x: f64[1], c: i32[0]) {
          temp $returned: u1
          serial {
            %0: u1 = const true
            store $returned[], %0
          }
          serial {
            %1: i32 = load c[]
            %2: i32 = const 2
            %3: u1 = cmp_gt %1, %2
            if %3 {
              return
            }
          }
          bounds {
            %4: i32 = const 0
            %5: i32 = shape x, 0
          } parallel %6: i32 in %4 .. %5 {
            %7: f64 = const 1.0
            store x[%6], %7
          }
        }
    """)
    lowered = lower_exits(kernel)
    verify(lowered, "structured")
    assert [t.name for t in lowered.temps] == ["$returned", "$returned.1"]
    x = np.zeros(3)
    run(lowered, {"x": x, "c": np.array(0, np.int32)}, {})
    assert x.tolist() == [1.0] * 3
