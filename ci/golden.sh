#!/usr/bin/env bash
# Says whether two commits generate the same code, byte for byte: the proof that a move or a rename of files is one.
#
#   ci/golden.sh BASE                    BASE against the working tree, edits that are not committed included
#   ci/golden.sh BASE HEAD               two commits
#   ci/golden.sh BASE -- --only 'ad/*'   a part: arguments behind -- go to `python -m stackgrad.harness.tools.golden write`
#
# Each commit is checked out beside this one for the time, and runs its own net (harness/tools/golden) on its own kernels; one
# from before there was a net gets a copy of ours, and so does one whose net writes equal code in another form, but for what
# its net knows of the layout (adapter.py). Where they differ, the kernels that say most are made again with their
# texts. BIN names the folder of the environment's programs. Status: 0 identical, 1 different, 2 neither can be said.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BIN=$(cd "${BIN:-$here/.venv/bin}" && pwd)
usage() { sed -n '/^#   /s/^#   //p' "${BASH_SOURCE[0]}" >&2; exit 2; }

commits=()
while (($#)) && [[ $1 != -- ]]; do commits+=("$1"); shift; done
if (($#)); then shift; fi
((${#commits[@]} == 1 || ${#commits[@]} == 2)) || usage

work=$(mktemp -d)
clean() {
    for tree in "$work"/base "$work"/head; do
        if [[ -d $tree ]]; then git -C "$here" worktree remove --force "$tree"; fi
    done
    rm -rf "$work"
}
trap clean EXIT

# net_in FOLDER: the folder of the net below it, wherever the layout has it; nothing if there is none.
net_in() { (cd "$1" && find -L . -name '.[!.]*' -prune -o -path '*/golden/adapter.py' -printf '%h\n' | sort | head -n 1); }

# form_of NET: the form in which a net writes code, from the first line of its records.
form_of() { sed -n 's/^MAGIC = "\(.*\)"$/\1/p' "$1/record.py"; }

# check_out COMMIT FOLDER: with a net of its own, or ours.
check_out() {
    local ours net
    git -C "$here" worktree add --quiet --detach "$2" "$1" || exit 2
    if [[ -z $(net_in "$2") ]]; then
        echo "golden: $1 has no net yet; it gets ours" >&2
        ours=$(net_in "$here")
        cp -r "$here/$ours" "$2/$(dirname "$ours")/" || exit 2
        return
    fi
    ours=$here/$(net_in "$here") net=$2/$(net_in "$2")
    if [[ $(form_of "$ours") != $(form_of "$net") ]]; then
        echo "golden: the net of $1 writes another form; it gets ours" >&2
        find "$ours" -maxdepth 1 -name '*.py' ! -name adapter.py -exec cp -t "$net" {} + || exit 2
    fi
}

# golden CHECKOUT ARGUMENTS...: its own net on its own package, which is found before the one that is installed.
golden() {
    local tree=$1 path=$1/src net
    shift
    if [[ -f $tree/ci/link_tree.py ]]; then
        "$BIN/python" "$tree/ci/link_tree.py"
        path=$tree/.links
    fi
    net=$(net_in "$path")
    net=${net#./}
    PYTHONPATH=$path "$BIN/python" -P -m "${net//\//.}" "$@"
}

base=$work/base head=$here
check_out "${commits[0]}" "$base"
if ((${#commits[@]} == 2)); then
    head=$work/head
    check_out "${commits[1]}" "$head"
fi

golden "$base" write "$work/base.txt" "$@" 2>"$work/log" || { cat "$work/log" >&2; exit 2; }
golden "$head" write "$work/head.txt" "$@" 2>"$work/log" || { cat "$work/log" >&2; exit 2; }
mapfile -t names < <(golden "$head" compare "$work/base.txt" "$work/head.txt" --names)
if ((${#names[@]} == 0)); then
    golden "$head" compare "$work/base.txt" "$work/head.txt" || exit
    exit 0
fi
for side in base head; do
    mkdir "$work/$side.texts"
    # One side may lack all of these kernels; what it has is enough.
    golden "${!side}" write "$work/$side.few" --only "${names[@]}" --texts "$work/$side.texts" >"$work/log" 2>&1 || true
done
golden "$head" compare "$work/base.txt" "$work/head.txt" --texts "$work/base.texts" "$work/head.texts"
