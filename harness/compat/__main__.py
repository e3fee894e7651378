"""Run programs of peers on stackgrad: `python -m stackgrad.harness.compat {genesis,quadrants-tests,difftaichi} ...`."""

from __future__ import annotations

import argparse
import sys

from ..tools.bench.run import machine
from ..tools.peers import peer_python
from . import difftaichi, genesis_runs, quadrants_tests
from .scenes import SCENES


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m stackgrad.harness.compat", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    genesis = commands.add_parser("genesis", help="scenes of Genesis, on stackgrad and on Quadrants")
    genesis.add_argument("names", nargs="*", metavar="SCENE", help=f"of {', '.join(SCENES)}; all if none is given")
    genesis.add_argument("--precision", choices=("32", "64"), default="32", help="bits of real numbers")
    genesis.add_argument("--repeat", type=int, default=7, help="timed steps or backward passes (7 for a claim)")
    genesis.add_argument("--markdown", default="", metavar="FILE", help="a file for the table")
    tests = commands.add_parser("quadrants-tests", help="the tests of differentiation of a checkout of Quadrants")
    tests.add_argument("checkout")
    tests.add_argument("names", nargs="*", metavar="FILE", help="files of tests; test_ad*.py if none is given")
    programs = commands.add_parser("difftaichi", help="the programs of a checkout of DiffTaichi, without a display")
    programs.add_argument("checkout")
    programs.add_argument("names", nargs="*", metavar="NAME", help="names of programs; all if none is given")
    programs.add_argument("--arguments", default="", help="arguments of each program, in one text")
    for command, limit in ((genesis, 1800.0), (tests, 600.0), (programs, 300.0)):
        command.add_argument("--python", default=peer_python(), help="the interpreter that has the packages")
        command.add_argument("--limit", type=float, default=limit, help="seconds that a process may take")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for, and return the exit status."""
    given = _parser().parse_args(arguments)
    if given.command == "genesis":
        return genesis_runs.main(
            given.names, given.python, given.precision, given.repeat, given.limit, given.markdown, machine()
        )
    if given.command == "quadrants-tests":
        return quadrants_tests.main(given.checkout, given.names, given.python, given.limit)
    return difftaichi.main(given.checkout, given.names, given.python, given.limit, given.arguments.split())


if __name__ == "__main__":
    sys.exit(main())
