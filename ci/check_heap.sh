#!/usr/bin/env bash
# Machine code under valgrind, with adstacks in memory of the C library: kernels with the slots they need and with too
# few of them, on purpose (tests/runtime/short_stacks.py). Fails on any access outside a block, and on any stack with too
# few slots that does not end in an AdstackOverflow. Twenty minutes on two cores. BIN names the folder of the environment's
# programs; arguments choose the kernels (default: those of the .kir files, then random ones).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
BIN=${BIN:-.venv/bin}
export STACKGRAD_CACHE=0

watched() {
    echo "== $*" >&2
    valgrind --quiet --undef-value-errors=no --error-exitcode=9 --suppressions=ci/loader.supp \
        "$BIN/python" tests/runtime/short_stacks.py "$@" --malloc
}

if [ "$#" -gt 0 ]; then
    watched "$@"
else
    watched kir
    watched raw --count 60
    watched raw --count 60 --threads 2
    watched raw --count 60 --lanes 4
    watched programs --count 40
fi
