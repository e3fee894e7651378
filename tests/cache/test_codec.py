"""Test kernels as bytes: decoding gives an equal kernel, with the source lines of the given table."""

from __future__ import annotations

import gc
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kir_test_support.directives import read_cases
from stackgrad.compiler.driver import Lowering, prepare_forward, prepare_reverse
from stackgrad.compiler.errors import NotDifferentiable, Span, Unsupported
from stackgrad.compiler.ir.codec import CodecError, decode, encode, first_equal_spans, identity_of, set_identity
from stackgrad.compiler.ir.kernels import Kernel, Task
from stackgrad.compiler.ir.nodes import Const, StackAlloca, Store
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import f64
from stackgrad.compiler.ir.walk import walk_kernel

TESTS = Path(__file__).parent.parent
FILES = sorted(path for folder in ("ops", "statements", "ad") for path in (TESTS / folder).glob("*.kir"))


def kernels(path: Path) -> Iterator[Kernel]:
    """Yield the kernels of a .kir file, each followed by the kernels of its lowerings."""
    cases = [case for case in read_cases(path.read_text()) if not case.invalid]
    for kernel in (parse_kernel(case.source(case.types[0])) for case in cases):
        yield kernel
        if any(isinstance(s, StackAlloca) for s in walk_kernel(kernel)):
            continue
        for prepare in (prepare_forward, prepare_reverse):
            try:
                made: Lowering = prepare(kernel)
            except (NotDifferentiable, Unsupported):
                continue
            yield made.kernel
            if made.counting is not None:
                yield made.counting


def test_there_are_files() -> None:
    assert len(FILES) > 20


@pytest.mark.rotating
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_kernel_comes_back(path: Path) -> None:
    for kernel in kernels(path):
        found = decode(encode(kernel, kernel.locations), kernel.locations)
        assert found == kernel
        assert print_kernel(found, True) == print_kernel(kernel, True)


SUM = parse_kernel("""
kernel sum(x: f64[1] grad, n: i32[0], y: f64[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    local v: f64
    %3: i32 = const 0
    %4: i32 = load n[]
    for %5: i32 in %3 .. %4 {
      %6: f64 = get v
      %7: f64 = load x[%2]
      %8: f64 = mul %7, %6
      %9: f64 = add %8, %7
      set v, %9
    }
    %10: f64 = get v
    store y[%2], %10
  }
}
""")


def at(line: int) -> Span:
    return Span("program.py", line, 4, 9, "    y[i] = v")


def test_what_the_driver_makes_comes_back() -> None:
    kernel = replace(SUM, locations=(None, at(3), at(4)))
    made = prepare_reverse(kernel)
    assert made.counting is not None or made.kernel.tasks
    found = decode(encode(made, kernel.locations), kernel.locations)
    assert found == made and found.kernel.locations == kernel.locations


def test_spans_are_those_of_the_table_of_today() -> None:
    before, after = (None, at(3), at(4)), (None, at(13), at(15))
    kernel = replace(SUM, locations=before)
    assert encode(kernel, before) == encode(replace(SUM, locations=after), after)
    assert decode(encode(kernel, before), after).locations == after


def test_a_span_of_no_table_is_refused() -> None:
    with pytest.raises(CodecError, match="program.py:7"):
        encode(replace(SUM, locations=(at(7),)), (at(8),))


def test_patterns() -> None:
    assert (
        first_equal_spans((None, at(3), at(4), at(3))) == (0, 1, 2, 1) == first_equal_spans((None, at(7), at(9), at(7)))
    )
    assert first_equal_spans((None, at(3), at(3))) != first_equal_spans((None, at(3), at(4)))


@pytest.mark.parametrize("number", [0.0, -0.0, 0.1, math.inf, -math.inf, math.nan, 5e-324, 1e308])
def test_constants_keep_their_bits(number: float) -> None:
    stmt = Const(Value(3, f64), number)
    found = decode(encode(stmt))
    assert found == stmt and math.copysign(1, found.value) == math.copysign(1, number)
    assert decode(encode(2**64 - 1)) == 2**64 - 1 and decode(encode(True)) is True


def test_sets_and_mappings() -> None:
    value = Lowering(SUM, None, frozenset(("x", "n")), frozenset("y"), before={"c": "x", "a": "y"})
    found = decode(encode(value, SUM.locations), SUM.locations)
    assert found == value and list(found.before) == ["c", "a"] and isinstance(found.reads, frozenset)


# ---- refusals -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Foreign:
    x: int


@dataclass
class Open:
    x: int


@pytest.mark.parametrize("value", [Foreign(1), Open(1), object(), [1], {1}, 1j, b"x", int, print])
def test_what_is_not_of_the_compiler_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        encode((value,))


def document(name: str, *items: object) -> bytes:
    return json.dumps([[name], [], [6, *items]]).encode()


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "stackgrad.runtime.session:Settings",
        "stackgrad.compiler.driver:prepare_forward",
        "stackgrad.compiler.ir.statement:Value",
        "stackgrad.compiler.nothing:Kernel",
        "stackgrad.compiler.ir.nodes:Nothing",
        "stackgrad.compiler.ir.kernels:Kernel.span",
        "stackgrad.compiler.frontend.trace:ast",
        "",
    ],
)
def test_bytes_name_no_other_class(name: str) -> None:
    with pytest.raises(CodecError):
        decode(document(name, 1))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"[[],[],[99]]",
        b"[[],[],[3,5]]",
        b'[[],[[1,"f99"]],1]',
        b"\xff\xfe",
        document("stackgrad.compiler.ir.nodes:Store", "y"),
        encode(SUM, SUM.locations)[:-5],
    ],
)
def test_bytes_of_another_version_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode(data)


def test_checks_of_a_class_run() -> None:
    """Objects come without `__init__`; what `__post_init__` demands holds all the same."""
    checked = [cls for cls in (Store, Task, Kernel) if hasattr(cls, "__post_init__")]
    assert not checked  # none of them has one: the codec is told apart by a class made here
    module = sys.modules["stackgrad.compiler.ir.nodes"]

    @dataclass(frozen=True)
    class Positive:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")

    Positive.__module__, Positive.__qualname__ = module.__name__, "Positive"
    vars(module)["Positive"] = Positive
    try:
        assert decode(encode(Positive(3))) == Positive(3)
        with pytest.raises(CodecError, match="negative"):
            decode(encode(Positive(3)).replace(b"3", b"-3"))
    finally:
        del vars(module)["Positive"]


def test_identity_belongs_to_the_object() -> None:
    kernel = replace(SUM)
    set_identity(kernel, b"k")
    assert identity_of(kernel) == b"k" and kernel == SUM
    assert identity_of(replace(kernel, name="other")) is None and identity_of(SUM) is None


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        assert decode(encode(SUM, SUM.locations), SUM.locations) == SUM and gc.isenabled() is enabled
        with pytest.raises(CodecError):
            decode(b"[")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
