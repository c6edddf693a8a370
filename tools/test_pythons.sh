# Runs the tests that need no torch on the oldest and the newest Python found here of 3.10 to 3.14,
# or on all of them; 3.11 is left out, which `make test` uses. Each gets an environment of its own,
# kept for the next run. On the newest, unless on all, only what reads code is tested.
# usage: test_pythons.sh [all]
set -eu -o pipefail
cd "$(dirname "$0")/.."

find_python() { # prints one that runs, if there is any
    local candidate
    local -a candidates=("python$1" "/usr/bin/python$1" "/usr/local/bin/python$1")
    if command -v pyenv >/dev/null; then
        candidates+=("$(pyenv root)"/versions/"$1".*/bin/python)
    fi
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

tested=0
failed=()
found=()
for version in 3.10 3.12 3.13 3.14; do
    if [ -n "$(find_python "$version")" ]; then
        found+=("$version")
    else
        echo "Python $version: not found, skipped"
    fi
done
newest=""
[ "${#found[@]}" -eq 0 ] || newest="${found[$((${#found[@]} - 1))]}"
if [ "${1:-}" != all ] && [ "${#found[@]}" -gt 2 ]; then
    found=("${found[0]}" "$newest")
fi
for version in ${found[@]+"${found[@]}"}; do
    python="$(find_python "$version")"
    venv=".venv-$version"
    stamp="$(cksum < pyproject.toml) $PWD"
    if [ "$(cat "$venv/ready" 2>/dev/null || true)" != "$stamp" ]; then
        "$python" -m venv --clear "$venv"
        "$venv/bin/python" -m pip install -qq --disable-pip-version-check --editable '.[test]'
        printf '%s' "$stamp" > "$venv/ready"
    fi
    echo "Python $version: $("$venv/bin/python" --version)"
    # What may be new in the newest is above all the grammar, so there it is what reads code that is
    # tested: all of it again would take minutes.
    part=()
    if [ "${1:-}" != all ] && [ "${#found[@]}" -gt 1 ] && [ "$version" = "$newest" ]; then
        part=(--ignore tests/scaffold --ignore tests/cli --ignore tests/verify)
    fi
    "$venv/bin/python" -m pytest -q -n "${JOBS:-2}" -m "not torch and not slow and not timed" \
        ${part[@]+"${part[@]}"} || failed+=("$version")
    tested=$((tested + 1))
done
echo "Tested on $tested other Python versions"
if [ "${#failed[@]}" -gt 0 ]; then
    echo "Failed on ${failed[*]}" >&2
    exit 1
fi
