#!/usr/bin/env bash
# Linters and type checkers, under a minute. BIN names the folder of the environment's programs.
# All of them run even if one fails, so that one look shows everything; the status is non-zero if any failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
BIN=${BIN:-.venv/bin}
programs=$(cd "$BIN" && pwd)
status=0

step() {
    echo "== $*" >&2
    "$@" || { status=1; echo "FAILED: $*" >&2; }
}

# Messages name the real file, not the link that the checker followed.
types() {
    MYPYPATH=$PWD/.links "$BIN/mypy" "$@" 2>&1 \
        | sed -E -e 's#^\.links/stackgrad/(compiler|reference|backends|harness)/#\1/#' -e 's#^\.links/stackgrad/#src/stackgrad/#'
}

step "$BIN/ruff" check .
step "$BIN/ruff" format --check .  # cure: make format
step "$BIN/python" ci/link_tree.py
step types --strict --cache-dir .mypy_cache/strict -p stackgrad  # what is exempt, and why: pyproject.toml
step "$BIN/mypy" --cache-dir .mypy_cache/ci ci noxfile.py
# Who may import whom; the package as one tree, so that imports are found in the checkout.
contracts() { (cd .links && PYTHONPATH=$PWD "$programs/lint-imports" ../ci/contracts.toml --no-cache --no-logo); }
step contracts
# The programs under examples/ against the types that users see; what is not reported, and why: pyproject.toml.
if [ -x "$BIN/pyright" ]; then
    step "$BIN/pyright" --pythonpath "$BIN/python"
else
    echo "== pyright is not installed in $BIN: examples are not checked" >&2
fi
exit "$status"
