"""Draw random IR over local arrays, which are declared at the top level, in loops and in branches, and used everywhere.

Indices are loop indices, data and integers that loops carry, so that some writes hit elements that were read before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PARAMS = "x: f64[1] grad, n: i32[1], y: f64[1] grad"
SIZE = 3


class Generator:
    """Write the random body of a parallel task over x[%2] and n[%2], whose store to y[%2] depends on all its state."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.next_id = 10
        self.arrays = 0

    def pick(self, options: Any) -> Any:
        return options[self.rng.integers(len(options))]

    def value(self, dtype: str, text: str) -> tuple[str, str]:
        self.next_id += 1
        return f"%{self.next_id}", f"%{self.next_id}: {dtype} = {text}"

    def body(self) -> str:
        lines = ["local a: f64", "local k: i32", "%3: f64 = load x[%2]", "%4: i32 = load n[%2]", "set a, %3"]
        declared = self.declare(lines)
        lines += self.block(["%3"], ["%4", "%2"], [declared], depth=0, loops=0)
        total, get = self.value("f64", "get a")
        lines.append(get)
        for at in range(SIZE):
            index, const = self.value("i32", f"const {at}")
            element, read = self.value("f64", f"get_element {declared}[{index}]")
            weight, factor = self.value("f64", f"const {at + 0.5}")
            scaled, mul = self.value("f64", f"mul {element}, {weight}")
            total, add = self.value("f64", f"add {total}, {scaled}")
            lines += [const, read, factor, mul, add]
        return "\n".join([*lines, f"store y[%2], {total}"])

    def declare(self, lines: list[str]) -> str:
        self.arrays += 1
        lines.append(f"local_array h{self.arrays}: f64[{SIZE}]")
        return f"h{self.arrays}"

    def block(self, reals: list[str], ints: list[str], arrays: list[str], depth: int, loops: int) -> list[str]:
        reals, ints, arrays, lines = list(reals), list(ints), list(arrays), []
        if depth and self.rng.random() < 0.4:
            arrays.append(self.declare(lines))
        for _ in range(self.rng.integers(2, 5)):
            kinds = ["_write", "_write", "_use", "_use", "_count"] + (["_if", "_loop", "_while"] if depth < 3 else [])
            lines += getattr(self, self.pick(kinds))(reals, ints, arrays, depth, loops)
        return lines

    def _index(self, ints: list[str]) -> tuple[str, list[str]]:
        size, const = self.value("i32", f"const {SIZE}")
        at, mod = self.value("i32", f"mod {self.pick(ints)}, {size}")
        return at, [const, mod]

    def _count(self, reals: list[str], ints: list[str], arrays: list[str], depth: int, loops: int) -> list[str]:
        """Write code that changes an integer which each trip passes to the next and which later indices use."""
        old, get = self.value("i32", "get k")
        new, add = self.value("i32", f"add {old}, {self.pick(ints)}")
        ints.append(new)
        return [get, add, f"set k, {new}"]

    def _write(self, reals: list[str], ints: list[str], arrays: list[str], depth: int, loops: int) -> list[str]:
        """Write code that stores a function of a real to an element h[i], sometimes of an inactive value."""
        at, lines = self._index(ints)
        if self.rng.random() < 0.15:
            new, made = self.value("f64", f"cast {self.pick(ints)}")
        else:
            new, made = self.value("f64", f"{self.pick(('sin', 'tanh', 'cos'))} {self.pick(reals)}")
        return [*lines, made, f"set_element {self.pick(arrays)}[{at}], {new}"]

    def _use(self, reals: list[str], ints: list[str], arrays: list[str], depth: int, loops: int) -> list[str]:
        """Write t = h[i]; a = sin(a * t + r), so that the reverse sweep reads both operands of the product."""
        at, lines = self._index(ints)
        element, read = self.value("f64", f"get_element {self.pick(arrays)}[{at}]")
        old, get = self.value("f64", "get a")
        product, mul = self.value("f64", f"mul {old}, {element}")
        mixed, add = self.value("f64", f"add {product}, {self.pick(reals)}")
        new, bound = self.value("f64", f"{self.pick(('sin', 'tanh'))} {mixed}")
        reals += [element, new]
        return [*lines, read, get, mul, add, bound, f"set a, {new}"]

    def _if(self, reals: list[str], ints: list[str], arrays: list[str], depth: int, loops: int) -> list[str]:
        cut, const = self.value("f64", f"const {self.rng.uniform(-0.5, 0.5):.4f}")
        cond, compare = self.value("u1", f"cmp_gt {self.pick(reals)}, {cut}")
        then = self.block(reals, ints, arrays, depth + 1, loops)
        if loops and self.rng.random() < 0.4:
            then.append(f"{self.pick(('break', 'continue'))} {self.rng.integers(1, loops + 1)}")
        orelse = self.block(reals, ints, arrays, depth + 1, loops) if self.rng.random() < 0.5 else []
        return [const, compare, f"if {cond} {{", *then, *(["} else {", *orelse] if orelse else []), "}"]

    def _loop(self, reals: list[str], ints: list[str], arrays: list[str], depth: int, loops: int) -> list[str]:
        zero, const = self.value("i32", "const 0")
        end, bound = self.value("i32", "const 3")
        self.next_id += 1
        index = f"%{self.next_id}"
        body = self.block(reals, [*ints, index], arrays, depth + 1, loops + 1)
        return [const, bound, f"for {index}: i32 in {zero} .. {self.pick((end, '%4'))} {{", *body, "}"]

    def _while(self, reals: list[str], ints: list[str], arrays: list[str], depth: int, loops: int) -> list[str]:
        """Write a loop of at most three trips, whose condition counts in an integer array that the body reads."""
        self.arrays += 1
        name = f"g{self.arrays}"
        here, at = self.value("i32", f"const {self.rng.integers(SIZE)}")
        one, const = self.value("i32", "const 1")
        limit, last = self.value("i32", "const 3")
        old, get = self.value("i32", f"get_element {name}[{here}]")
        new, add = self.value("i32", f"add {old}, {one}")
        test, compare = self.value("u1", f"cmp_lt {old}, {limit}")
        count, read = self.value("i32", f"get_element {name}[{here}]")
        body = self.block(reals, [*ints, count, count], arrays, depth + 1, loops + 1)
        condition = [get, add, f"set_element {name}[{here}], {new}", compare]
        head = [f"local_array {name}: i32[{SIZE}]", at, const, last]
        return [*head, "while {", *condition, f"}} test {test} {{", read, *body, "}"]


def make_text(seed: int) -> str:
    """Return the text of a random kernel of stage source."""
    lines = Generator(seed).body()
    return (
        f"kernel random_arrays({PARAMS}) {{\n  bounds {{ %0: i32 = const 0  %1: i32 = shape x, 0 }}\n"
        f"  parallel %2: i32 in %0 .. %1 {{\n{lines}\n  }}\n}}"
    )


def make_arrays(seed: int, lanes: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1000 + seed)
    return {"x": rng.normal(size=lanes), "n": rng.integers(-1, 5, lanes).astype(np.int32), "y": rng.normal(size=lanes)}
