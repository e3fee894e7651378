#!/usr/bin/env bash
# Compares speed and memory of two commits, interleaved; fails if the second is worse. See ci/bench_compare.py.
# BIN names the folder of the environment's programs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec "${BIN:-$here/.venv/bin}/python" "$here/ci/bench_compare.py" "$@"
