"""Where the templates are: in the installed package, beside it in a checkout, or a user's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

from opscaffold.errors import UserError

NAMES = ("package", "op")
ROOT = "{{cookiecutter.package.name}}"
_LAYOUT = f"package/{ROOT}/ with what a package holds once, op/{ROOT}/ with what each op adds"


class TemplateError(UserError):
    """A user's own templates do not make a package. The text names directory and reason."""


@contextlib.contextmanager
def template_directory(name: str, own: Path | None = None) -> Iterator[Path]:
    """The directory of one template, of the ``own`` ones where given.

    Those of the languages of kernels need not be there: the ones brought along do then.
    """
    if own is not None and (name in NAMES or (own / name).is_dir()):
        yield own / name
        return
    installed = files("opscaffold").joinpath("_templates").joinpath(name)
    if installed.is_dir():
        with as_file(installed) as path:
            yield path
        return
    checkout = Path(__file__).resolve().parent.parent.parent / "templates" / name
    if not checkout.is_dir():
        raise FileNotFoundError(f"the template {name!r} is missing from this installation")
    yield checkout


def check_layout(own: Path) -> None:
    """Raise TemplateError unless a directory is laid out as the templates here are."""
    if not own.is_dir():
        raise TemplateError(f"--template: there is no directory {own}")
    for name in NAMES:
        part = own / name
        if not part.is_dir():
            raise TemplateError(
                f"--template: {own} holds no directory {name!r}; it must hold {_LAYOUT}"
            )
        # Of several, which one is rendered would be chance.
        rendered = sorted(p.name for p in part.iterdir() if p.is_dir() and _is_rendered(p.name))
        if len(rendered) != 1:
            found = f"holds {', '.join(rendered)}" if rendered else "holds none such"
            raise TemplateError(f"--template: {part} must hold one directory {ROOT}, and {found}")


def _is_rendered(name: str) -> bool:
    return all(part in name for part in ("{{", "cookiecutter", "}}"))
