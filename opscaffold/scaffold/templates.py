"""Where the templates are: in the installed package, or beside it in a checkout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path


@contextlib.contextmanager
def template_directory(name: str) -> Iterator[Path]:
    """The directory of one template: ``package`` or ``op``."""
    installed = files("opscaffold").joinpath("_templates").joinpath(name)
    if installed.is_dir():
        with as_file(installed) as path:
            yield path
        return
    checkout = Path(__file__).resolve().parent.parent.parent / "templates" / name
    if not checkout.is_dir():
        raise FileNotFoundError(f"the template {name!r} is missing from this installation")
    yield checkout
