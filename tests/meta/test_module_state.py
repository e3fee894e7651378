"""Test that only the modules listed here have state that outlives a call; the list says what each holds.

A module-level name counts as state if a function of its module assigns to it, to a part of it, or calls a method that
changes it. Caches of functions (`functools.cache`) and counters that number things are left out: nothing depends on
what they hold.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import project_tree as tree
import pytest

STATE = {
    "backends/host/code_map.py:_open": "files of machine code for profilers of the system",
    "backends/cpu/task_times.py:_CURRENT": "readings of the launch of each thread",
    "backends/cpu/pool.py:_made": "the pool of threads",
    "backends/crash.py:_written": "crash folders that this process has made",
    "backends/disk_cache.py:_CHOICE": "the disk cache that is in use",
    "backends/forks.py:_freed": "what a child of a fork has let go",
    "backends/forks.py:_held": "locks that a fork waits for",
    "backends/forks.py:_renewals": "what a child of a fork makes anew",
    "backends/launching/launch_collectors.py:_collectors": "profiles that are being taken",
    "backends/registry.py:_instances": "the backends that this process has opened",
    "backends/vulkan/device.py:_OPENED": "processes that have opened a card, for forks",
    "compiler/ad/policies.py:_default": "the policy of gradients that name none; test runs set it",
    "compiler/ir/depth.py:_LIMITS": "the room on the stack of each thread",
    "harness/tools/bench/process.py:_CALLS": "calls of works in a process of the benchmark",
    "src/stackgrad/compat/hooks.py:_RESET": "functions that programs have called at each reset",
    "src/stackgrad/compat/impl.py:_RUNTIME": "what programs of the peers patch",
    "src/stackgrad/compat/options.py:CURRENT": "what the last `init` was given",
    "src/stackgrad/compat/profiler.py:_PROFILE": "the profile of `init(kernel_profiler=True)`",
    "src/stackgrad/data/fields/array.py:_KINDS": "numbers of the kinds of arrays",
    "src/stackgrad/data/half_accumulators.py:_KEPT": "f32 sums beside f16 gradients of torch tensors",
    "src/stackgrad/launch/native_launches.py:_LINGERING": "launches whose memory waits for the last call to end",
    "src/stackgrad/runtime/session.py:RUNTIME": "the runtime that `sg.init` starts",
    "src/stackgrad/launch/native_calls.py:_OFFSETS": "where arrays of a class refer to their words",
}

FILLED_AT_IMPORT = {
    "compiler/frontend/matrices.py:METHODS",
    "compiler/ir/table.py:TABLES",
    "harness/tools/bench/device_works.py:DEVICE_WORKS",
    "harness/tools/bench/works.py:FRESH",
    "harness/tools/bench/works.py:WORKS",
    "harness/tools/model/syntax.py:DOMAINS",
    "harness/tools/model/syntax.py:EXPRESSIONS",
    "harness/tools/model/syntax.py:STATEMENTS",
    "reference/scalar.py:NUMPY",
}
"""Tables whose rows are entered by decorators while modules are imported, and by nobody else."""

CHANGING = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}


def module_names(source: ast.Module) -> set[str]:
    """Names that statements at the top of a module assign."""
    targets = [t for n in source.body if isinstance(n, ast.Assign) for t in n.targets]
    targets += [n.target for n in source.body if isinstance(n, ast.AnnAssign)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def changed(node: ast.AST) -> Iterator[str]:
    """Names whose object a node changes, or that it declares to be global."""
    if isinstance(node, ast.Global):
        yield from node.names
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
        if isinstance(node.func.value, ast.Name):
            yield node.func.value.id
    elif isinstance(node, ast.Assign | ast.Delete):
        yield from filter(None, map(base, node.targets))
    elif isinstance(node, ast.AugAssign):
        yield from filter(None, [base(node.target)])


def base(target: ast.expr) -> str:
    """The name whose part is assigned; empty where a name itself is, which is a local of the function."""
    inner = target
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    return inner.id if inner is not target and isinstance(inner, ast.Name) else ""


def state(source: ast.Module) -> set[str]:
    """Names of a module that its functions change."""
    inside = (n for f in ast.walk(source) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f))
    return {name for node in inside for name in changed(node)} & module_names(source)


def test_state_is_listed() -> None:
    found = {f"{tree.relative(path)}:{name}" for path in tree.modules().values() for name in state(tree.syntax(path))}
    known = STATE.keys() | FILLED_AT_IMPORT
    assert found - known == set(), "state that is not listed; pass it as an argument, or list it with its reason"
    assert known - found == set(), "listed, but nothing changes it"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("X = {}\ndef f(): X['a'] = 1", {"X"}),
        ("X: list[int] = []\ndef f(): X.append(1)", {"X"}),
        ("X = 0\ndef f():\n  global X\n  X = 1", {"X"}),
        ("X = A()\nclass B:\n  def f(self): X.y = 1", {"X"}),
        ("X = [0]\ndef f(): X[0] += 1", {"X"}),
        ("X = {}\nX['a'] = 1", set()),
        ("X = {}\ndef f(): return X.get(1)", set()),
        ("X = {}\ndef f():\n  X = {}", set()),
    ],
)
def test_state_is_noticed(text: str, names: set[str]) -> None:
    assert state(ast.parse(text)) == names
