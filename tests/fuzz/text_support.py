"""Define verdicts for tests of the loop over IR texts: one is a finding, one hangs, one ends its process."""

from __future__ import annotations

import os
import time

from stackgrad.harness.tools.fuzz.text_case import TextVerdict

FOUND, HANGS, DIES = 7, 11, 13


def troubled(seed: int) -> TextVerdict:
    """Return verdicts of which all pass but three."""
    if seed == HANGS:
        time.sleep(600)
    if seed == DIES:
        os._exit(3)
    return TextVerdict(True, "reading: KeyError" if seed == FOUND else "")
