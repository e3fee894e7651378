"""Numbers of tasks: the same in every process, never shared."""

from __future__ import annotations

import subprocess
import sys

from runtime_kernels import POWER, SQUARE
from stackgrad.backends.launching.task_ids import TASK_IDS, TaskIds, fnv1a, kernel_digest
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel

PROGRAM = """
import sys
from stackgrad.backends.launching.task_ids import TASK_IDS
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel
kernel = prepare_reverse(parse_kernel(sys.argv[1])).kernel
print(TASK_IDS.of(kernel, 0))
"""


def test_published_values() -> None:
    """Test vectors of FNV-1a, 32 bits."""
    vectors = {b"": 0x811C9DC5, b"a": 0xE40C292C, b"foobar": 0xBF9CF968}
    assert {text: fnv1a(text) for text in vectors} == vectors


def test_the_same_in_another_process() -> None:
    here = TASK_IDS.of(prepare_reverse(parse_kernel(POWER)).kernel, 0)
    run = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, POWER],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        for seed in "12"
    ]
    assert [int(r.stdout) for r in run] == [here, here]


def test_names_specializations_and_tasks_differ() -> None:
    kernel, other = parse_kernel(POWER), parse_kernel(POWER.replace("sin", "cos"))
    named = [(kernel, 0), (kernel, 1), (other, 0), (parse_kernel(SQUARE), 0)]
    assert len({TASK_IDS.of(*one) for one in named}) == 4
    assert TASK_IDS.of(parse_kernel(POWER), 0) == TASK_IDS.of(kernel, 0)
    assert TASK_IDS.named(TASK_IDS.of(kernel, 1)) == ("power", kernel_digest(kernel), 1)


def test_collisions_are_probed() -> None:
    """Two names of one number: the second gets the next one, and both keep theirs."""
    first = {}
    for k in range(1 << 20):
        at = TaskIds.first(f"k{k}", "", 0)
        if at in first:
            break
        first[at] = f"k{k}"
    ids, pair = TaskIds(), (first[at], f"k{k}")
    numbers = [ids.number(name, "", 0) for name in (*pair, *pair)]
    assert numbers == [at, at + 1, at, at + 1]
    assert [ids.named(n) for n in numbers[:2]] == [(name, "", 0) for name in pair]


def test_zero_is_no_number(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(TaskIds, "first", staticmethod(lambda *key: 0xFFFFFFFF if key[2] else 0))
    ids = TaskIds()
    assert [ids.number("k", "", task) for task in (0, 1, 2)] == [1, 0xFFFFFFFF, 2]
