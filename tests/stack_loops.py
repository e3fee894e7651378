"""Define parts of kernels in IR text that push to and pop from three adstacks, of f32, of a type T and of u1."""

from __future__ import annotations

TAIL = """ %90: f64 = get sum store out[%2], %90 } }"""

READ = "%21: f32 = adstack_load_top s %22: T = adstack_load_top t %23: u1 = adstack_load_top u"
POP = "adstack_pop s adstack_pop t adstack_pop u"
ADD = """%24: f32 = cos %21 %25: f64 = cast %24 %26: f64 = cast %22 %27: f64 = add %25, %26
%28: f64 = select %23, %27, %7 %29: f64 = get sum %30: f64 = mul %29, %7 %31: f64 = add %30, %28 set sum, %31"""
