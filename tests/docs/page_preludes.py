"""Define the programs that must run before excerpts in pages, so that tests can run the excerpts."""

from __future__ import annotations

_FIELDS = """\
import stackgrad as sg
sg.init(arch=sg.cpu, default_fp=sg.f64)
x = sg.field(sg.f64, shape=16, needs_grad=True)
loss = sg.field(sg.f64, shape=(), needs_grad=True)
v = [1.0] * 16
@sg.kernel
def step():
    for i in x:
        loss[None] += x[i] ** 2
def run():
    step()
"""
_CLASSES = """\
def kernel(view):
    assert view.shape == (16,)
@sg.ad.grad_replaced
def solve(x): ...
@sg.kernel
def square_kernel(x: sg.types.ndarray(), y: sg.types.ndarray()):
    for i in x:
        y[i] = x[i] ** 2
"""

PRELUDES = {
    "diagnosis.md": _FIELDS,
    "examples.md": """\
import stackgrad as sg
sg.init(arch=sg.cpu, default_fp=sg.f64)
n = sg.field(sg.i32, shape=2)
y = sg.field(sg.f64, shape=2, needs_grad=True)
w = sg.field(sg.f64, shape=(), needs_grad=True)
""",
    "migrating.md": _FIELDS,
    "reference.md": _FIELDS + _CLASSES,
}
"""For each page with excerpts, the program before each of its blocks."""

LIBRARIES = {
    "sg.jax.": ("jax", "import jax\nx = jax.numpy.arange(3.0)\n"),
    "sg.torch.": ("torch", "import torch\nx = torch.arange(3.0, requires_grad=True)\n"),
}
"""Words of a block that needs another library: its name, and what stands before such a block as well."""


def prelude(page: str, code: str) -> tuple[str, list[str]]:
    """Return the program before a block, and the names of the libraries that the block needs."""
    needed = [entry for words, entry in LIBRARIES.items() if words in code]
    return PRELUDES[page] + "".join(lines for _, lines in needed), [name for name, _ in needed]
