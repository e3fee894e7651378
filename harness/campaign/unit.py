"""One unit, in a process of its own: a spec and a number on standard input, the result on standard output.

The process stands alone, so that a unit runs alike under a pool here and under a worker of a cluster.
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
from .plain import Plain, to_plain
from .spec import Spec


class UnitError(RuntimeError):
    """A unit that gave no result: its process did not live to say it."""


def run(spec: Spec, unit: int) -> Plain:
    """The statistics of a unit, as plain data. Programs that crash are findings."""
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
    """The same in another process. text: of a spec. Raises UnitError."""
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
