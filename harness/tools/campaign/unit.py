"""Run one campaign unit in its own process, which reads a spec and a number and writes the result.

The process is independent, so that a unit runs in the same way in a local pool and on a worker of a cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial

from ..fuzz.loop import fuzz
from ..strategies import sample
from . import spec as specs
from .plain_results import Plain, to_plain
from .spec import CampaignSpec


class UnitError(RuntimeError):
    """Signal that a campaign unit has no result, because its process ended with an error."""


def run(spec: CampaignSpec, unit: int) -> Plain:
    """Run one campaign unit and return its statistics as plain data; a program that crashes is a finding."""
    draw = partial(sample, profile=spec.profile or None)
    found = fuzz(
        None,
        spec.size,
        spec.first(unit),
        spec.backends,
        1,
        draw,
        mutant=spec.mutant,
        peers=spec.peers,
        thorough=spec.thorough,
    )
    return {"unit": unit, "ended": time.time(), **to_plain(found)}


def run_apart(text: str, unit: int) -> Plain:
    """Run a campaign unit in another process and return its statistics; `text` is the text of the spec.

    Raises:
        UnitError: the process ended with an error.
    """
    command = [sys.executable, "-P", "-m", __name__]  # nothing is imported from where this runs
    ended = subprocess.run(command, input=f"{unit} {text}", capture_output=True, text=True)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or [f"status {ended.returncode}"]
        raise UnitError(f"unit {unit}: {last[0]}")
    result: Plain = json.loads(ended.stdout)
    return result


if __name__ == "__main__":
    number, _, described = sys.stdin.read().partition(" ")
    print(json.dumps(run(specs.from_json(described), int(number))))
