"""This module defines an entry of the manual: parameters, meaning and derivative of a name of the kernel language."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass

from ...ir.cached import cached_property
from ...ir.ops import OPS


@dataclass(frozen=True)
class Entry:
    """An `Entry` is the manual's text on one name of the kernel language: parameters, meaning, derivative.

    Attributes:
        name: the name, as written after `sg.`.
        parameters: parameters as in a definition, or None for a name that is no function. A parameter without an
            annotation takes any operand.
        doc: first sentence, and further paragraphs after blank lines. `{edges}` stands for the edge cases of the
            operation of the same name, and a placeholder of SHARED for the text there.
        derivative: the rule of differentiation as an equation, such as `d sin(x) = cos(x) * dx`, whose right side is an
            expression of Python; empty for a name without one. For an atomic function it is the differential of the
            element after the call.
        returns: annotation of the result.
    """

    name: str
    parameters: str | None
    doc: str
    derivative: str = ""
    returns: str = "Any"

    @cached_property
    def text(self) -> str:
        """Return the docstring of the name, in which the derivative follows the first paragraph."""
        doc = inspect.cleandoc(self.doc)
        if "{edges}" in doc:
            doc = doc.replace("{edges}", edges(self.name))
        for placeholder, text in SHARED.items():
            doc = doc.replace(placeholder, text)
        first, *rest = map(_wrapped, doc.split("\n\n"))
        of = "" if self.derivative.startswith(f"d {self.name}(") else " of the element after the call"
        derivative = [f"Derivative{of}: `{self.derivative}`."] if self.derivative else []
        return "\n\n".join([first, *derivative, *rest])

    @cached_property
    def signature(self) -> inspect.Signature:
        """Return the Python signature of the name, made from its parameters, without annotations."""
        assert self.parameters is not None, self.name
        made = ast.parse(f"def f({self.parameters}): pass").body[0]
        assert isinstance(made, ast.FunctionDef)
        given = made.args
        kinds = inspect.Parameter
        ordered = [
            *((argument, kinds.POSITIONAL_ONLY) for argument in given.posonlyargs),
            *((argument, kinds.POSITIONAL_OR_KEYWORD) for argument in given.args),
        ]
        without = len(ordered) - len(given.defaults)
        found = [
            kinds(a.arg, kind, default=ast.literal_eval(given.defaults[k - without]) if k >= without else kinds.empty)
            for k, (a, kind) in enumerate(ordered)
        ]
        if given.vararg is not None:
            found.append(kinds(given.vararg.arg, kinds.VAR_POSITIONAL))
        for a, default in zip(given.kwonlyargs, given.kw_defaults):
            value = kinds.empty if default is None else ast.literal_eval(default)
            found.append(kinds(a.arg, kinds.KEYWORD_ONLY, default=value))
        if given.kwarg is not None:
            found.append(kinds(given.kwarg.arg, kinds.VAR_KEYWORD))
        return inspect.Signature(found)


SHARED = {
    "{entrywise}": "Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.",
    "{number}": "A number, or a vector or matrix of numbers.",
    "{draws}": """\
A draw depends on the option `random_seed` of `sg.init`, on the number of the launch, the task, the iteration, and the
number of the draw in its iteration. So two runs with one seed draw the same numbers, on every backend, and the gradient
of a launch sees the draws of this launch. Outside kernels the draw comes from Python's module `random`.""",
    "{atomic}": """\
The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.""",
    "{numbers only}": "KernelTypeError: In a kernel, an argument is a boolean or no number.",
}
"""Text that several entries share, by the placeholder that stands for it in their descriptions."""


def _wrapped(paragraph: str) -> str:
    """Return a paragraph wrapped at 112 characters; indented lines, which belong to sections, stay unchanged."""
    if "\n " in paragraph or paragraph.startswith(" "):
        return paragraph
    return textwrap.fill(" ".join(paragraph.split()), 112, break_long_words=False, break_on_hyphens=False)


def edges(name: str) -> str:
    """Return the sentences on edge cases and accuracy that the table OPS has for an operation."""
    op = OPS[name]
    exact = f"\nA result of f32 or f64 is off by at most {op.ulps:g} units in the last place." if op.ulps >= 1 else ""
    return f"Edge cases: {op.edges}{exact}"
