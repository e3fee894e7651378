"""Test random small kernels: both oracles and the Taylor remainder agree on them.

The generator nests loops, branches and exits to a depth of three over two mutable scalars and a local array. All
arithmetic is tame (sin, tanh, products with a factor below one), so that any program stays away from singular points;
only the decisions are taken on data, and a point so near a decision that a Taylor step crosses it is unlikely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

PARAMS = "x: f64[1] grad, n: i32[1], y: f64[1] grad"
REAL_OPS = ("add", "sub", "min", "max")


class Generator:
    """Writes the body of a parallel task. Values defined in a block are not used outside it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.next_id = 10

    def pick(self, options: Any) -> Any:
        return options[self.rng.integers(len(options))]

    def value(self, dtype: str, text: str) -> tuple[str, str]:
        self.next_id += 1
        return f"%{self.next_id}", f"%{self.next_id}: {dtype} = {text}"

    def body(self) -> str:
        """Loads, a random block, and a store that depends on all state."""
        lines = [
            "local a: f64",
            "local b: f64",
            "local_array h: f64[3]",
            "%3: f64 = load x[%2]",
            "%4: i32 = load n[%2]",
            "set a, %3",
            "%5: f64 = const 0.7",
            "set b, %5",
        ]
        lines += self.block(["%3"], ["%0", "%4", "%2"], depth=0, loops=0)
        a, get_a = self.value("f64", "get a")
        b, get_b = self.value("f64", "get b")
        c, product = self.value("f64", f"mul {a}, {b}")
        return "\n".join([*lines, get_a, get_b, product, f"store y[%2], {c}"])

    def block(self, reals: list[str], ints: list[str], depth: int, loops: int) -> list[str]:
        reals, lines = list(reals), []
        if depth < 2:
            lines += self._for(reals, ints, depth, loops)
        for _ in range(self.rng.integers(1, 4)):
            kinds = ["compute", "compute", "element"] + (["if"] if depth < 3 else [])
            lines += getattr(self, f"_{self.pick(kinds)}")(reals, ints, depth, loops)
        return lines

    def _compute(self, reals: list[str], ints: list[str], depth: int, loops: int) -> list[str]:
        """Update a scalar local from itself and a value in scope."""
        var = self.pick("ab")
        old, get = self.value("f64", f"get {var}")
        half, const = self.value("f64", f"const {self.rng.uniform(0.3, 0.9):.3f}")
        scaled, mul = self.value("f64", f"mul {self.pick(reals)}, {half}")
        mixed, mix = self.value("f64", f"{self.pick(REAL_OPS)} {old}, {scaled}")
        new, bound = self.value("f64", f"{self.pick(('sin', 'tanh', 'cos'))} {mixed}")
        reals.append(new)
        return [get, const, mul, mix, bound, f"set {var}, {new}"]

    def _element(self, reals: list[str], ints: list[str], depth: int, loops: int) -> list[str]:
        """h[i mod 3] = tanh(h[j mod 3] + value)."""
        three, const = self.value("i32", "const 3")
        at, index = self.value("i32", f"mod {self.pick(ints)}, {three}")
        to, target = self.value("i32", f"mod {self.pick(ints)}, {three}")
        old, get = self.value("f64", f"get_element h[{at}]")
        mixed, mix = self.value("f64", f"add {old}, {self.pick(reals)}")
        new, bound = self.value("f64", f"tanh {mixed}")
        reals.append(old)
        return [const, index, target, get, mix, bound, f"set_element h[{to}], {new}"]

    def _if(self, reals: list[str], ints: list[str], depth: int, loops: int) -> list[str]:
        cut, const = self.value("f64", f"const {self.rng.uniform(-0.5, 0.5):.4f}")
        cond, compare = self.value("u1", f"cmp_gt {self.pick(reals)}, {cut}")
        then = self.block(reals, ints, depth + 1, loops)
        if loops and self.rng.random() < 0.7:
            then.append(f"{self.pick(('break', 'continue'))} {self.rng.integers(1, loops + 1)}")
        orelse = self.block(reals, ints, depth + 1, loops) if self.rng.random() < 0.5 else []
        return [const, compare, f"if {cond} {{", *then, *(["} else {", *orelse] if orelse else []), "}"]

    def _for(self, reals: list[str], ints: list[str], depth: int, loops: int) -> list[str]:
        end, bound = self.value("i32", "const 3")
        order = self.pick(("", "descending", "step 2"))
        self.next_id += 1
        index = f"%{self.next_id}"
        body = self.block(reals, [*ints, index], depth + 1, loops + 1)
        begin = self.pick(ints)
        return [bound, f"for {index}: i32 in {begin} .. {self.pick((end, '%4'))} {order} {{", *body, "}"]


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(16))
def test_oracles_agree(seed: int, parallel: Callable[..., Any], compare: Callable[..., Any]) -> None:
    rng = np.random.default_rng(100 + seed)
    arrays = {"x": rng.normal(size=5), "n": rng.integers(-1, 5, 5).astype(np.int32), "y": np.zeros(5)}
    compare(parallel(PARAMS, Generator(seed).body()), arrays)


def test_the_generator_reaches_what_matters() -> None:
    bodies = [Generator(seed).body() for seed in range(16)]
    for construct in ("break 1", "break 2", "continue 1", "descending", "step 2", "set_element", "} else {"):
        assert sum(construct in body for body in bodies) >= 2, construct
    assert sum(body.count("for ") >= 3 for body in bodies) >= 4
