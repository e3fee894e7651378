"""Edit IR texts: tokens and lines are lost, doubled, exchanged, replaced and nested, and sometimes bytes become noise.

An edit takes the tokens of a text, including white space, and returns others. It knows as little of the language as
possible. Its result is seldom a kernel, but always looks like one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

Tokens = list[str]
Edit = Callable[[random.Random, Tokens, Sequence[str]], Tokens]
"""A function that edits tokens; its last argument holds tokens of other texts."""

_TOKEN = re.compile(r'\s+|"(?:[^"\\\n]|\\.)*"|%\d+|-?\d[\w.+-]*|[A-Za-z_$][\w.$]*|\.\.|.')

NUMBERS = (
    *"0 -0 1 -1 0.5 -0.0 nan inf -inf 1e400 1e-400 4 33 255 -129 65536 true 1. 1..2 0.5e 007".split(),
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1" + "0" * 400,
    "7" * 5000,
    "\u0663",
)
WORDS = tuple(
    """
    const load store for while if else scope break continue return until trips step descending test local
    local_array set get set_element get_element atomic add cas expected exchange print assert random task shape arg
    cast bit_cast adstack_alloca adstack_push adstack_pop adstack_load_top adstack_load_top_adj adstack_acc_adj
    capacity adjoint of grad temp serial parallel bounds kernel in true false nan f16 f32 f64 i8 i16 i32 i64 u1 u8 u16
    u32 u64 unique select pow mod floordiv x.grad $t é f8
    """.split()
)
MARKS = (*"{ } [ ] ( ) , : .. = !1 !-3 !99999 // % %0 %1 %99".split(), '"', "\n", "\0")
STRINGS = (
    '""',
    '"{}"',
    '"{:d}"',
    '"{:.3f}"',
    '"{:99999}"',
    '"{;}"',
    r'"\d"',
    r'"\u12"',
    r'"\ud800"',
    '"\t"',
    '"{:{}}"',
    r'"\\"',
    '"{!r}"',
    r'"\u0000"',
)


def tokens_of(text: str) -> Tokens:
    """Return the tokens of a text in order; joined together, they give the text again."""
    return _TOKEN.findall(text)


@lru_cache(maxsize=256)
def _known_tokens(text: str) -> tuple[str, ...]:
    return tuple(tokens_of(text))


def edit_text(rng: random.Random, text: str, others: Sequence[str]) -> str:
    """Return the text after one or several random edits, which may insert parts of `others`.

    Args:
        rng: Source of the random choices.
        text: The text to edit.
        others: Texts whose parts may be inserted.
    """
    tokens = list(_known_tokens(text))
    while True:
        foreign = _known_tokens(rng.choice(others)) if others else WORDS
        tokens = rng.choices(_EDITS, _WEIGHTS)[0](rng, tokens or [" "], foreign) or [" "]
        if rng.random() < 0.65:
            return "".join(tokens)


def _place(rng: random.Random, tokens: Tokens) -> int:
    """Return the position of a token that is not white space, if there is one at or after a random position."""
    at = rng.randrange(len(tokens))
    return next((k for k in range(at, len(tokens)) if not tokens[k].isspace()), at)


def _run(rng: random.Random, tokens: Sequence[str]) -> slice:
    """Return a slice of random position and length of a token list, mostly of a few tokens."""
    at = rng.randrange(len(tokens))
    return slice(at, at + 1 + min(int(rng.expovariate(0.25)), 40))


def _lost(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens without a random run of neighboring tokens."""
    part = _run(rng, tokens)
    return tokens[: part.start] + tokens[part.stop :]


def _doubled(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens with a random run of neighboring tokens repeated."""
    part = _run(rng, tokens)
    return tokens[: part.stop] + tokens[part.start :]


def _exchanged(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens with two random tokens exchanged."""
    made, a, b = list(tokens), _place(rng, tokens), _place(rng, tokens)
    made[a], made[b] = made[b], made[a]
    return made


def _kind(token: str) -> str:
    first = token[0]
    if first.isspace() or first == '"':
        return "space" if first != '"' else "string"
    if first == "%":
        return "value" if len(token) > 1 else "mark"
    if first.isdecimal() or first == "-":
        return "number"
    return "name" if first.isalpha() or first in "_$" else "mark"


_VALUES = (*"%0 %1 %2 %3 %7 %40".split(), "%" + "9" * 30)
_OF_KIND = {"number": NUMBERS, "name": WORDS, "string": STRINGS, "value": _VALUES}


def _replaced(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens with one replaced by a token of its kind, from this or another text or a list of odd ones."""
    made, at = list(tokens), _place(rng, tokens)
    # A mark can rarely be replaced by one that fits, so tokens of other kinds are preferred.
    for _ in range(3):
        at = at if _kind(tokens[at]) in _OF_KIND else _place(rng, tokens)
    kind = _kind(tokens[at])
    pool: Sequence[str] = rng.choice((tokens, tokens, tokens, foreign, _OF_KIND.get(kind, MARKS)))
    alike = [token for token in pool if _kind(token) == kind]
    made[at] = rng.choice(alike or MARKS)
    return made


def _strange(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens with a random token replaced by any other one."""
    made = list(tokens)
    made[_place(rng, tokens)] = rng.choice(rng.choice((NUMBERS, WORDS, MARKS, STRINGS)))
    return made


def _inserted(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens with a run of another text's tokens inserted, or with one token that often causes trouble."""
    at, part = rng.randrange(len(tokens) + 1), _run(rng, foreign)
    new = (
        list(foreign[part])
        if rng.random() < 0.6
        else [" ", rng.choice(rng.choice((NUMBERS, WORDS, MARKS, STRINGS))), " "]
    )
    return tokens[:at] + new + tokens[at:]


def _spliced(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the beginning of this text joined to the end of another text, as tokens."""
    return tokens[: rng.randrange(len(tokens))] + list(foreign[rng.randrange(len(foreign)) :])


def _lines(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens with a whole line deleted, doubled or moved, or with a line of another text inserted."""
    lines = "".join(tokens).split("\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    line = rng.choice("".join(foreign).split("\n")) if rng.random() < 0.3 else lines[at]
    if rng.random() < 0.6:
        del lines[at]
    if rng.random() < 0.7:
        lines.insert(to, line)
    return tokens_of("\n".join(lines))


def _nested(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens with a line enclosed in nested blocks, whose depth may exceed the parser's limit."""
    lines = "".join(tokens).split("\n")
    at = rng.randrange(len(lines))
    count = rng.choice((1, 2, 3, 30, 120, 318, 330, 1000))
    head = rng.choice(("scope {", "if %0 {", "while { } test %0 {", "else {", "serial {", "{"))
    lines[at] = f"{head}\n" * count + lines[at] + "\n}" * (count + rng.choice((0, 0, 0, 1, -1)))
    return tokens_of("\n".join(lines))


def _noise(rng: random.Random, tokens: Tokens, foreign: Sequence[str]) -> Tokens:
    """Return the tokens of the text after a few of its bytes were replaced by random bytes."""
    data = bytearray("".join(tokens).encode(errors="replace"))
    for _ in range(rng.choice((1, 2, 8))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return tokens_of(data.decode(errors=rng.choice(("replace", "ignore", "surrogateescape"))))


_TABLE: dict[Edit, int] = {
    _lost: 2,
    _doubled: 2,
    _exchanged: 2,
    _replaced: 24,
    _strange: 1,
    _inserted: 2,
    _spliced: 1,
    _lines: 8,
    _nested: 1,
    _noise: 1,
}
_EDITS, _WEIGHTS = tuple(_TABLE), tuple(_TABLE.values())
