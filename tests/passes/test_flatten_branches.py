"""Test that nested branches give the same results after they are turned into branches one after the other."""

from __future__ import annotations

import random

import numpy as np
import pytest
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.errors import Unsupported
from stackgrad.compiler.ir.depth import depth_of
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.flatten_branches import flatten_branches
from stackgrad.reference.launch import run

N = 33


class Text:
    """Draws nests of branches and loops over a local, with values, locals and trip counts that cross their runs."""

    def __init__(self, seed: int) -> None:
        self.rng, self.count = random.Random(seed), 10

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def block(self, depth: int, values: list[int]) -> str:
        """Values of the blocks around are read; one more is defined before each branch."""
        got, made, kept = self.fresh(), self.fresh(), f"w{self.fresh()}"
        other = self.rng.choice(values)
        text = f"%{got}: f32 = get v\n%{made}: f32 = add %{got}, %{other}\nlocal {kept}: f32\nset {kept}, %{made}\n"
        values = [*values, made]
        if depth:
            text += self.inner(depth, values)
        back, total = self.fresh(), self.fresh()
        text += f"%{back}: f32 = get {kept}\n%{total}: f32 = mul %{back}, %8\nset v, %{total}\n"
        return text

    def inner(self, depth: int, values: list[int]) -> str:
        if depth % 5 == 0 and self.rng.random() < 0.5:
            trips, number, index = self.fresh(), self.fresh(), self.fresh()
            body = self.block(depth - 1, values)
            return (
                f"for %{index}: i32 in %0 .. %9 trips %{trips}: i32 {{\n{body}}}\n"
                f"%{number}: f32 = cast %{trips}\nset v, %{number}\n"
            )
        test, bound, rest = self.fresh(), self.fresh(), self.fresh()
        head = f"%{bound}: i32 = const {self.rng.randrange(N)}\n%{test}: u1 = cmp_ne %7, %{bound}\n"
        text = f"{head}if %{test} {{\n{self.block(depth - 1, values)}}}"
        if self.rng.random() < 0.4:
            text += f" else {{\n{self.block(self.rng.choice((0, depth // 2)), values)}}}"
        return f"{text}\n%{rest}: f32 = get v\nset v, %{rest}\n"


def kernel(seed: int, depth: int) -> Kernel:
    made = Text(seed)
    body = made.block(depth, [6])
    text = f"""kernel k(x: f32[1] grad, y: f32[1] grad) {{
    bounds {{ %1: i32 = const 0\n %2: i32 = shape x, 0 }} parallel %7: i32 in %1 .. %2 {{
    %0: i32 = const 0\n %9: i32 = const 2\n %8: f32 = const 0.5\n %6: f32 = load x[%7]
    local v: f32\n set v, %6\n {body}\n %3: f32 = get v\n store y[%7], %3 }} }}"""
    parsed = parse_kernel(text)
    verify(parsed, "source")
    return parsed


def content(made: Kernel, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    memory = {name: array.copy() for name, array in arrays.items()}
    run(made, memory, {})
    return memory


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("limit", [2, 3, 7])
def test_the_same_to_the_last_bit(seed: int, limit: int) -> None:
    source = kernel(seed, 14)
    x = np.linspace(0.25, 2, N).astype(np.float32)
    arrays = {"x": x, "y": np.zeros_like(x), "x.grad": np.zeros_like(x), "y.grad": np.ones_like(x)}
    for made, stage, names in (
        (prepare_forward(source).kernel, "structured", ("x", "y")),
        (prepare_reverse(source, taped=True).kernel, "adjoint", ("x", "y", "x.grad", "y.grad")),
    ):
        flat = flatten_branches(made, limit, 99)
        verify(flat, stage)
        assert depth_of(flat.tasks[0].body, 99)[0] <= limit + 2 * 3 or flat is made
        given = {name: arrays[name] for name in names}
        if any(p.name not in given for p in made.params):  # what was there before the launch
            given |= {p.name: x for p in made.params if p.name not in given}
        before, after = content(made, given), content(flat, given)
        for name in names:
            np.testing.assert_array_equal(after[name], before[name])


def test_what_nests_no_deeper_stays_as_it_is() -> None:
    made = prepare_forward(kernel(1, 6)).kernel
    assert flatten_branches(made, 20, 30) is made


def test_loops_within_loops_are_refused_at_their_line() -> None:
    loops = "".join(f"for %{10 + k}: i32 in %0 .. %1 {{\n" for k in range(90))
    text = "kernel k(y: f32[0]) { serial { %0: i32 = const 0\n%1: i32 = const 2\n%2: f32 = const 1.0\n" + loops
    made = parse_kernel(text + "%3: f32 = atomic add y[], %2\n" + "}" * 92, "mine.kir")
    with pytest.raises(Unsupported, match=r"(?s)mine.kir:76:.*loops and branches nest more than 72 deep.*cure"):
        flatten_branches(made, 48, 72)
