# Installs the wheel into a new environment outside the checkout and runs both commands there.
# usage: smoke.sh PYTHON WHEEL
set -eu -o pipefail

here="$(cd "$(dirname "$0")/.." && pwd)"
python="$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
wheel="$(cd "$(dirname "$2")" && pwd)/$(basename "$2")"

work="$(mktemp -d "${TMPDIR:-/tmp}/opscaffold smoke.XXXXXX")"
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "smoke: $*" >&2
    exit 1
}

"$python" -m venv venv
venv/bin/python -m pip install -qq --disable-pip-version-check "$wheel"
venv/bin/python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is not None)' \
    || fail "a plain install brought torch along"
# By its full path: a script's first line cannot hold the space of this directory's name, and
# installing must cope with that.
opscaffold="$work/venv/bin/opscaffold"

"$opscaffold" --version
venv/bin/python -m opscaffold --help > help.txt
grep -q migrate help.txt || fail "--help does not list migrate"

echo "smoke: opscaffold new"
"$opscaffold" new smoke_ops --defaults --output-dir out
[ -n "$(find out -name opscaffold_samples.py)" ] || fail "the generated package has no samples"
venv/bin/python -m compileall -q out || fail "the generated package does not compile"

echo "smoke: opscaffold migrate"
cp -r "$here/examples/legacy_ops" project
cd project
git init -q
git add .
git -c user.name=smoke -c user.email=smoke@example.org commit -qm example
"$opscaffold" migrate . > ../first.diff
[ -s ../first.diff ] || fail "migrate found nothing to change in the example"
git apply --check ../first.diff
if "$opscaffold" migrate --check . > /dev/null; then
    fail "migrate --check is content with a project that it would change"
fi
"$opscaffold" migrate --write . > /dev/null
"$opscaffold" migrate . > ../second.diff
[ ! -s ../second.diff ] || fail "a second migrate still finds something to change"
"$opscaffold" migrate --check . > /dev/null
git diff > ../written.diff
git stash -q
git apply ../first.diff
git diff | cmp - ../written.diff || fail "the diff shown is not what was written"
echo "smoke: passed"
