"""Run the command line of stackgrad.

The commands are `stackgrad check`, `explain`, `doctor`, `ir` and `cache`; those of the fuzzer are `fuzz`, `replay`,
`reduce`, `bisect`, `campaign` and `report`; that for those who extend the compiler is `new-op`. Every command imports
what it needs when it runs, so that `doctor` works where almost nothing is installed. Exit status: 0 if all is well, 1
if something is wrong with the user's program, 2 if the command was not understood, 130 if it was interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from ..compiler.errors import StackgradError

STAGES = (
    "source",
    "tasks",
    "structured",
    "adjoint",
    "final",
    "counting",
    "all",
    "llvm",
    "asm",
    "ptx",
    "spirv",
    "metal",
)

_COMMANDS = {
    "check": (".check", "run"),
    "explain": (".explain", "run"),
    "doctor": (".doctor", "run"),
    "ir": (".ir", "run"),
    "fuzz": (".fuzz", "run"),
    "replay": (".fuzz", "run_replay"),
    "reduce": (".fuzz", "run_reduce"),
    "bisect": (".fuzz", "run_bisect"),
    "campaign": (".campaign", "run_campaign"),
    "report": (".campaign", "run_report"),
    "cache": (".cache", "run"),
    "new-op": (".new_op", "run"),
}
"""The module and the function of each command."""

_UNCACHED = ("fuzz", "replay", "reduce", "bisect", "campaign")
"""Commands that compile random programs, or plant mistakes in the compiler; nothing of that is kept on disk."""


def main(argv: list[str] | None = None) -> int:
    """Run the command that the command-line arguments name, such as `check`. Return its exit status.

    Args:
        argv: The arguments without the program's name; None for those of the process.
    """
    parser = build_parser()
    given = parser.parse_args(argv)
    module, function = _COMMANDS[given.command]
    if given.command in _UNCACHED:
        os.environ["STACKGRAD_CACHE"] = "0"  # The variable also reaches the processes that a command starts.
    try:
        status: int = getattr(import_module(module, __name__), function)(given)
        sys.stdout.flush()
    except CommandError as error:
        print(f"stackgrad {given.command}: {error}", file=sys.stderr)
        return error.status
    except StackgradError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the output has closed it. Without this, Python would fail again when it flushes at exit.
        sys.stdout = None
        return 1
    except OSError as error:  # A command cannot read or make a file; what user programs raise is caught before.
        print(
            f"stackgrad {given.command}: {error.filename or 'a file'}: {error.strerror or error}; cure: name another",
            file=sys.stderr,
        )
        return 2
    return status


class CommandError(Exception):
    """Signal that a command cannot be carried out; the user sees only the message.

    Attributes:
        status: The exit status of the process.
    """

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def check_folder(path: Path, option: str) -> None:
    """Raise CommandError unless a folder can be created or written to.

    Args:
        path: The folder.
        option: The option that names it, for the message.

    Raises:
        CommandError: It cannot.
    """
    known = next((p for p in (path, *path.absolute().parents) if p.exists()), path)
    if not known.is_dir() or not os.access(known, os.W_OK | os.X_OK):
        what = "is no folder" if not known.is_dir() else "cannot be written to"
        raise CommandError(f"{option} {path}: {known} {what}; cure: name a folder that can be made")


def version() -> str:
    """Return the version of the stackgrad package."""
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments of all commands."""
    parser = argparse.ArgumentParser("stackgrad", description="Differentiable parallel kernels: checks and tools.")
    parser.add_argument("--version", action="version", version=f"stackgrad {version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    _check(commands.add_parser("check", help="run programs and judge every gradient by independent executors"))
    _explain(commands.add_parser("explain", help="what each gradient saves, why, how deep, and how many bytes"))
    commands.add_parser("doctor", help="what is installed, which backends can run here, and how to get the others")
    _ir(commands.add_parser("ir", help="print a kernel after each pass, or the code made of it"))
    _cache(commands.add_parser("cache", help="the compiled kernels that are kept on disk, and --clear"))
    _new_op(commands.add_parser("new-op", help="write the rows of a new operation of the IR into a checkout"))
    _fuzz(commands.add_parser("fuzz", help="random programs on every executor; what is found is reduced and kept"))
    replay = commands.add_parser("replay", help="run what the fuzzer found before, again")
    replay.add_argument("folders", nargs="+", metavar="DIR", help="an entry, or a folder of entries")
    reduce = commands.add_parser("reduce", help="make the program of an entry smaller")
    reduce.add_argument("folder", metavar="DIR", help="an entry")
    bisect = commands.add_parser("bisect", help="name the statement, or the pass, at which an entry goes wrong")
    bisect.add_argument("folder", metavar="DIR", help="an entry")
    bisect.add_argument("--passes", action="store_true", help="also find the first pass that changes what is computed")
    _campaign(commands.add_parser("campaign", help="fuzzing in units, here or on a cluster, that can stop and go on"))
    page = commands.add_parser("report", help="a page, and its JSON twin, of what a campaign came to")
    page.add_argument("folder", metavar="DIR", help="of a campaign")
    page.add_argument("--html", metavar="FILE", help="the page (default: DIR/report.html)")
    page.add_argument("--json", metavar="FILE", help="its twin (default: DIR/report.json)")
    page.add_argument(
        "--reduce", type=float, default=0.0, metavar="N", help="make findings small, each in so many seconds"
    )
    page.add_argument("--title", default="Fuzzing campaign", help="of the page")
    for command in (replay, reduce, bisect):
        command.add_argument("--backends", metavar="A,B", help=_BACKENDS)
    return parser


_BACKENDS = "compare these backends (default: all that can run here)"


_THOROUGH = "backends run the gradient of every case, not of three in ten"


_PROFILES = ("smooth", "wild", "operations")


def _fuzz(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Draw programs, run them forward and reverse on the reference and every backend, and judge them by error "
        "bounds, a second lowering, dual numbers and JAX. The corpus is replayed first. Exit status 1: something was "
        "found."
    )
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after this time (default 60, unless --cases)")
    parser.add_argument("--cases", type=_positive, metavar="N", help="stop after so many cases")
    parser.add_argument("--seed", type=int, metavar="S", help="seed of the first case (default: drawn, and printed)")
    parser.add_argument(
        "--candidate", type=int, metavar="K", help="with --seed: this case alone, with the program that a finding names"
    )
    parser.add_argument("--backends", metavar="A,B", help=_BACKENDS)
    parser.add_argument("--peers", metavar="A,B", help="look for wrong gradients of other systems: quadrants, taichi")
    parser.add_argument("--peer-python", metavar="FILE", help="the interpreter that has the peers (default: this one)")
    parser.add_argument("--findings", metavar="DIR", help="with --peers: where scripts of what was found are kept")
    parser.add_argument("--processes", type=_positive, default=1, metavar="P", help="cases at a time (default 1)")
    parser.add_argument("--profile", choices=_PROFILES, help="kind of programs (default: a mixture)")
    parser.add_argument("--thorough", action="store_true", help=_THOROUGH)
    parser.add_argument("--corpus", default="fuzz-corpus", metavar="DIR", help="where findings are kept")
    parser.add_argument(
        "--ir-text", action="store_true", help="not programs but mutated IR texts: is every error one of ours?"
    )
    parser.add_argument("--spirv-val", action="store_true", help="judge every module of the backend vulkan")
    parser.add_argument(
        "--coverage", action="store_true", help="end with a table: how many cases have each feature, and are decided?"
    )
    parser.add_argument(
        "--mutants", nargs="*", metavar="NAME", help="plant known mistakes, all or these; how soon is each one found?"
    )


def _campaign(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run units of consecutive seeds until the campaign in the folder has so many cases, or for so many seconds. "
        "The same command goes on. What is found lies in DIR/corpus. Exit status 1: something was found."
    )
    parser.add_argument("folder", metavar="DIR", help="of the campaign; a new one is made")
    parser.add_argument("--seconds", type=float, metavar="N", help="start no unit after this time")
    parser.add_argument("--cases", type=_positive, metavar="N", help="cases that the campaign is to have in all")
    parser.add_argument("--dask", metavar="ADDRESS", help="of the scheduler of a cluster whose workers run the units")
    parser.add_argument("--processes", type=_positive, default=1, metavar="P", help="units at a time here (default 1)")
    parser.add_argument("--seed", type=int, metavar="S", help="of a new campaign (default: drawn)")
    parser.add_argument("--mutant", metavar="NAME", help="a known mistake to plant in a new campaign")
    parser.add_argument("--unit", type=_positive, default=200, metavar="N", help="cases of a unit of a new campaign")
    parser.add_argument("--backends", metavar="A,B", help=_BACKENDS)
    parser.add_argument("--peers", metavar="A,B", help="compare these other systems too: quadrants, taichi")
    parser.add_argument("--profile", choices=_PROFILES, help="kind of programs (default: a mixture)")
    parser.add_argument("--thorough", action="store_true", help=_THOROUGH)


def _cache(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show where compiled kernels are kept for the next process, how many, and how large they are. "
        "STACKGRAD_CACHE=0 turns the cache off; STACKGRAD_CACHE_DIR and STACKGRAD_CACHE_LIMIT (bytes) set its folder "
        "and size."
    )
    parser.add_argument("--clear", action="store_true", help="remove all entries")


def _new_op(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a row for a new operation into each table of the compiler, the backends, the reference and the harness, "
        "and a file of tests; every row fails, with its place, until it is written. Print what is left to do."
    )
    parser.add_argument("name", metavar="NAME", help="of the operation in IR text")
    parser.add_argument("--arity", type=int, choices=(1, 2), help="number of operands (default: that of --like, or 1)")
    parser.add_argument(
        "--like", metavar="OTHER", help="an operation of the same types and kind (default: sqrt, atan2)"
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing")


def _check(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run each program, record its launches, replay them on every executor, and compare. A program that defines "
        "a dict CHECK is imported and its main(**CHECK) is called; any other runs as a script."
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a Python program")
    parser.add_argument("--json", metavar="OUT", help="write the report as JSON to this file, - for standard output")
    parser.add_argument("--html", metavar="OUT", help="write the report as a page of HTML to this file")
    parser.add_argument("--limit", type=_positive, default=2, metavar="N", help="launches kept per kernel (default 2)")
    parser.add_argument("--backends", metavar="A,B", help="compare these backends (default: all that can run here)")


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a program and explain each gradient that it launched: one entry for every adstack, with the variable, the "
        "line, what reads it, why it is saved, its depth and bytes. Kernels of IR text are explained without depths."
    )
    parser.add_argument("file", metavar="FILE[:KERNEL]", help="a .py program or a .kir file; all kernels unless named")
    parser.add_argument("--lowering", choices=("lean", "classic"), default="lean", help="of the gradient")
    parser.add_argument("--html", metavar="OUT", help="also write a page of HTML, with the source, to this file")


def _ir(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print kernels of a program or of IR text. Stages: source; tasks, structured, adjoint (after the passes that "
        "lead there); final (what a backend runs); counting (what sizes its adstacks); all (source, then the kernel "
        "after each pass); llvm, asm, ptx, spirv, metal."
    )
    parser.add_argument("file", metavar="FILE[:KERNEL]", help="a .py program or a .kir file; all kernels unless named")
    parser.add_argument("--stage", choices=STAGES, default="final")
    parser.add_argument("--direction", choices=("forward", "reverse"), default="forward")
    parser.add_argument("--lowering", choices=("lean", "classic"), default="lean", help="of the gradient")
    parser.add_argument("--arch", default="sm_90", help="of --stage ptx (default sm_90)")


def _positive(text: str) -> int:
    """Return a command-line text as an integer of at least 1. Raise ArgumentTypeError if it is none."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
