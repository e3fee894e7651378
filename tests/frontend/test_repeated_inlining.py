"""What follows from the text of a function alone is found once, however often the function is inlined."""

from __future__ import annotations

import ast

import stackgrad as sg
from stackgrad.compiler.frontend import source
from stackgrad.compiler.frontend.assigned_names import assigned_in_body


@sg.func
def scaled(v, factor: sg.template()):
    w = v
    for _ in range(2):
        w = w * factor
    return w


def test_text_is_walked_once(monkeypatch):
    walked = []
    monkeypatch.setattr(ast, "walk", lambda node, walk=ast.walk: walked.append(type(node)) or walk(node))
    for found in (source.condition_nodes, source.read_names, source.indexed_names, source.has_return, assigned_in_body):
        found.cache_clear()
    source._nodes.cache_clear()

    def walks(calls: int) -> int:
        sg.init(arch=sg.reference)
        y = sg.field(sg.f32, shape=())

        @sg.kernel
        def run():
            for k in sg.static(range(calls)):
                y[None] += scaled(1.0, k)

        walked.clear()
        run()
        assert y[None] == sum(k**2 for k in range(calls))
        # The body of the function is walked statement by statement, too.
        return walked.count(ast.FunctionDef) + walked.count(ast.Return)

    assert 0 < walks(40) < 40 and walks(40) == 0


def test_locations_are_kept():
    text = source.read_source(scaled.function)
    statement = text.tree.body[0]
    assert text.span(statement) is text.span(statement)
    assert text.span(statement).text.strip() == "w = v"


def test_traces_leave_no_nodes_behind():
    """A trace makes nodes that are not in the text, such as those of the loop of `fill`."""
    sg.init(arch=sg.reference)
    y = sg.field(sg.f32, shape=2)

    @sg.kernel
    def run(value: sg.template()):
        y.fill(value)

    spans = source.read_source(run.__wrapped__).spans
    run(0)
    count = len(spans)
    for value in range(1, 4):
        run(value)
        assert y[1] == value and len(spans) == count > 0


def test_returns_are_found_in_functions_within():
    assert source.has_return(ast.parse("def f():\n    def g():\n        return 1\n").body[0])
    assert not source.has_return(ast.parse("def f():\n    pass\n").body[0])
