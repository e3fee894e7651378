"""Compare kernels, as text, before and after a pass."""

from __future__ import annotations

from collections.abc import Callable

from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import renumber

from .random_kernels import execute, random_kernel, same

Pass = Callable[[Kernel], Kernel]

HEAD = """\
kernel k(a: f32[1] grad, b: f32[1], m: i32[1], flags: u1[1], n: i32, x: f32, p: u1) {
  temp $t: f32
  temp $u: i32
  serial {
    %0: i32 = arg n
    %1: f32 = arg x
    %2: u1 = arg p
"""


def serial(text: str) -> Kernel:
    """Return a kernel of one serial task with %0 = n: i32, %1 = x: f32 and %2 = p: u1; `;` separates statements."""
    return parse_kernel(HEAD + text.replace(";", "\n") + "\n  }\n}")


def stage_of(text: str) -> str:
    """Return the stage that permits the statements of a text."""
    return "adjoint" if "adstack" in text or ".grad" in text else "tasks"


def check(change: Pass, before: str, after: str) -> None:
    """Assert that a pass turns the first body into the second, and leaves that unchanged."""
    given, wanted, stage = serial(before), serial(after), stage_of(before)
    verify(given, stage)
    verify(wanted, stage)
    made = change(given)
    verify(made, stage)
    assert print_kernel(renumber(made)) == print_kernel(renumber(wanted))
    assert change(made) is made


def check_unchanged(change: Pass, text: str) -> None:
    """Assert that a pass returns the very same kernel object."""
    given = serial(text)
    verify(given, stage_of(text))
    assert change(given) is given


def check_meaning(change: Pass, seed: int) -> None:
    """Assert that a random kernel after the pass is valid, gives the same bits, and is a fixed point of the pass."""
    kernel = random_kernel(seed)
    verify(kernel, "tasks")
    made = change(kernel)
    verify(made, "tasks")
    assert made is kernel or same(execute(kernel, seed), execute(made, seed)), print_kernel(kernel)
