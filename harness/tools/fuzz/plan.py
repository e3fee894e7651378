"""Decide the executors and comparisons of a case from its seed alone, so that the case is the same on every machine."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ....compiler.ad.policies import LOWERINGS, POLICIES
from ..relations import RELATIONS, STRAY
from .equivalent_programs import TWINS

Key = tuple[str, str]
"""One comparison of a case: direction and executor.

Directions are load, forward, reverse, stacks and tapes.
"""

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
"""Shares of cases that use an option of `FuzzPlan`, each drawn independently.

Every case does the work that costs little and finds much: the interpreter's gradient, with the adstacks that it counts,
against dual numbers. Each other comparison costs as much as several such cases, and finds its mistakes in few programs.
`pair` launches twice in a row; `effort` lets backends optimize as they do for users.
"""

MASKED = "cpu-masked"
"""Name of the CPU with masked code and several threads, see `widened`."""
BACKENDS = ("cpu", MASKED)
"""Backends that run unless others are named."""
WIDE = 0.42
"""Share of cases that run kernels as masked code on several threads instead of as small launches do."""
BOTH = 0.03
"""Share of cases that run kernels in both ways."""
LANES = (4, 8, 2, 4, 8, 16)
"""Numbers of lanes of masked code; launches have up to 9 iterations."""
STACKS = 0.06
"""Share of cases with a kernel of raw adstack statements in addition to the program, see `raw_stacks`."""
STACKS_ELSEWHERE = 0.5
"""The share of STACKS without a CPU among the backends: compiling for a device costs more than the added kernel."""
TAPES = 0.08
"""Share of cases with programs of several launches under tapes in addition to the program, see `taped`."""
RELATED = 0.05
"""Share of cases that check a relation, on the reference or on the backends of the case."""
STRAYS = 0.1
"""Share of cases in which an index leads outside, on the backends of the case; see relations/out_of_bounds.py."""
POSITIONS = 0.45
"""Share of cases in which an index leads outside if the kernel has positions in local vectors or views.

Few kernels have these, and no other check of the kernel notices one that is missing.
"""
PARTS = 1 << 16
"""Number of values of `FuzzPlan.part`; a relation takes several choices from one value."""
RELATED_BY = (*(name for name in RELATIONS if name != STRAY), "widened")
"""Relations to draw from; `widened` stands twice, because only it sees a derivative that is wrong in one type alone."""

OF_ARRAYS = ("restoring", "restoring", "greedy", "restoring", "stored", "restoring", "restoring")
"""Policies that differ in what they save of local arrays; one makes a further gradient of kernels with local arrays."""


@dataclass(frozen=True)
class FuzzPlan:
    """Represent the choice of executors, launches and comparisons that a case runs.

    Attributes:
        backends: Names of the backends that are compared with the reference.
        launches: Number of launches in a row, each from the state that the last one left.
        traced: True to test the frontend's kernel, False to test the model's own rendering, which costs a fifth.
        text: Compare with the rendering that is not under test.
        oracle: Compare the gradient with that of JAX, besides dual numbers.
        check: Verify the IR after every pass.
        counts: Let backends size adstacks themselves.
        forward: Run forward passes and backends even if there is a gradient to run instead.
        reverse: Let backends run the gradient.
        classic: Make the gradient of the classic policy too.
        effort: Effort of backends, see `Options`.
        twins: Compare with twins, forward and reverse.
        tangents: Compare with forward mode.
        branching: Run branching code of the CPU.
        masked: Run masked code of the CPU.
        lanes: Number of lanes of masked code.
        threads: Number of threads of masked code.
        again: Size the gradient in both ways and launch it with other trip counts.
        policy: Name of one more policy that makes the gradient, or empty.
        of_arrays: Name of a policy that is used likewise if the kernel has local arrays, or empty.
        in_memory: Keep vectors in local arrays in the model's own rendering.
        only: The one comparison to make; None for all.
        peers: Names of the peers that are compared with the reference.
        relations: Names of relations to check.
        relate_on: Executors of relations: "reference", "backends" or "both".
        stacks: Number of a raw adstack kernel for the backends, 0 for none.
        tapes: Number of programs under tapes, 0 for none.
        part: Number that selects the part of a kernel that a relation changes.
        positions: Check the relation STRAY if the kernel has positions in local vectors or views.
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
    positions: bool = False

    def wants(self, direction: str, executor: str) -> bool:
        """Return True if the plan includes the comparison of this executor in this direction."""
        return self.only is None or self.only == (direction, executor)

    @property
    def stops_before_reverse(self) -> bool:
        """Return True if the case ends after the forward direction, because its plan compares no gradients."""
        return self.only is not None and (self.only[0] != "reverse" or bool(self.peers))

    def narrowed(self, key: Key) -> FuzzPlan:
        """Return the plan of the same case with one comparison only."""
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
            positions=False,
        )

    @property
    def everything(self) -> FuzzPlan:
        """Return a plan of the same launches with every comparison."""
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


def plan_for(seed: int, backends: tuple[str, ...], peers: tuple[str, ...] = (), thorough: bool = False) -> FuzzPlan:
    """Return the plan of the case with this seed; if `thorough`, backends run the gradient of every case."""
    source = random.Random(f"plan {seed}")
    drawn = {name: source.random() < share for name, share in SHARES.items()}
    # One number decides between branching and masked code, so that BOTH is the overlap.
    code = source.random()
    return FuzzPlan(
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
        relations=((source.choice(RELATED_BY),) if source.random() < RELATED else ())
        + (STRAY,) * _happens(STRAY, seed, STRAYS),
        relate_on=source.choice(("reference", "backends", "reference")),
        stacks=_number("stacks", seed, STACKS if "cpu" in backends else STACKS_ELSEWHERE),
        tapes=_number("tapes", seed, TAPES),
        part=source.randrange(PARTS),
        positions=_happens("positions", seed, POSITIONS),
    )


def _happens(what: str, seed: int, share: float) -> bool:
    """Return True in a share of the cases, drawn by a generator of its own for each name `what`."""
    return random.Random(f"{what} {seed}").random() < share


def _number(what: str, seed: int, share: float) -> int:
    """Return a seed for the additional run `what` in a share of the cases, and 0 (no such run) in the others."""
    source = random.Random(f"{what} {seed}")
    return source.randrange(1, 1 << 30) if source.random() < share else 0
