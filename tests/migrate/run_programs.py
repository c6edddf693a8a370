"""Import every program of a directory, call its ``check``, and print what fails as JSON."""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
import warnings
from pathlib import Path


def main(directory: Path) -> None:
    failures = {}
    for path in sorted(directory.glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            with warnings.catch_warnings():
                # PyTorch warns of a fake kernel for an op that has a generated one.
                warnings.filterwarnings("error", message=".*fake.*")
                spec.loader.exec_module(module)
                module.check()
        except Exception:
            failures[path.stem] = traceback.format_exc(limit=-3)
    print(json.dumps(failures))


main(Path(sys.argv[1]))
