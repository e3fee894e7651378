"""Test debug information: machine code names the program's lines, and computes the same as without it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.backends.base import Options
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.backends.host import jit
from stackgrad.backends.llvm.masked import generate_masked
from stackgrad.backends.llvm.module import generate
from stackgrad.compiler.driver import prepare_forward
from stackgrad.compiler.errors import Span
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.passes.lower_blocks import has_blocks
from stackgrad.runtime.session import RUNTIME

_HERE = Path(__file__).parent
if str(_HERE) not in sys.path:
    sys.path.append(str(_HERE))

from debug_kernels import Lines  # noqa: E402


def marked(file: str) -> dict[str, int]:
    """Return, by NAME, the number of each line with a comment `# line: NAME`."""
    lines = (_HERE / file).read_text().splitlines()
    return {line.partition("# line: ")[2]: number for number, line in enumerate(lines, 1) if "# line: " in line}


@pytest.fixture
def kernels() -> Iterator[dict[str, Kernel]]:
    sg.init(arch=sg.cpu, debug_info=True)
    lines = Lines()
    lines.gradient()
    yield {"forward": lines.steps.lowered().kernel, "reverse": lines.steps.lowered_grad().kernel}
    sg.reset()


def text_of(kernel: Kernel, options: Options) -> str:
    return generate(kernel, options, CpuBackend().target).text


def places(assembly: str) -> set[tuple[str, int]]:
    """Return (file, line) of all source locations that an assembly text names."""
    files = {number: name for number, _, name in re.findall(r'\.file\t(\d+) ("[^"]*" )?"([^"]*)"', assembly)}
    return {(Path(files[file]).name, int(line)) for file, line in re.findall(r"\.loc\t(\d+) (\d+)", assembly)}


@pytest.mark.rotating
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_machine_code_names_lines(kernels: dict[str, Kernel], direction: str) -> None:
    found = places(CpuBackend().assembly(kernels[direction], Options(debug_info=True)))
    own, other = marked("debug_kernels.py"), marked("other_file.py")
    wanted = {("debug_kernels.py", own["sine"]), ("other_file.py", other["square"])}
    if direction == "forward":
        wanted |= {("debug_kernels.py", own["load"]), ("debug_kernels.py", own["store"])}
    assert wanted <= found


@pytest.mark.rotating
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_masked_code_names_lines(kernels: dict[str, Kernel], direction: str) -> None:
    options, target = Options(debug_info=True), CpuBackend().target
    text = generate_masked(kernels[direction], options, target).text
    bodies = re.findall(r"^define [^\n]* !dbg !\d+ \{\n(.*?)^\}", text, re.M | re.S)
    assert bodies
    for line in "".join(bodies).splitlines():
        assert line.endswith(":") or " = phi " in line or re.search(r", !dbg !\d+$", line), line
    with jit.LOCK:
        assembly = str(jit.machine().emit_assembly(jit.optimized_module(text)))
    own, other = marked("debug_kernels.py")["sine"], marked("other_file.py")["square"]
    assert {("debug_kernels.py", own), ("other_file.py", other)} <= places(assembly)


def test_the_object_has_a_table_of_lines(kernels: dict[str, Kernel]) -> None:
    backend = CpuBackend()
    with_lines = jit._emitted(generate(kernels["forward"], Options(debug_info=True), backend.target), 2)
    without = jit._emitted(generate(kernels["forward"], Options(), backend.target), 2)
    for name in (b".debug_line", b"debug_kernels.py", b"other_file.py", str(_HERE).encode()):
        assert name in with_lines and name not in without


def test_nothing_is_named_unless_asked(kernels: dict[str, Kernel]) -> None:
    text = text_of(kernels["reverse"], Options())
    assert "!dbg" not in text and "DI" not in text


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_every_instruction_has_a_place(kernels: dict[str, Kernel], direction: str) -> None:
    text = text_of(kernels[direction], Options(debug_info=True))
    bodies = re.findall(r"^define [^\n]* !dbg !\d+ \{\n(.*?)^\}", text, re.M | re.S)
    assert len(bodies) >= 3  # launch, bounds, task
    for line in "".join(bodies).splitlines():
        assert line.endswith(":") or " = phi " in line or re.search(r", !dbg !\d+$", line), line


def test_loops_go_back_to_their_line(kernels: dict[str, Kernel]) -> None:
    """What is appended after a body belongs to the loop again, not to its last statement."""
    text = text_of(kernels["forward"], Options(debug_info=True))
    latch = re.search(r"^for\.latch\.\d+:\n(.*?)^\S", text, re.M | re.S)
    assert latch
    (place,) = {*re.findall(r"!dbg !(\d+)", latch[1])}
    assert f"\n!{place} = !DILocation(line: {marked('debug_kernels.py')['sine'] - 1}," in text


@pytest.mark.rotating
@pytest.mark.parametrize("options", [{}, {"precise": True}, {"debug": True}], ids=str)
def test_results_are_the_same(options: dict[str, Any]) -> None:
    found = []
    for debug_info in (False, True):
        sg.init(arch=sg.cpu, debug_info=debug_info, **options)
        found.append(Lines().gradient())
    sg.reset()
    assert found[0] == found[1]


def test_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, wanted in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("STACKGRAD_DEBUG_INFO", value)
        sg.init(arch=sg.cpu)
        assert RUNTIME.options.debug_info is wanted
    sg.reset()


KERNEL = parse_kernel("""kernel k(y: f64[1], n: i32) {
  serial { %0: i32 = const 0 %1: f64 = const 1.5 store y[%0], %1 }
  bounds { %2: i32 = const 0 %3: i32 = arg n } parallel %4: i32 in %2 .. %3 { %5: f64 = const 2.5 store y[%4], %5 }
}""")


def test_kernels_without_source() -> None:
    assembly = CpuBackend().assembly(replace(KERNEL, locations=(None,)), Options(debug_info=True))
    assert {line for _, line in places(assembly)} <= {0}


def test_kernels_of_a_text_have_its_lines() -> None:
    found = places(CpuBackend().assembly(KERNEL, Options(debug_info=True)))
    assert {2, 3} <= {line for _, line in found}


@pytest.mark.parametrize("file", ['odd "name".py', "back\\slash.py", "naïve.py", "new\nline.py", "/a/b c/d.py", ""])
def test_odd_names_of_files(file: str) -> None:
    kernel = replace(KERNEL, locations=(Span(file, 7, 2, 5, "text"),))
    CpuBackend().compile(kernel, Options(debug_info=True))


@pytest.mark.rotating
@pytest.mark.parametrize("path", sorted((_HERE.parent / "statements").glob("*.kir")), ids=lambda path: path.stem)
def test_llvm_accepts_the_lines_of_every_statement(path: Path) -> None:
    """With and without optimization, its verifier looks at them."""
    from kir_test_support.directives import read_cases

    backend = CpuBackend()
    for case in read_cases(path.read_text())[:4]:
        if case.invalid:
            continue
        kernel = parse_kernel(case.source(case.types[0]))
        kernel = prepare_forward(kernel).kernel if has_blocks(kernel) else kernel
        spanned = replace(kernel, locations=(Span("k.py", 3), Span("other.py", 9)))
        try:
            text = generate(spanned, Options(debug_info=True), backend.target).text
        except sg.Unsupported:
            continue
        with jit.LOCK:
            jit.optimized_module(text, 1).verify()
