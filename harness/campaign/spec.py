"""What a campaign runs. Unit k is the cases seed + k * size .. seed + (k + 1) * size - 1."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from ..fuzz.words import BACKEND, PEER
from ..mutants import MUTANTS
from ..plain_data import Limits, Malformed, Schema, one_of


@dataclass(frozen=True)
class Spec:
    """seed: of the first case. size: cases of a unit. backends, peers: compared with the reference, by name. profile:
    kind of programs, empty for a mixture. mutant: a known mistake that is planted, by name. thorough: backends run the
    gradient of every case.
    """

    seed: int
    size: int = 200
    backends: tuple[str, ...] = ("cpu",)
    peers: tuple[str, ...] = ()
    profile: str = ""
    mutant: str = ""
    thorough: bool = False

    def first(self, unit: int) -> int:
        """The seed of the first case of a unit."""
        return self.seed + unit * self.size

    def to_json(self) -> str:
        """As text that `from_json` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"


SCHEMA = Schema(
    {
        ("Spec", "backends"): BACKEND,
        ("Spec", "peers"): PEER,
        ("Spec", "mutant"): one_of(("", *MUTANTS)),
        ("Spec", "profile"): one_of(("", "smooth", "wild", "operations")),
    },
    {("Spec", "seed"): Limits(-(1 << 62), 1 << 62), ("Spec", "size"): Limits(1, 1 << 30)},
)


def from_json(text: str) -> Spec:
    """A spec that `to_json` wrote, also before it had all of its fields. Raises ValueError for anything else."""
    try:
        spec: Spec = SCHEMA.parse(text, Spec)
    except Malformed as error:
        names = ", ".join(f.name for f in fields(Spec))
        raise ValueError(f"a campaign is described by {names}: {error}") from None
    return spec
