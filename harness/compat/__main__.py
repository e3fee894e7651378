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
    programs.add_argument("--iterations", type=int, default=0, help="gradients after which a program is stopped")
    programs.add_argument("--gradients", action="store_true", help="compare gradients with differences of the loss")
    programs.add_argument("--taichi", default="", metavar="PYTHON", help="an interpreter with Taichi, to compare with")
    programs.add_argument("--markdown", default="", metavar="FILE", help="a file for the table of gradients")
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
    return difftaichi.main(
        difftaichi.Given(
            given.checkout,
            given.names,
            given.python,
            given.limit,
            tuple(given.arguments.split()),
            given.iterations,
            given.gradients,
            given.taichi,
            given.markdown,
        ),
        machine(),
    )


if __name__ == "__main__":
    sys.exit(main())
