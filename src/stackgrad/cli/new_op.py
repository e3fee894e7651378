"""Run `stackgrad new-op NAME`: add table entries for a new operation to a checkout, and print the remaining steps."""

from __future__ import annotations

import argparse

from ..harness.tools.recipes.scaffold import ScaffoldError, plan, report, write
from . import CommandError


def run(given: argparse.Namespace) -> int:
    """Add scaffolding for a new operation to the checkout, and print the remaining edits. Return the exit status."""
    try:
        made = plan(given.name, given.arity, given.like or "")
    except (ScaffoldError, LookupError) as error:
        raise CommandError(str(error)) from None
    if not given.dry_run:
        write(made)
    print(f"operation {given.name}{': nothing was written (--dry-run)' if given.dry_run else ''}")
    print(report(made, given.name))
    return 0
