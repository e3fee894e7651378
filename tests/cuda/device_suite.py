"""List in SUITE the tests that judge a backend, and run them on a device.

Tests that were written for the CPU run on the device instead (tests/stand_in.py). Tests of properties of the CPU itself
are left out, each with a reason.

    python tests/cuda/device_suite.py            a command line for each part
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

TESTS = Path(__file__).parents[1]

FOLDERS = (
    "ops",
    "statements",
    "ad",
    "kernels",
    "shapes",
    "vectors",
    "dialect",
    "conformance",
    "examples",
    "ad_api",
    "errors",
    "host",
    "runtime",
    "sizing",
)

NOT_ON_A_DEVICE: dict[str, str] = {
    "runtime/test_gates.py": "rows by the policy of the CPU; see cuda/test_gates.py",
    "runtime/test_heap.py": "slabs and rows of the CPU; see cuda/test_heap.py",
    "runtime/test_sizes.py": "which sizes the host evaluates; see cuda/test_sizing.py",
    "runtime/test_short_stacks.py": "puts the CPU's heap between pages of its own",
    "runtime/test_threads.py": "the pool of the CPU",
    "runtime/test_threads_of_processes.py": "a process that was forked behind CUDA has no GPU",
    "runtime/test_launch_fast.py::test_numpy_arrays_are_read_as_they_are_now": "NumPy arrays are copied by Python",
    "runtime/test_launch_fast.py::test_the_same_memory_under_two_names": "NumPy arrays are copied by Python",
    "runtime/test_launch_fast_ends.py::test_errors_are_raised_as_from_python": "errors are raised at the next wait",
    "runtime/test_launch_fast_ends.py::test_reference_counts_stay": "counts what a queue of launches holds",
    "runtime/test_launch_fast_ends.py::test_long_launches_are_left_to_python": "no launch takes long for the host",
    "runtime/test_init.py::test_fallback_to_the_cpu": "asks for the CPU itself",
    "runtime/test_bounds.py::test_can_be_switched_off": "writes beside an array of the host, which a GPU has a copy of",
    "runtime/test_launch_path.py::test_calls_go_through_few_functions": "counts the functions of the CPU's launches",
    "runtime/test_endless_counts.py::test_a_while_is_counted_up_to_what_memory_holds": "sets the heap of the CPU",
    "runtime/test_endless_counts.py::test_a_count_that_ends_leaves_nothing_behind": "gives a GPU arrays of the host",
    "runtime/test_kernels.py::test_the_default_arch_runs_tape_and_count_alike": "asks for the name of the CPU",
    "kernels/test_arrays.py::test_torch_tensors_that_do_not_fit": "a tensor of the GPU fits there",
    "ad/test_marks.py::test_a_claim_that_does_not_hold": "starts a debug runtime on the CPU alone",
    "ad/test_marks.py::test_one_part_of_a_claim_is_not_enough": "a device names either of two iterations",
    "ad_api/test_unseen_writes.py::test_an_input_between_two_uses": "writes through a view without sg.sync()",
}
"""Files, and tests of files, that do not hold there, with the reason."""

NEEDS = {"ad_api/test_torch.py": "torch", "ad_api/test_jax.py": "jax"}
"""Files that are left out where a library is not installed."""


SPLIT = {
    "ops/*.kir": 6,
    "statements/*.kir": 3,
    "ad/*.kir": 2,
    "shapes/test_shapes.py": 10,
    "examples/test_examples.py": 4,
    "examples/test_second_order.py": 2,
    "ad/test_loop_shapes.py": 3,
    "ad/test_singular_points.py": 3,
    "ad/test_pitfalls.py": 2,
    "ad/test_random_kernels.py": 2,
    "runtime/test_order_of_updates.py": 2,
}
"""In how many processes the larger ones run."""


def parts() -> Iterator[str]:
    """Yield the parts of the suite, each for its own process: a path, a folder's files, or `#K/N` of a large file."""
    for name in _files():
        count = SPLIT.get(name, 1)
        yield from (f"{name}#{k}/{count}" for k in range(count)) if count > 1 else (name,)


def _files() -> Iterator[str]:
    for folder in FOLDERS:
        if any((TESTS / folder).glob("*.kir")):
            yield f"{folder}/*.kir"
        for path in sorted((TESTS / folder).glob("test_*.py")):
            name = f"{folder}/{path.name}"
            if name not in NOT_ON_A_DEVICE and (name not in NEEDS or find_spec(NEEDS[name])):
                yield name


def arguments(part: str) -> list[str]:
    """Return pytest's arguments for one part of the suite."""
    name, _, share = part.partition("#")
    folder, _, pattern = name.partition("/")
    paths = [str(p) for p in sorted((TESTS / folder).glob(pattern))]
    chosen = ["--backend", "cuda"] if pattern == "*.kir" else []
    without = [a for n in NOT_ON_A_DEVICE if n.startswith(f"{name}::") for a in ("--deselect", f"tests/{n}")]
    chosen += ["--part", share] if share else []
    return ["-p", "no:cacheprovider", *paths, *chosen, *without]


def run(part: str, backend: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run one part of the suite with this backend in place of the CPU."""
    command = [sys.executable, "-m", "pytest", *arguments(part), *more]
    settings = {**os.environ, "STACKGRAD_STAND_IN": backend}
    return subprocess.run(command, cwd=TESTS.parent, env=settings, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    for one in parts():
        print("pytest", *arguments(one))
