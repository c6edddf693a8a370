# Prints the Python to build .venv with: PYTHON if it is 3.11, for which torch is pinned and
# tested, else python3.11 where there is one, else PYTHON.
# usage: python.sh PYTHON
set -eu

works() { # a version manager's shim may be there and refuse to run; Debian may leave out ensurepip
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] < (3, 10))' 2>/dev/null
}

is_311() {
    works "$1" && "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'
}

for candidate in "$1" python3.11 /usr/bin/python3.11; do
    if is_311 "$candidate"; then
        echo "$candidate"
        exit 0
    fi
done
if works "$1"; then
    echo "$1"
    exit 0
fi
echo "opscaffold needs Python 3.10 or newer with its venv module; '$1' is not one." >&2
echo "Name another: make PYTHON=/path/to/python3.11 ..." >&2
exit 1
