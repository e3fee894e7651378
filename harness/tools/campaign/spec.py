"""This module defines the settings (spec) of a campaign: its seeds, backends, peers and mutant.

Unit k consists of the cases seed + k * size .. seed + (k + 1) * size - 1.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from ..fuzz.words import BACKEND, PEER
from ..mutants import MUTANTS
from ..plain_data import MalformedDataError, NumberLimits, Schema, one_of


@dataclass(frozen=True)
class CampaignSpec:
    """Represent the settings of a campaign: seed, size of a unit, backends, peers, mutant.

    Attributes:
        seed: the seed of the first case.
        size: the number of cases of a unit.
        backends: names of the backends that are compared with the reference.
        peers: names of the peers that are compared with the reference.
        profile: the kind of programs; empty for a mixture.
        mutant: the name of a known mistake that is planted, or empty.
        thorough: True if backends run the gradient of every case.
    """

    seed: int
    size: int = 200
    backends: tuple[str, ...] = ("cpu",)
    peers: tuple[str, ...] = ()
    profile: str = ""
    mutant: str = ""
    thorough: bool = False

    def first(self, unit: int) -> int:
        """Return the seed of the first case of a unit."""
        return self.seed + unit * self.size

    def to_json(self) -> str:
        """Return the settings of the campaign as JSON text, which `from_json` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"


SCHEMA = Schema(
    {
        ("CampaignSpec", "backends"): BACKEND,
        ("CampaignSpec", "peers"): PEER,
        ("CampaignSpec", "mutant"): one_of(("", *MUTANTS)),
        ("CampaignSpec", "profile"): one_of(("", "smooth", "wild", "operations")),
    },
    {("CampaignSpec", "seed"): NumberLimits(-(1 << 62), 1 << 62), ("CampaignSpec", "size"): NumberLimits(1, 1 << 30)},
)


def from_json(text: str) -> CampaignSpec:
    """Return a spec that `to_json` wrote; the text may lack settings that were added later.

    Raises:
        ValueError: the text has another form.
    """
    try:
        spec: CampaignSpec = SCHEMA.parse(text, CampaignSpec)
    except MalformedDataError as error:
        names = ", ".join(f.name for f in fields(CampaignSpec))
        raise ValueError(f"a campaign is described by {names}: {error}") from None
    return spec
