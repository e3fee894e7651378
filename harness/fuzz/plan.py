"""What a case runs: a function of its seed, so that a case is the same wherever and whenever it runs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ...compiler.ad.policies import LOWERINGS, POLICIES
from ..relations import RELATIONS
from .twins import TWINS

Key = tuple[str, str]
"""One comparison of a case: (direction, executor). Directions: load, forward, reverse."""

TWIN_KEYS = frozenset({("reverse", "text"), *((d, name) for d in ("forward", "reverse") for name in TWINS)})
OTHER_POLICIES = tuple(name for name in POLICIES if name not in LOWERINGS)
SHARES = {
    "pair": 0.04,
    "traced": 0.1,
    "oracle": 0.005,
    "check": 0.03,
    "counts": 0.1,
    "forward": 0.16,
    "reverse": 0.3,
    "classic": 0.09,
    "effort": 0.02,
    "twins": 0.03,
    "tangents": 0.2,
    "policy": 0.06,
    "again": 0.2,
    "in_memory": 0.65,
}
"""Shares of cases, each drawn by itself: launches twice in a row, goes through the frontend, asks JAX, verifies the IR
after every pass, lets backends count their adstacks themselves, runs the optimised kernel and backends forward, runs
backends in reverse, makes the classic gradient too, lets backends optimise as they do for users, runs twins, asks
forward mode, makes the gradient by one more policy, launches the gradient again with other trip counts and finds its
sizes both ways, keeps vectors in local arrays.

What costs little and finds much is in every case: the gradient of the interpreter, with the adstacks that it counts,
against dual numbers. The rest costs as much as several such cases each, and finds what it finds in few programs.
"""

MASKED = "cpu-masked"
"""The CPU with masked code and several threads, see `widened`."""
BACKENDS = ("cpu", MASKED)
"""What runs unless others are named."""
WIDE = 0.42
"""Share of cases that run kernels so, and not as small launches are."""
BOTH = 0.03
"""Share of cases that do both."""
LANES = (4, 8, 2, 4, 8, 16)
"""Lanes of masked code: launches have up to 9 iterations."""
STACKS = 0.06
"""Share of cases with a kernel of raw adstack statements beside the program, see `raw_stacks`."""
STACKS_ELSEWHERE = 0.5
"""The same where no CPU is among the backends: it costs less than what there is to compile for a device."""
TAPES = 0.05
"""Share of cases with programs of several launches under tapes beside the program, see `taped`."""
RELATED = 0.05
"""Share of cases that check a relation, on the reference or on the backends of the case."""
STRAY = 0.06
"""Share of cases in which an index goes astray, on the backends of the case; see relations/stray.py."""
RELATED_BY = (*(name for name in RELATIONS if name != "stray"), "widened")
"""Relations to draw from; no other comparison sees a derivative that is wrong in one type alone."""

OF_ARRAYS = ("restoring", "restoring", "greedy", "restoring", "stored", "restoring", "restoring")
"""Policies that differ in what they save of local arrays; one more makes the gradient of every kernel that has some."""


@dataclass(frozen=True)
class Plan:
    """backends: names of those compared with the reference. peers: likewise, of other systems. launches: in a row, each
    from the state the last one left.

    traced: the kernel under test is what the frontend makes of the text, else the model's own rendering, which costs a
    fifth. text: the other one must do the same. oracle: ask JAX. check: verify after every pass. counts: backends size
    adstacks themselves. forward: forward passes and backends run, where there is a gradient to run instead. reverse:
    backends run the gradient. classic: the gradient of that lowering too. effort: of backends, see `Options`. twins:
    what twins compute too, forward and reverse. in_memory: in the model's own rendering vectors are local arrays.
    tangents: compare with forward mode. branching, masked: which code of the CPU runs; lanes, threads: of masked code.
    again: size the gradient both ways and launch it with other trip counts. policy: one more that makes the gradient,
    if any. of_arrays: likewise, where the kernel has local arrays. relations: checked too, by name.
    relate_on: "reference", "backends" or "both". stacks: number of a raw adstack kernel for the backends, 0 for none.
    tapes: number of programs under tapes, 0 for none. part: which of what a relation can change it does. only: the one
    comparison to make; None for all.
    """

    backends: tuple[str, ...] = BACKENDS
    launches: int = 1
    traced: bool = True
    text: bool = True
    oracle: bool = False
    check: bool = False
    counts: bool = True
    forward: bool = True
    reverse: bool = True
    classic: bool = True
    effort: int = 2
    twins: bool = True
    tangents: bool = True
    branching: bool = True
    masked: bool = True
    lanes: int = 4
    threads: int = 2
    again: bool = True
    policy: str = "stored"
    of_arrays: str = ""
    in_memory: bool = False
    only: Key | None = None
    peers: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    relate_on: str = "both"
    stacks: int = 0
    tapes: int = 0
    part: int = 0

    def wants(self, direction: str, executor: str) -> bool:
        """Whether this comparison is to be made."""
        return self.only is None or self.only == (direction, executor)

    @property
    def stops_before_reverse(self) -> bool:
        """Whether no comparison of gradients is wanted."""
        return self.only is not None and (self.only[0] != "reverse" or bool(self.peers))

    def narrowed(self, key: Key) -> Plan:
        """The same case with this comparison alone."""
        related = key[1] in RELATIONS
        backends = tuple(b for b in self.backends if b == key[1] or related)
        return replace(
            self,
            backends=backends,
            text=self.text or key[1] == "text",
            oracle=key[1] == "jax",
            forward=key[0] == "forward",
            reverse=True,
            classic=key[1] == "classic",
            only=key,
            twins=key in TWIN_KEYS,
            tangents=key[1] == "tangent",
            policy=self.policy if key[1] == "policy" else "",
            of_arrays=self.of_arrays if key[1] == "policy" else "",
            branching=True,
            masked=True,
            again=key[1] == "again",
            peers=tuple(p for p in self.peers if p == key[1]),
            relations=(key[1],) if related else (),
            stacks=self.stacks if key[0] == "stacks" else 0,
            tapes=self.tapes if key[0] == "tapes" else 0,
        )

    @property
    def everything(self) -> Plan:
        """The same launches with every comparison there is."""
        return replace(
            self,
            text=True,
            oracle=True,
            check=True,
            counts=True,
            forward=True,
            reverse=True,
            classic=True,
            effort=2,
            twins=True,
            tangents=True,
            branching=True,
            masked=True,
            again=True,
            policy=self.policy or OTHER_POLICIES[0],
            only=None,
            relations=RELATIONS,
            relate_on="both",
        )


def plan_for(seed: int, backends: tuple[str, ...], peers: tuple[str, ...] = (), thorough: bool = False) -> Plan:
    """The plan of the case with this seed. thorough: backends run the gradient of every case."""
    source = random.Random(f"plan {seed}")
    drawn = {name: source.random() < share for name, share in SHARES.items()}
    code = source.random()
    return Plan(
        backends,
        launches=2 if drawn["pair"] else 1,
        traced=drawn["traced"],
        text=drawn["traced"],
        oracle=drawn["oracle"],
        check=drawn["check"],
        counts=drawn["counts"],
        forward=drawn["forward"],
        reverse=drawn["reverse"] or thorough or "cpu" not in backends,
        classic=drawn["classic"],
        effort=2 if drawn["effort"] else 0,
        twins=drawn["twins"],
        tangents=drawn["tangents"],
        policy=source.choice(OTHER_POLICIES) if drawn["policy"] else "",
        of_arrays=source.choice(OF_ARRAYS),
        branching=code >= WIDE or MASKED not in backends,
        masked=code < WIDE + BOTH or "cpu" not in backends,
        lanes=source.choice(LANES),
        threads=source.choice((1, 2)),
        again=drawn["again"],
        peers=peers,
        in_memory=drawn["in_memory"],
        relations=((source.choice(RELATED_BY),) if source.random() < RELATED else ()) + _stray(seed),
        relate_on=source.choice(("reference", "backends", "reference")),
        stacks=_number("stacks", seed, STACKS if "cpu" in backends else STACKS_ELSEWHERE),
        tapes=_number("tapes", seed, TAPES),
        part=source.randrange(64),
    )


def _stray(seed: int) -> tuple[str, ...]:
    """The relation of stray indices, in the cases that have it."""
    return ("stray",) if random.Random(f"stray {seed}").random() < STRAY else ()


def _number(what: str, seed: int, share: float) -> int:
    """The raw adstack kernel of a case, or its programs under tapes: each drawn by itself."""
    source = random.Random(f"{what} {seed}")
    return source.randrange(1, 1 << 30) if source.random() < share else 0
