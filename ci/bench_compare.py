"""This script compares the speed and the memory of two commits and fails if the second one is worse.

    ci/bench_compare.sh BASE                 BASE against the working tree, edits that are not committed included
    ci/bench_compare.sh BASE HEAD            two commits
    ci/bench_compare.sh --packages A B       two folders with an installed `stackgrad` each

Each round measures all metrics of the base, of the head, and of the base again, and the controls, which are benchmarks
without the package; each measurement has a process of its own. Metrics that look worse are measured again in as many
rounds; a metric that is worse both times is a regression. Exit status: 0 no regression, 1 a regression, 2 the
comparison was not possible.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench_verdict import Round, Sample, Verdict, drift_of, verdicts

ROOT = Path(__file__).resolve().parent.parent
FACTORS = {"launch": 1.08, "compile": 1.08, "heap": 1.0}
"""Ratio of head to base up to which a metric of this kind is not reported, whatever its noise."""
STEADY = 1.5
"""Factor by which a control may move during a comparison; above, the report says that the machine was busy."""


class CannotCompareError(Exception):
    """Signal that a commit cannot be built, or that the measuring process failed."""


def run(command: Sequence[str | Path], cwd: Path = ROOT, **environment: str) -> str:
    """Run a command, and return what it printed.

    Raises:
        CannotCompareError: it failed; the message has the end of its error output.
    """
    variables = {**os.environ, **environment}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotCompareError(f"{' '.join(map(str, command))}\n{done.stderr.strip()[-2000:]}")
    return done.stdout


@contextmanager
def checked_out(commit: str | None, work: Path) -> Iterator[Path]:
    """Check out a commit in a new worktree for the time of the block; None stands for the working tree itself."""
    if commit is None:
        yield ROOT
        return
    tree = work / "tree"
    run(["git", "worktree", "add", "--quiet", "--detach", tree, commit])
    try:
        yield tree
    finally:
        run(["git", "worktree", "remove", "--force", tree])


def install(commit: str | None, work: Path, target: Path) -> Path:
    """Build the wheel of a commit, install it without its dependencies into a folder, and return the folder."""
    with checked_out(commit, work) as tree:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run([*pip, "wheel", "--no-deps", "--wheel-dir", target.with_suffix(".wheel"), tree])
    (wheel,) = target.with_suffix(".wheel").glob("*.whl")
    run([*pip, "install", "--no-deps", "--target", target, wheel])
    return target


def sample(package: Path, names: Sequence[str] = ()) -> Sample:
    """Measure an installed package in a new process.

    Args:
        package: the folder that contains `stackgrad`.
        names: names of metrics; all if empty.
    """
    script, folder = ROOT / "ci" / "bench_sample.py", ROOT / "asv_bench"
    settings = {"PYTHONPATH": str(package), "PYTHONHASHSEED": "0", "STACKGRAD_CACHE": "0"}
    printed = run([sys.executable, script, folder, package, *names], Path(tempfile.gettempdir()), **settings)
    values: Sample = json.loads(printed.splitlines()[-1])
    return values


def rounds_of(base: Path, head: Path, number: int, names: Sequence[str] = ()) -> list[Round]:
    """Measure base, head and base again, in this order, as often as `number` says."""
    rounds = []
    for k in range(number):
        rounds.append(Round(sample(base, names), sample(head, names), sample(base, names)))
        print(f"round {k + 1} of {number}", file=sys.stderr, flush=True)
    return rounds


def compare(base: Path, head: Path, number: int, names: Sequence[str] = ()) -> tuple[list[Verdict], set[str], float]:
    """Compare two installed packages.

    Args:
        base: folder that contains the package of the base.
        head: folder that contains the package of the head.
        number: number of rounds.
        names: names of metrics; all if empty.

    Returns:
        The verdicts on all metrics; the names of those that are worse in the first rounds and in as many further ones;
        and the largest factor by which a control moved.
    """
    rounds = rounds_of(base, head, number, names)
    first = verdicts(rounds, FACTORS)
    suspects = [v.name for v in first if v.is_worse]
    if not suspects:
        return first, set(), drift_of(rounds)
    print(f"measured again: {', '.join(suspects)}", file=sys.stderr)
    second = verdicts(rounds_of(base, head, number, suspects), FACTORS)
    confirmed = {v.name: v for v in second if v.is_worse}
    return [confirmed.get(v.name, v) for v in first], set(confirmed), drift_of(rounds)


def table(found: Sequence[Verdict], worse: set[str], drift: float) -> Iterator[str]:
    """Yield the lines of the report: one for each metric, and one on the machine if its controls moved."""
    yield f"{'metric':26} {'base':>10} {'head':>10} {'ratio':>7} {'limit':>7}"
    for v in found:
        mark = "  WORSE" if v.name in worse else ""
        yield f"{v.name:26} {v.base:10.4g} {v.head:10.4g} {v.ratio:7.3f} {v.limit:7.3f}{mark}"
    if drift > STEADY:
        yield f"controls moved by a factor of {drift:.2f}: the machine was busy, and small regressions may be missed"


def arguments_of(given: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed arguments of the command."""
    parser = argparse.ArgumentParser(prog="ci/bench_compare.sh", description="Compare two commits.")
    parser.add_argument("base", metavar="BASE", help="commit, or folder with --packages")
    parser.add_argument("head", metavar="HEAD", nargs="?", help="commit, or folder; default: the working tree")
    parser.add_argument("--packages", action="store_true", help="BASE and HEAD are folders with an installed package")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of base, head, base (default: %(default)s)")
    found = parser.parse_args(given)
    if found.packages and found.head is None:
        parser.error("--packages needs two folders")
    if found.rounds < 1:
        parser.error("--rounds must be at least 1")
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Compare the two sides, print the table, and return the exit status."""
    asked = arguments_of(given)
    with tempfile.TemporaryDirectory(prefix="bench_compare.") as folder:
        work = Path(folder)
        try:
            if asked.packages:
                base, head = Path(asked.base).resolve(), Path(asked.head).resolve()
            else:
                base, head = (install(c, work, work / n) for c, n in ((asked.base, "base"), (asked.head, "head")))
            found, worse, drift = compare(base, head, asked.rounds)
        except CannotCompareError as error:
            print(f"bench_compare: {error}", file=sys.stderr)
            return 2
    print("\n".join(table(found, worse, drift)))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
