"""How deep a kernel may nest: what is plausible works wherever it is compiled, what is not is refused at its line."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from frontend_support import DOUBLE, integers, real
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.errors import LocatedError, Unsupported
from stackgrad.compiler.frontend.trace import trace
from stackgrad.compiler.ir.depth import EXPRESSIONS, LOWERED_NESTING, NESTING, depth_of, stack_room, with_stack_room
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.verify import verify
from stackgrad.reference.launch import run

FILE = "<deep kernel>"


def lowered(text: str) -> Kernel:
    """The kernel `k` of a program's text, over fields x, y and sel."""
    linecache.cache[FILE] = len(text), None, text.splitlines(keepends=True), FILE
    names: dict[str, Any] = {"sg": sg, "x": real(0.5, 1.5, needs_grad=True)}
    names |= {"y": real(0.0, 0.0), "sel": integers(1, 299)}
    exec(compile(text, FILE, "exec"), names)
    made = trace(names["k"], DOUBLE).kernel
    verify(made, "source")
    return made


def body(*lines: str) -> str:
    return "\n".join(["def k():", "    for i in x:", *(f"        {line}" for line in lines), ""])


def results(kernel: Kernel) -> list[float]:
    """What the kernel leaves in y."""
    x, y, sel = real(0.5, 1.5), real(0.0, 0.0), integers(1, 299)
    used = {"x": x.data, "y": y.data, "sel": sel.data}
    run(prepare_forward(kernel, check=True).kernel, {name: used[name] for name in kernel.array_types()}, {})
    return y.data.tolist()


def chain(count: int, test: str = "sel[i] == {}") -> str:
    heads = [f"{'elif' if j else 'if'} {test.format(j)}:" for j in range(count)]
    links = [line for j, head in enumerate(heads) for line in (head, f"    w = x[i] * {j}.0")]
    return body("w = 0.0", *links, "else:", "    w = 7.0", "y[i] = w")


def functions(count: int, result: str = "return f{}(a * 1.0)") -> str:
    parts = [f"@sg.func\ndef f{j}(a):\n    {result.format(j + 1)}\n" for j in range(count - 1)]
    return "".join([*parts, f"@sg.func\ndef f{count - 1}(a):\n    return a * a\n", body("y[i] = f0(x[i])")])


@pytest.mark.rotating
@pytest.mark.parametrize("count", [25, 26, 27, 51, 300, 1000])
def test_a_chain_of_elif_nests_no_deeper_than_a_part_of_it(count: int) -> None:
    kernel = lowered(chain(count))
    assert depth_of(kernel.tasks[0].body, NESTING)[0] <= 27
    assert results(kernel) == [0.5, 1.5 * 299 if count > 299 else 7.0]
    prepare_reverse(kernel, check=True)


def test_links_decided_while_tracing_belong_to_their_chain() -> None:
    text = chain(60).replace("elif sel[i] == 40:", "elif sg.static(False):")
    assert results(lowered(text)) == [0.5, 7.0]
    text = chain(60).replace("elif sel[i] == 40:", "elif sg.static(True):")
    assert results(lowered(text)) == [0.5, 60.0]
    assert results(lowered(chain(400, "sg.static({} == 398)"))) == [199.0, 597.0]


def test_a_chain_that_returns_on_each_path() -> None:
    links = "".join(f"    {'elif' if j else 'if'} s == {j}:\n        return a * {j}.0\n" for j in range(80))
    text = f"@sg.func\ndef f(a, s):\n{links}    else:\n        return a\n{body('y[i] = f(x[i], sel[i])')}"
    kernel = lowered(text)
    assert results(kernel) == [0.5, 1.5]
    prepare_reverse(kernel, check=True)


def test_a_mistake_in_a_long_chain_is_reported_once_at_its_line() -> None:
    with pytest.raises(LocatedError) as caught:
        lowered(chain(60).replace("    w = x[i] * 50.0", "    w = unknown"))
    assert str(caught.value).count("the name `unknown` is not known") == 1
    assert f"{FILE}:{4 + 2 * 50 + 1}:" in str(caught.value)


def exits(count: int) -> str:
    return body("for r in range(2):", *(f"    if sel[i] == {j}: continue" for j in range(count)), "    y[i] += x[i]")


PLAUSIBLE: dict[str, Callable[[], str]] = {
    "functions": lambda: functions(200),
    "sums": lambda: body(f"y[i] = {' + '.join(['x[i]'] * 900)}"),
    "indices": lambda: body(f"y[i] = x[{' + '.join(['sel[0]'] * 900)} - 900]"),
    "bounds": lambda: body(
        "w = x[i]", f"for j in range({' + '.join(['sel[0]'] * 900)}):", "    w = w * 1.0", "y[i] = w"
    ),
    "alternatives": lambda: body(
        "y[i] = " + " else ".join(f"x[i] * {j}.0 if sel[i] == {j}" for j in range(150)) + " else 0.0"
    ),
    "signs": lambda: body(f"y[i] = {'-' * 400}x[i]"),
    "exits": lambda: exits(250),
}


@pytest.mark.rotating
@pytest.mark.parametrize("shape", PLAUSIBLE)
def test_what_is_plausible_works_with_its_gradient(shape: str) -> None:
    kernel = lowered(PLAUSIBLE[shape]())
    results(kernel)
    prepare_reverse(kernel, check=True)


REFUSED: dict[str, tuple[str, str, str]] = {
    "signs": (body(f"y[i] = {'-' * 1000}x[i]"), f"expressions nest more than {EXPRESSIONS} deep", "give a part a name"),
    "nots": (body(f"if {'not ' * 1000}(x[i] > 0.0): y[i] = 1.0"), "expressions nest more than 500 deep", ":3:"),
    "functions": (functions(900), f"blocks nest more than {NESTING} deep", "functions that are called included"),
    "alternatives": (
        body("y[i] = " + " else ".join(f"sg.exp(x[i]) if sel[i] == {j}" for j in range(400)) + " else 0.0"),
        f"blocks nest more than {NESTING} deep",
        "put a part into a kernel of its own",
    ),
}


@pytest.mark.parametrize("shape", REFUSED)
def test_what_nests_deeper_is_refused_at_its_place(shape: str) -> None:
    text, reason, other = REFUSED[shape]
    with pytest.raises(Unsupported) as caught:
        lowered(text)
    assert reason in str(caught.value) and other in str(caught.value)
    assert f"{FILE}:" in str(caught.value) and "^" in str(caught.value)


def test_exits_that_nest_too_much_are_refused_where_they_are_lowered() -> None:
    kernel = lowered(exits(700))
    with pytest.raises(Unsupported, match=r"(?s)<deep kernel>:\d+:.*blocks nest more than 640 deep.*\^"):
        prepare_reverse(kernel)


def test_the_page_tells_the_limits() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dialect.md").read_text(encoding="utf-8")
    for limit in (f"* {NESTING} blocks", f"* {LOWERED_NESTING} once", f"* {EXPRESSIONS} expressions", "counts as 26"):
        assert limit in page


# ---- room -----------------------------------------------------------------------------------------------------------


def at_depth(count: int, function: Callable[[], Any]) -> Any:
    return function() if count == 0 else at_depth(count - 1, function)


def frames() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count


def test_the_bottom_of_a_deep_program_compiles_as_the_top_does() -> None:
    before, text = sys.getrecursionlimit(), functions(200)
    kernel = at_depth(before - frames() - 40, lambda: lowered(text))
    assert kernel == lowered(text) and sys.getrecursionlimit() == before


@pytest.mark.expensive
def test_a_thread_with_a_small_stack_compiles_to_the_limit() -> None:
    text, found = functions(NESTING - 4, "if a > 0.0: a += 1.0\n    return f{}(a)"), []

    def work() -> None:
        found.append(prepare_reverse(lowered(text), check=True))

    before = threading.stack_size(2 << 20)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert found


def test_the_limit_of_the_stack_is_put_back_by_the_last_who_needs_room() -> None:
    before, inside, go = sys.getrecursionlimit(), threading.Event(), threading.Event()

    def hold() -> None:
        with stack_room():
            inside.set()
            go.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    with stack_room(), stack_room():
        assert sys.getrecursionlimit() > before
    assert sys.getrecursionlimit() > before
    go.set()
    thread.join()
    assert sys.getrecursionlimit() == before


def test_what_still_does_not_fit_is_an_error_of_ours_at_the_kernel() -> None:
    @with_stack_room
    def endless(kernel: Kernel) -> int:
        return endless(kernel) + 1

    with pytest.raises(Unsupported, match=r"(?s)<deep kernel>:2:.*nests deeper than the compiler can follow.*cure"):
        endless(lowered(body("y[i] = x[i]")))
