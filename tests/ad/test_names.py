"""Test that names of users never collide with names that the reverse transform makes."""

from __future__ import annotations

import numpy as np
from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_for_ad, prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.walk import next_id

TEXT = """kernel run(x: f64[0] grad, y: f64[0] grad, n: i32[0]) {{
  serial {{
    %0: f64 = load x[]
    local {name}: f64
    set {name}, %0
    %1: i32 = const 0
    %2: i32 = load n[]
    for %3: i32 in %1 .. %2 {{
      %4: f64 = get {name}
      %5: f64 = sin %4
      set {name}, %5
    }}
    %6: f64 = get {name}
    store y[], %6
  }}
}}"""


def gradient(name: str, lowering: str) -> float:
    arrays = {"x": np.array(0.7), "y": np.array(0.0), "n": np.array(3, np.int32)}
    arrays |= {"x.grad": np.array(0.0), "y.grad": np.array(1.0)}
    lowered = prepare_reverse(parse_kernel(TEXT.format(name=name)), lowering, check=True)
    Launcher(lowered, registry.get("reference"), Options()).run(arrays, {})
    return float(arrays["x.grad"])


def test_every_name_that_might_clash():
    value, want = 0.7, 1.0
    for _ in range(3):
        value, want = np.sin(value), want * np.cos(value)
    highest = next_id(prepare_for_ad(parse_kernel(TEXT.format(name="v"))))
    names = [f"{stem}{k}" for stem in ("s", "t0.s", "t0.kept", "t0.adj.", "t0.of.s", "of.s") for k in range(highest)]
    for name in [*names, "t0", "t0.adj.v", "prelude.v", "count.v", "depth.t0.v"]:
        for lowering in ("lean", "classic"):
            assert abs(gradient(name, lowering) - want) < 1e-15, (name, lowering)
