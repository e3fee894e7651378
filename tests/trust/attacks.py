"""Make attacks on stored programs from valid programs, by rules.

Every text is replaced by every payload, and every other value by every wrong value. `canary` is the file that injected
code would create.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stackgrad.harness.tools.model import to_json
from stackgrad.harness.tools.strategies import sample

PROFILES = ("smooth", "wild", "operations")
SEEDS = range(60)
"""Together the programs of these have every field of text that programs have; a test says so."""

Place = tuple[Any, ...]
Key = tuple[str, str]


def programs() -> list[dict[str, Any]]:
    """Return valid programs as parsed JSON."""
    return [json.loads(to_json(sample(seed, profile))) for profile in PROFILES for seed in SEEDS]


WORDS = (
    "__class__",
    "__builtins__",
    "__import__",
    "_hidden",
    "exec",
    "eval",
    "open",
    "print",
    "globals",
    "getattr",
    "sg",
    "np",
    "json",
    "sys",
    "fill",
    "lambda",
    "import",
    "None",
    "True",
    "match x",
    "\uff53\uff47",
    "\u0435xec",
    "x y",
    "x;y",
    "x#",
    "x\\",
    "x\n",
    "x\r",
    "\n",
    " ",
    "",
    "\x00",
    "\x1b[31m",
    "\u2028",
    "x" * 65,
    "x" * 100_000,
    "../../etc/passwd",
    "/dev/zero",
    "<script>alert(1)</script>",
    "1x",
    "x.__class__",
    "x..y",
    ".x",
    "x.1.",
    "0",
)
"""Words that mean something to Python or to a file system, that hide, or that are no names."""


def payloads(canary: Path) -> list[str]:
    """Return texts that would run code, hide it, or mean something else to Python."""
    leave = f"open({str(canary)!r}, 'w')"
    return [
        f"k(): ...; {leave}; import os",
        f"k():\n    pass\n{leave}\ndef k",
        f"x\n    {leave}\n    y",
        f"{leave}",
        f"x[{leave}]",
        f"(lambda: {leave})()",
        f"__import__('pathlib').Path({str(canary)!r}).touch()",
        f"x if {leave} else y",
        f"+ {leave} +",
        f"'); {leave}; ('",
        f'"""; {leave}; """',
        f"sin({leave}) or sg.sin",
        f"().__class__.__base__.__subclasses__() or {leave}",
        f"x: {leave} = 1 #",
        f"@{leave}\nclass a",
        f"f'{{{leave}}}'",
        *WORDS,
    ]


def deep(levels: int) -> Any:
    """Return a JSON expression of operators nested to this depth."""
    found: Any = {"is": "Number", "value": 1}
    for _ in range(levels):
        found = {"is": "Unary", "op": "-", "arg": found}
    return found


WRONG: list[Any] = [
    None,
    True,
    -1,
    1.5,
    10**30,
    -(10**30),
    1 << 64,
    "x",
    [],
    [[]],
    [[], []],
    ["x", "x"],
    {},
    {"is": "Program"},
    {"is": "Exit"},
    {"is": "Name"},
    {"is": "Name", "name": "x", "more": 1},
    {"is": ["Name"]},
    {"real": "x"},
    {"real": 5},
    {"real": "0x1.0p+9999"},
    {"real": "1e5"},
    {"real": "nan", "is": "Name"},
    {"real": None},
    {"type": "f99"},
    {"type": ["f32"]},
    {"type": {}},
    {"type": "__class__"},
    [None] * 1000,
    {"": {}},
    [{}],
    [[1, 2, 3]],
    {"is": "Scalar", "name": "f32", "kind": "f", "bits": 32},
    {"is": "Expr"},
    {"is": "Stmt"},
    deep(500),
]
"""Values that almost no field may hold."""


def walk(data: Any, place: Place = (), owner: Key = ("", "")) -> Iterator[tuple[Place, Key, Any]]:
    """Yield every value of a program with its place, and the class and field that it belongs to."""
    yield place, owner, data
    if isinstance(data, dict):
        kind = data.get("is", owner[0])
        for name, value in data.items():
            yield from walk(value, (*place, name), (kind, name) if "is" in data else owner)
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from walk(value, (*place, number), owner)


def changed(data: Any, place: Place, value: Any) -> str:
    """Return JSON with another value at a place."""
    made = copy.deepcopy(data)
    if not place:
        return json.dumps(value)
    inside = made
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    return json.dumps(made)


def is_text(owner: Key, place: Place, value: Any) -> bool:
    """Return True if a value is a text of a program, not a mark by which JSON stores numbers or classes."""
    return isinstance(value, str) and place[-1] not in ("is", "real", "type")
