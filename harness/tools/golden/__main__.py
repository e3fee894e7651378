"""This command writes digests of generated code for the kernels of tests and examples, or compares two such files.

    python -m stackgrad.harness.tools.golden write FILE [--only FILE[:KERNEL] ...] [--every N] [--jobs N] [--texts DIR]
    python -m stackgrad.harness.tools.golden compare BASE HEAD [--texts BASE_DIR HEAD_DIR] [--most N] [--names]

The exit status of `compare` is 1 if the files differ.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from .code import tools
from .difference import differences, shown, shown_differences, summary
from .inputs import GoldenError, KernelSelection
from .record import read_record, write_record
from .run import all_rows


def main(arguments: list[str] | None = None) -> int:
    """Run the command `write` or `compare`, and return its exit status.

    Returns:
        The exit status: 0 if all is well, 1 if records differ, 2 if the command cannot be carried out.
    """
    given = _parser().parse_args(arguments)
    try:
        return _write(given) if given.command == "write" else _compare(given)
    except GoldenError as error:
        print(f"golden: {error}", file=sys.stderr)
        return 2


def _write(given: argparse.Namespace) -> int:
    begin = time.monotonic()
    texts = given.texts.absolute() if given.texts else None
    selection = KernelSelection(tuple(given.only), given.every)
    rows = all_rows(selection, given.jobs, texts, lambda name, count: print(f"{name}: {count}", file=sys.stderr))
    if not rows:
        raise GoldenError("no kernel is wanted; patterns are FILE[:KERNEL], as in 'ops/sin.kir:01-*'")
    write_record(given.file, rows, tools())
    kernels = len({row.kernel for row in rows})
    print(f"{given.file}: {kernels} kernels, {len(rows)} texts, {time.monotonic() - begin:.0f} s")
    return 0


def _compare(given: argparse.Namespace) -> int:
    base, head = read_record(given.base), read_record(given.head)
    found = differences(base, head)
    picked = shown_differences(found, given.most)
    if given.names:
        sys.stdout.writelines(f"{difference.kernel}\n" for difference in picked)
        return 1 if found else 0
    print("\n".join(summary(found, base, head)))
    for difference in picked if given.texts else ():
        print("\n" + "\n".join(shown(difference, *given.texts)))
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stackgrad.harness.tools.golden", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="write the digests of this checkout")
    write.add_argument("file", type=Path, metavar="FILE")
    write.add_argument("--only", nargs="+", default=[], metavar="FILE[:KERNEL]", help="these kernels; * and ? match")
    write.add_argument("--every", type=_positive, default=1, metavar="N", help="every n-th kernel of each file")
    write.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    write.add_argument("--texts", type=Path, metavar="DIR", help="write the texts themselves to this folder, too")
    compare = commands.add_parser("compare", help="say where two files of digests differ")
    compare.add_argument("base", type=Path, metavar="BASE")
    compare.add_argument("head", type=Path, metavar="HEAD")
    compare.add_argument("--texts", type=Path, nargs=2, metavar="DIR", help="folders with the texts of both, to show")
    compare.add_argument("--most", type=_positive, default=5, metavar="N", help="kernels to show, or to name")
    compare.add_argument("--names", action="store_true", help="print the names of such kernels and nothing else")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
