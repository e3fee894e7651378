"""What a case runs: a function of its seed, so that a case is the same wherever and whenever it runs."""
from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

Key = tuple[str, str]
"""One comparison of a case: (direction, executor). Directions: load, forward, reverse."""

EVERY_ORACLE, EVERY_PAIR, EVERY_CHECK, EVERY_COUNT, EVERY_FORWARD, EVERY_EFFORT = 16, 6, 10, 4, 3, 3
"""One case in so many asks JAX, launches twice in a row, verifies the IR after every pass, lets backends count their
adstacks themselves, runs backends forward, lets them optimise as they do for users: machine code costs as much as all
the rest together, and a grad kernel contains most of its forward kernel, so the other cases spend it on the gradient.
"""


@dataclass(frozen=True)
class Plan:
    """backends: names of those compared with the reference. launches: in a row, each from the state the last one left.

    oracle: ask JAX. check: verify after every pass. counts: backends size adstacks themselves. forward: backends run
    forward, where there is a gradient to run instead. effort: of backends, see `Options`. only: the one comparison to
    make; None for all.
    """

    backends: tuple[str, ...] = ("cpu",)
    launches: int = 1
    oracle: bool = False
    check: bool = False
    counts: bool = True
    forward: bool = True
    effort: int = 2
    only: Key | None = None

    def wants(self, direction: str, executor: str) -> bool:
        """Whether this comparison is to be made."""
        return self.only is None or self.only == (direction, executor)

    @property
    def stops_before_reverse(self) -> bool:
        """Whether no comparison of gradients is wanted."""
        return self.only is not None and self.only[0] != "reverse"

    def narrowed(self, key: Key) -> Plan:
        """The same case with this comparison alone."""
        backends = tuple(b for b in self.backends if b == key[1])
        return replace(self, backends=backends, oracle=key[1] == "jax", forward=key[0] == "forward", only=key)

    @property
    def everything(self) -> Plan:
        """The same launches with every comparison there is."""
        return replace(self, oracle=True, check=True, counts=True, forward=True, effort=2, only=None)


def plan_for(seed: int, backends: tuple[str, ...]) -> Plan:
    """The plan of the case with this seed."""
    drawn = zlib.crc32(f"plan {seed}".encode())
    return Plan(
        backends,
        launches=2 if drawn % EVERY_PAIR == 0 else 1,
        oracle=drawn // 64 % EVERY_ORACLE == 0,
        check=drawn // 2**12 % EVERY_CHECK == 0,
        counts=drawn // 2**18 % EVERY_COUNT == 0,
        forward=drawn // 2**24 % EVERY_FORWARD == 0,
        effort=2 if drawn // 2**6 % EVERY_EFFORT == 0 else 0,
    )
