"""Shows what opscaffold does, on real torch: `make demo` runs this.

First a package with one op of each kind is generated and its tests are run. Then the bundled
project legacy_ops, whose operators break their contracts, is migrated: its tests before, the
diff, its tests after, and a second run that finds nothing left to do.

Everything happens in a temporary directory; `--keep DIR` keeps the results in DIR.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPSCAFFOLD = [sys.executable, "-m", "opscaffold"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "--disable-warnings"]
PYTEST += ["-p", "no:cacheprovider", "-p", "no:randomly"]


class UnexpectedResultError(Exception):
    """A step of the demo did not end as it should."""


def main() -> int:
    """Run the demo. Returns 0 if every step ended as it should, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="a directory that is to be made")
    keep = parser.parse_args().keep
    start = time.monotonic()
    try:
        if keep is None:
            with tempfile.TemporaryDirectory(prefix="opscaffold demo ") as directory:
                run_demo(Path(directory))
        else:
            keep.mkdir(parents=True)
            run_demo(keep.resolve())
    except UnexpectedResultError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    print(f"\nAll of it as expected, in {time.monotonic() - start:.0f} s.")
    return 0


def run_demo(work: Path) -> None:
    """Run every step in ``work``. Raises UnexpectedResultError."""
    heading("1. Generate a package with one op of each kind")
    answers = HERE / "answers.toml"
    run(work, *OPSCAFFOLD, "new", "--answers", os.fspath(answers), "--output-dir", ".")
    package = work / "demo-ops"

    heading("2. Run the tests it came with")
    run(package, *PYTEST, PYTHONPATH="src")

    heading("3. Run the tests of a project whose operators break their contracts")
    project = work / "legacy_ops"
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(HERE / "legacy_ops", project, ignore=ignored)
    run(project, *PYTEST, expected=1)
    print("Each failure is an operator that returns or changes memory that it should not.")

    heading("4. See what migrate would change")
    diff = run(project, *OPSCAFFOLD, "migrate", ".")
    if not diff:
        raise UnexpectedResultError("migrate showed no diff")

    heading("5. Change it, and run the same tests")
    run(project, *OPSCAFFOLD, "migrate", "--write", ".")
    run(project, *PYTEST)

    heading("6. Migrate again: nothing is left to change")
    diff = run(project, *OPSCAFFOLD, "migrate", ".")
    if diff:
        raise UnexpectedResultError("a second migrate showed a diff")


def heading(text: str) -> None:
    """Print a heading."""
    print(f"\n\n== {text}\n", flush=True)


def run(directory: Path, *command: str, expected: int = 0, **variables: str) -> bytes:
    """Run a command, show it and its output, and return its standard output.

    Raises UnexpectedResultError if it does not exit with ``expected``.
    """
    print(f"$ {shown(command)}", flush=True)
    caches = {"TORCHINDUCTOR_CACHE_DIR": os.fspath(directory.parent / "inductor")}
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | caches | variables | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    # One behind the other, since a terminal would mix them.
    sys.stdout.buffer.write(done.stdout + done.stderr)
    sys.stdout.buffer.flush()
    if done.returncode != expected:
        what = f"exited with {done.returncode}, not {expected}"
        raise UnexpectedResultError(f"`{shown(command)}` {what}")
    return done.stdout


def shown(command: tuple[str, ...]) -> str:
    """Return a command as a person would type it."""
    words = list(command)
    if tuple(words[:3]) == tuple(OPSCAFFOLD):
        words[:3] = ["opscaffold"]
    elif words[: len(PYTEST)] == PYTEST:
        words[: len(PYTEST)] = ["pytest"]
    return " ".join(Path(word).name if Path(word).is_absolute() else word for word in words)


if __name__ == "__main__":
    sys.exit(main())
