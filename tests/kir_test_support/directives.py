"""Read .kir files: kernels in IR text, with directive comments that state the expected results.

A line that starts in column 0 with `//` is prose or a directive; a kernel runs from its first line to a `}` in
column 0, or to an empty line if it must be refused. The directives `types`, `ulps` and `invalid` stand above their
kernel, all others below it. A directive continues in following lines that begin with `//` and at least
three spaces. `NAME[a b]: ...` restricts it to the types, backends or lowerings listed. The meaning of each directive
is in run_kir.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.compiler.errors import ParseError
from stackgrad.compiler.ir.lexer import NAME, STRING, Lexer, language

ABOVE = ("types", "ulps", "invalid")
BELOW = ("run", "grad", "trap", "release")
_DIRECTIVE = re.compile(r"//\s*(" + "|".join(ABOVE + BELOW) + r")(?:\[([^\]]*)\])?:\s*(.*)")
_LANGUAGE = language(
    "->",
    string=STRING,
    number=r"[-+]?(?:0x[0-9a-fA-F.]+(?:p[-+]?\d+)?|\d+\.?\d*(?:[eE][-+]?\d+)?|inf\b|nan\b)|true\b|false\b",
    name=NAME,
)


class KirFileError(Exception):
    """Signal that a .kir file itself is malformed."""


@dataclass(frozen=True)
class Directive:
    """Represent a directive; `only` lists the types, backends or lowerings to which it is restricted, () for all."""

    kind: str
    only: tuple[str, ...]
    text: str
    line: int

    def applies(self, *names: str) -> bool:
        """Return True if the directive applies to this type, backend and lowering."""
        groups = [set(self.only) & set(known) for known in (_TYPES, _LOWERINGS)]
        groups.append(set(self.only) - set(_TYPES) - set(_LOWERINGS))
        return all(not group or group & set(names) for group in groups)


_TYPES = ("f16", "f32", "f64", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64")
_LOWERINGS = tuple(POLICIES)


@dataclass
class Case:
    """Represent a kernel of a file with its directives; `types` lists the types for `T`, `("",)` without a template."""

    text: str
    line: int
    types: tuple[str, ...] = ("",)
    ulps: float | None = None
    invalid: tuple[Directive, ...] = ()
    checks: list[Directive] = field(default_factory=list)

    def source(self, dtype: str) -> str:
        """Return the kernel's text with `T` replaced by a type."""
        return re.sub(r"\bT\b", dtype, self.text) if dtype else self.text


# ---- lines --------------------------------------------------------------------------------------------------


def read_cases(text: str) -> list[Case]:
    """Return all kernels of a file with their directives. Raise KirFileError with the line number."""
    return _Reader(text).cases()


class _Reader:
    """Read the lines of a file once: comments in column 0, and the kernels between them."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.at = 0

    def cases(self) -> list[Case]:
        found: list[Case] = []
        above: list[Directive] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
            elif line.startswith("//"):
                self._comment(found, above)
            else:
                found.append(self._kernel(above))
                above = []
        if above:
            raise KirFileError(f"line {above[0].line}: no kernel follows this {above[0].kind} directive")
        return found

    def _comment(self, found: list[Case], above: list[Directive]) -> None:
        directive = self._directive()
        if directive is None:
            self.at += 1
        elif directive.kind in ABOVE:
            above.append(directive)
        elif found and not above:
            unknown = set(directive.only) & set(_TYPES) - set(found[-1].types)
            if unknown:
                raise KirFileError(f"line {directive.line}: the kernel has no type {', '.join(sorted(unknown))}")
            found[-1].checks.append(directive)
        else:
            raise KirFileError(f"line {directive.line}: a {directive.kind} directive stands below its kernel")

    def _directive(self) -> Directive | None:
        match = _DIRECTIVE.match(self.lines[self.at])
        if not match:
            return None
        start = self.at + 1
        parts = [match.group(3)]
        self.at += 1
        while self.at < len(self.lines) and re.match(r"//\s{3,}\S", self.lines[self.at]):
            parts.append(self.lines[self.at].lstrip("/").strip())
            self.at += 1
        return Directive(match.group(1), tuple((match.group(2) or "").split()), " ".join(parts), start)

    def _kernel(self, above: list[Directive]) -> Case:
        start = self.at
        bad = tuple(d for d in above if d.kind == "invalid")
        if not bad and not self.lines[start].startswith("kernel "):
            raise KirFileError(f"line {start + 1}: neither a comment nor a kernel")
        while self.at < len(self.lines) and not self.lines[self.at].startswith("//"):
            self.at += 1
            if self.at == len(self.lines) or (not self.lines[self.at] if bad else self.lines[self.at - 1] == "}"):
                break
        case = Case("\n".join(self.lines[start : self.at]) + "\n", start + 1, invalid=bad)
        for directive in above:
            if directive.kind == "types":
                case.types = tuple(directive.text.split())
            elif directive.kind == "ulps":
                case.ulps = float(directive.text)
        return case


# ---- contents -----------------------------------------------------------------------------------------------


@dataclass
class Check:
    """Represent a parsed run, grad, trap or release directive, with numbers as text in nested lists.

    values: arrays and scalars before. seeds: adjoints before. expected: arrays afterwards. prints: lines printed.
    error, fragment: what a trap raises. draws: (seed, launch). no_jax: why the JAX oracle is not asked.
    """

    values: dict[str, Any] = field(default_factory=dict)
    seeds: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    prints: list[str] | None = None
    error: str = ""
    fragment: str = ""
    draws: tuple[int, int] = (0, 0)
    no_jax: str = ""


def read_check(directive: Directive) -> Check:
    """Parse a directive that stands below a kernel. Raise KirFileError if it is malformed."""
    text, _, reason = directive.text.partition("// no-jax:")
    check = Check(no_jax=reason.strip())
    try:
        _Content(directive, text, check).parse(directive.kind)
    except ParseError as error:
        raise KirFileError(str(error)) from None
    return check


def quoted(directive: Directive) -> str:
    """Return the string literal that is the whole text of an `invalid` directive."""
    return str(json.loads(directive.text))


class _Content(Lexer):
    def __init__(self, directive: Directive, text: str, check: Check) -> None:
        super().__init__(text, f"line {directive.line}, {directive.kind}", _LANGUAGE)
        self.check = check

    def parse(self, kind: str) -> None:
        while not self.accept("->"):
            self._before()
            self.accept(",")
        if kind == "trap":
            self.check.error = self.next("name", "a name")
            self.check.fragment = self.string()
        while self.peek().kind != "end":
            self._after()
            self.accept(",")

    def _before(self) -> None:
        name = self.next("name", "a name")
        if name == "draws":
            self.check.draws = (self.integer(), self.integer())
        elif name == "seed" and self.peek().kind == "name":
            self._assign(self.next("name", "a name"), self.check.seeds)
        else:
            self._assign(name, self.check.values)

    def _after(self) -> None:
        name = self.next("name", "a name")
        if name == "prints":
            self.check.prints = (self.check.prints or []) + [self.string()]
        else:
            self._assign(name, self.check.expected)

    def _assign(self, name: str, into: dict[str, Any]) -> None:
        if name in into:
            raise self.fail(f"{name} is given twice", back=1)
        self.expect("=")
        into[name] = self._value()

    def _value(self) -> Any:
        if not self.accept("["):
            return self.next("number", "a number")
        found: list[Any] = []
        while not self.accept("]"):
            value = self._value()
            found += [value] * (self.integer() if self.accept("*") else 1)
            self.accept(",")
        return found
