"""The package's name: a distribution, a folder and an import name in one."""

from __future__ import annotations

import keyword
import re
import sys

from opscaffold.contract.naming import module_name, validate_package_name

MAX_LENGTH = 64

_FORM = re.compile(r"[A-Za-z](?:[A-Za-z0-9]|[-_.](?=[A-Za-z0-9]))*")

# Importable in the environment of a generated package, or a folder beside the import package.
_TAKEN = frozenset(
    [
        "torch",
        "torchgen",
        "functorch",
        "numpy",
        "pytest",
        "mypy",
        "ruff",
        "hypothesis",
        "opscaffold",
        "opscaffold_checks",
        "opscaffold_samples",
        "setuptools",
        "hatchling",
        "pip",
        "wheel",
        "tests",
        "test",
        "conftest",
        "src",
        "docs",
        "build",
        "dist",
    ]
)
# Modules of one Python release or another: sys.stdlib_module_names knows the running one only.
_STDLIB = frozenset(
    [
        "asynchat",
        "asyncore",
        "distutils",
        "imp",
        "lib2to3",
        "smtpd",
        "tomllib",
        "annotationlib",
        "compression",
        "aifc",
        "audioop",
        "cgi",
        "cgitb",
        "chunk",
        "crypt",
        "imghdr",
        "mailcap",
        "msilib",
        "nis",
        "nntplib",
        "ossaudiodev",
        "pipes",
        "sndhdr",
        "spwd",
        "sunau",
        "telnetlib",
        "uu",
        "xdrlib",
    ]
)
_WINDOWS = frozenset(
    ["con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))]
)


def check_package_name(text: str) -> str:
    """Return the name. Raises ValueError, with the reason, for one that would break.

    Refused is all that is no PEP 508 name, could leave the output directory, or would hide
    another module.
    """
    if not text:
        raise ValueError("the package needs a name, such as my-ops")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the name is {len(text)} characters long; {MAX_LENGTH} are enough")
    if not _FORM.fullmatch(text):
        raise ValueError(
            f"{text!r} is no package name: it is made of the letters a-z, digits, and single "
            "'-', '_' or '.' between them, and starts with a letter; "
            "the folder to put it in is the output directory"
        )
    module = module_name(text)
    if keyword.iskeyword(module) or module in ("true", "false", "none"):
        raise ValueError(f"{module!r} is a Python keyword and cannot be imported")
    if module in sys.stdlib_module_names or module in _STDLIB:
        raise ValueError(f"{module!r} is a module of Python itself, which the package would hide")
    if module in _TAKEN:
        raise ValueError(f"{module!r} is taken: the package would hide or be hidden by it")
    if module.split("_")[0] in _WINDOWS and "_" not in module:
        raise ValueError(f"{module!r} is a device on Windows and cannot be a folder there")
    reason = validate_package_name(text)
    if reason is not None:
        raise ValueError(reason)
    return text
