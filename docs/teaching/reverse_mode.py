"""Reverse mode through loops, small enough to read in one sitting:  python docs/teaching/reverse_mode.py

This file differentiates parallel kernels with loops whose bounds are known at run time only. It uses the ideas of
`compiler/ad/` and shares no code with it. Read it from top to bottom: a small language, its interpreter, the reverse
transform, which turns a kernel into a kernel, and a check by dual numbers and finite differences.
"""

from __future__ import annotations

import ast
import inspect
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# ---- 1. Kernels ---------------------------------------------------------------------------------------------
# All values are numbers in named variables. A variable may be assigned again, and this makes reverse mode hard:
# the derivative of `v = sin(v)` reads the old v, which the assignment has destroyed. A statement is a tuple:
#     ("number", to, value)                 to = value
#     ("op", to, name, args)                to = name(args)
#     ("load", to, array, index)            to = array[index]
#     ("store", array, index, value)        array[index] = value
#     ("atomic", array, index, value)       array[index] += value, while other iterations do the same
#     ("if", test, then, other)
#     ("for", index, begin, end, body, way) for index in range(begin, end), which alone assigns it; way -1: backward
#     ("push", name)                        the value of the variable goes on its adstack
#     ("pop", name)                         the variable becomes what was pushed last
Stmt = tuple[Any, ...]
Block = tuple[Stmt, ...]
Kernel = tuple[str, Block]  # a parallel loop: the variable with the number of the iteration, and what each one does
Arrays = dict[str, np.ndarray]
BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Lt: "less"}


@dataclass
class Builder:
    """Appends the statements that a piece of Python stands for, and names what has no name."""

    prefix: str
    count: Counter[str] = field(default_factory=Counter)
    out: list[Stmt] = field(default_factory=list)

    def put(self, kind: str, *parts: Any) -> str:
        """Append a statement that gives a value; the answer is the new variable that holds the value."""
        self.count[self.prefix] += 1
        self.out.append((kind, to := f"{self.prefix}{self.count[self.prefix]}", *parts))
        return to

    def value(self, node: ast.expr, names: dict[str, str]) -> str:
        """The variable that holds an expression, with other names for the variables in `names`."""
        match node:
            case ast.Name(name):
                return names.get(name, name)
            case ast.Constant(value):
                return self.put("number", value)
            case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
                return self.put("op", BINARY[type(op)], (self.value(left, names), self.value(right, names)))
            case ast.Call(ast.Attribute(_, function), args):
                return self.put("op", function, tuple(self.value(a, names) for a in args))
            case ast.Subscript(ast.Name(array), index):
                return self.put("load", array, self.value(index, names))
        raise SyntaxError(f"not part of this language: {ast.unparse(node)}")

    def frozen(self, node: ast.expr) -> str:
        """A variable for a test or bound alone: the block behind it may assign those that the expression reads."""
        return self.put("op", "copy", (self.value(node, {}),))

    def statement(self, node: ast.stmt) -> None:
        """Append what a statement of Python stands for. Raises SyntaxError."""
        match node:
            case ast.Assign([ast.Name(to)], e):
                self.out.append(("op", to, "copy", (self.value(e, {}),)))
            case ast.Assign([ast.Subscript(ast.Name(array), index)], e):
                self.out.append(("store", array, self.value(index, {}), self.value(e, {})))
            case ast.AugAssign(ast.Subscript(ast.Name(array), index), ast.Add(), e):
                self.out.append(("atomic", array, self.value(index, {}), self.value(e, {})))
            case ast.If(test, then, other):
                self.out.append(("if", self.frozen(test), self.block(then), self.block(other)))
            case ast.For(ast.Name(index), ast.Call(ast.Name("range"), [*begin, end]), body):
                first = self.frozen(begin[0]) if begin else self.put("number", 0)
                self.out.append(("for", index, first, self.frozen(end), self.block(body), 1))
            case _:
                raise SyntaxError(f"not part of this language: {ast.unparse(node)}")

    def block(self, nodes: list[ast.stmt]) -> Block:
        """The statements of an indented block."""
        inner = Builder(self.prefix, self.count)
        for node in nodes:
            inner.statement(node)
        return tuple(inner.out)


def kernel(function: Callable[..., None]) -> Kernel:
    """The kernel that a Python function stands for. Its first argument is the iteration, the others are arrays."""
    node = ast.parse(inspect.getsource(function)).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node.args.args[0].arg, Builder("t").block(node.body)


# ---- 2. The interpreter -------------------------------------------------------------------------------------
OPS: dict[str, Callable[..., Any]] = {
    "copy": lambda x: x, "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "less": lambda x, y: x.real < y.real, "sin": np.sin, "cos": np.cos, "exp": np.exp,
}  # fmt: skip


def execute(block: Block, v: dict[str, Any], arrays: Arrays, stacks: dict[str, list[float]]) -> None:
    """Run statements in order. v: the variables of one iteration."""
    for statement in block:
        match statement:
            case "number", to, value:
                v[to] = value
            case "op", to, name, args:
                v[to] = OPS[name](*(v[a] for a in args))
            case "load", to, array, index:
                v[to] = arrays[array][v[index]]
            case "store", array, index, value:
                arrays[array][v[index]] = v[value]
            case "atomic", array, index, value:
                arrays[array][v[index]] += v[value]
            case "if", test, then, other:
                execute(then if v[test] else other, v, arrays, stacks)
            case "for", index, begin, end, body, way:
                for trip in range(v[begin], v[end])[::way]:
                    v[index] = trip
                    execute(body, v, arrays, stacks)
            case "push", name:
                stacks[name].append(v[name])
            case "pop", name:
                v[name] = stacks[name].pop()


def run(k: Kernel, order: list[int], arrays: Arrays) -> Arrays:
    """The arrays after a launch. Iterations of a parallel loop may come in any order; the caller chooses one."""
    arrays = {name: content.copy() for name, content in arrays.items()}
    for i in order:
        stacks: dict[str, list[float]] = defaultdict(list)  # each iteration has adstacks of its own
        execute(k[1], defaultdict(float, {k[0]: i}), arrays, stacks)
        assert not any(stacks.values()), "what is pushed is popped"
    return arrays


# ---- 3. The reverse transform -------------------------------------------------------------------------------
# The adjoint of a variable, `v.adj`, is the derivative of the final result by the present value of the variable; the
# array `x.adj` holds those of the elements of x. The gradient of an iteration has two parts. The *forward sweep* runs
# the body again without its effects, and pushes what assignments destroy. The *reverse sweep* takes the body from the
# last statement to the first; each statement hands the adjoint of its result to its operands. Pops undo what came
# later, so variables hold what the statement read. A row has the derivative of an operation by its operands x and y.
RULES: dict[str, tuple[str, ...]] = {
    "copy": ("1.0",), "add": ("1.0", "1.0"), "sub": ("1.0", "0.0 - 1.0"), "mul": ("y", "x"),
    "div": ("1.0 / y", "(0.0 - x) / (y * y)"), "less": (), "sin": ("np.cos(x)",),
    "cos": ("0.0 - np.sin(x)",), "exp": ("np.exp(x)",),
}  # fmt: skip


def statements(block: Block, in_loop: bool = False) -> Iterator[tuple[Stmt, bool]]:
    """All statements of a block, at any depth, and whether a serial loop of the block is around each."""
    for s in block:
        yield s, in_loop
        for inner in s[2:4] if s[0] == "if" else s[4:5] if s[0] == "for" else ():
            yield from statements(inner, in_loop or s[0] == "for")


def saved(body: Block) -> set[str]:
    """Variables that need an adstack: assigned more than once, in the text or by a loop, and read in reverse."""
    times: Counter[str] = Counter()
    read: set[str] = set()
    for s, in_loop in statements(body):
        if s[0] in ("number", "op", "load"):
            times[s[1]] += 2 if in_loop else 1
        match s:
            case "op", _, op, args:  # its rules say which operands they read
                names = re.findall(r"\b[xy]\b", " ".join(RULES[op]))
                read |= {arg for name, arg in zip("xy", args) if name in names}
            case ("load", _, _, index) | ("store" | "atomic", _, index, _):
                read.add(index)
            case "if", test, _, _:
                read.add(test)
            case "for", _, begin, end, _, _:
                read |= {begin, end}
    return {variable for variable in read if times[variable] > 1}


def forward(block: Block, stacks: set[str]) -> Block:
    """A block without effects on memory, which pushes each value of a saved variable before it is overwritten."""
    out: list[Stmt] = []
    for s in (s for s in block if s[0] not in ("store", "atomic")):
        match s:
            case "if", test, then, other:
                s = ("if", test, forward(then, stacks), forward(other, stacks))
            case "for", index, begin, end, body, way:
                s = ("for", index, begin, end, forward(body, stacks), way)
            case "number" | "op" | "load", to, *_ if to in stacks:
                out.append(("push", to))
        out.append(s)
    return tuple(out)


def reverse(block: Block, stacks: set[str], count: Counter[str]) -> Block:
    """The reverse sweep of a block. A branch goes the way that it went, a loop visits its trips last to first."""
    b = Builder("r", count)
    for s in reversed(block):
        match s:
            case "number", to, _:
                take(b, to, stacks)
            case "op", to, op, args:
                share = take(b, to, stacks)
                for arg, rule in zip(args, RULES[op]):
                    slope = b.value(ast.parse(rule, mode="eval").body, dict(zip("xy", args)))
                    give(b, arg, b.put("op", "mul", (slope, share)))
            case "load", to, array, index:  # several iterations may have read the element: their sum must be atomic
                b.out.append(("atomic", f"{array}.adj", index, take(b, to, stacks)))
            case "store", array, index, value:  # the element holds something else from here on, so its adjoint ends
                give(b, value, b.put("load", f"{array}.adj", index))
                b.out.append(("store", f"{array}.adj", index, b.put("number", 0.0)))
            case "atomic", array, index, value:
                give(b, value, b.put("load", f"{array}.adj", index))
            case "if", test, then, other:
                b.out.append(("if", test, reverse(then, stacks, count), reverse(other, stacks, count)))
            case "for", index, begin, end, body, way:
                b.out.append(("for", index, begin, end, reverse(body, stacks, count), -way))
    return tuple(b.out)


def take(b: Builder, to: str, stacks: set[str]) -> str:
    """Undo an assignment: its adjoint leaves the variable, and the variable holds again what it held before."""
    share = b.put("op", "copy", (f"{to}.adj",))
    b.out += [("number", f"{to}.adj", 0.0), *([("pop", to)] if to in stacks else [])]
    return share


def give(b: Builder, variable: str, share: str) -> None:
    """Add a share to the adjoint of a variable."""
    b.out.append(("op", f"{variable}.adj", "add", (f"{variable}.adj", share)))


def gradient(k: Kernel) -> Kernel:
    """The kernel that adds derivatives to `x.adj`, given those of the results. Raises ValueError where it has none."""
    index, body = k
    every = [s for s, _ in statements(body)]
    if lost := {s[1] for s in every if s[0] in ("store", "atomic")} & {s[2] for s in every if s[0] == "load"}:
        raise ValueError(f"the kernel overwrites {sorted(lost)}, so its forward sweep would read other values")
    stacks = saved(body)
    return index, forward(body, stacks) + reverse(body, stacks, Counter())


# ---- 4. The check -------------------------------------------------------------------------------------------
def walk(i, x, n, w, y, s):  # type: ignore[no-untyped-def]
    v = x[i]
    m = n[i]
    u = 1.0
    for j in range(m):  # each iteration has its own number of trips, which may be none
        if v < 0.5:  # the branch changes what its condition reads
            v = np.cos(v) * w[j]
        else:
            for k in range(j, n[j]):  # each trip has its own bounds
                v = np.sin(v * v + w[k]) / (1.0 + v * v)
                u = u + v
        m = m - 1  # the loop keeps the bound that it began with
        old = u  # a swap
        u = v * x[m]
        v = np.exp(old * 0.1)
        s[m] += u * v * w[j]  # several iterations add to one element
    y[i] = u * v


def check(function: Callable[..., None], arrays: Arrays, rng: np.random.Generator) -> float:
    """Judge the gradient of a weighted sum of all results; gives the largest difference from dual numbers."""
    k, ways = kernel(function), list(rng.permutation(len(arrays["n"])))
    ours, python = run(k, ways, arrays), {name: a.copy() for name, a in arrays.items()}
    for i in ways:
        function(i, *python.values())
    assert all(np.array_equal(ours[name], python[name]) for name in arrays), "the kernel computes what Python does"
    weights = {name: rng.normal(size=len(a)) for name, a in arrays.items() if a.dtype == float}
    adjoints = {f"{name}.adj": weights.get(name, np.zeros(len(a))) for name, a in arrays.items()}
    found = run(gradient(k), ways[::-1], arrays | adjoints)

    def result(name: str, at: int, step: complex) -> complex:
        moved = arrays | {other: arrays[other] + 0j for other in weights}
        moved[name][at] += step
        return complex(sum(np.sum(weights[other] * a) for other, a in run(k, ways, moved).items() if other in weights))

    tiny, h, worst = 1e-200, 6e-6, 0.0  # a + tiny·i is a dual number, as tiny² is 0; h is the cube root of rounding
    for name, at in [(n, at) for n in weights for at in range(len(arrays[n]))]:
        adjoint, dual = found[f"{name}.adj"][at], result(name, at, tiny * 1j).imag / tiny
        quotient = ((result(name, at, h) - result(name, at, -h)) / (2 * h)).real
        worst = max(worst, abs(adjoint - dual) / (1.0 + abs(dual)))
        assert worst < 1e-12 and abs(quotient - dual) < 1e-7 * (1.0 + abs(dual)), (name, at, adjoint, dual, quotient)
    return worst


if __name__ == "__main__":
    seeded = np.random.default_rng(1)
    data: Arrays = {name: seeded.normal(size=8) for name in "xnwys"} | {"n": np.array([5, 0, 7, 1, 3, 8, 2, 6])}
    print(f"largest difference between the gradient and dual numbers: {check(walk, data, seeded):.1e}")
