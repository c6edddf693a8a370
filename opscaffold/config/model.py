"""A project's configuration as data, and what each part means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from opscaffold.contract.releases import MEASURED, Version
from opscaffold.records import dataclass, field

# What a helper comes to: the function of torch.library that it calls with what it is given.
REGISTERS = ("define", "custom_op", "register_fake", "impl", "nothing")
OUT_NAMINGS = ("flat", "overload")


@dataclass(frozen=True, slots=True)
class Registrar:
    """A helper that registers an op, described because its body is not in sight.

    ``helper`` is its full dotted name as the project imports it, ``parameters`` are its
    positional parameters in order. ``name``, ``namespace``, ``function``, ``mutates_args``,
    ``schema`` and ``fake`` name the parameter that each comes from, empty where there is none.
    Without ``function`` the helper is a decorator, and registers what it decorates; without
    ``name`` the op has the name of its function, less what it starts with of ``strip``.
    ``registers`` is one of REGISTERS: a Library's
    define and impl, custom_op, a fake or a further kernel for an op that is defined elsewhere,
    or nothing at all. ``default_namespace`` and ``default_mutates``
    hold where a call does not say; None stands for "not known". ``default_fake`` says that the
    helper makes a fake kernel by itself, or that its ops need none.
    """

    helper: str
    parameters: tuple[str, ...] = ()
    name: str = ""
    namespace: str = ""
    function: str = ""
    mutates_args: str = ""
    schema: str = ""
    fake: str = ""
    registers: str = "define"
    strip: str = ""
    default_namespace: str | None = None
    default_mutates: tuple[str, ...] | str | None = None
    default_fake: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a project; without a file, what holds then.

    ``select`` None means every rule. ``per_file_ignores`` pairs git-ignore patterns with what
    is ignored in the files they match. ``notebooks`` has ``check`` read notebooks. ``places``
    tells where in ``file`` each key and element stands, by the keys and numbers that lead to it.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    target_torch: Version = MEASURED
    out_naming: str = "flat"
    registrars: tuple[Registrar, ...] = ()
    notebooks: bool = False
    file: Path | None = None
    places: Mapping[tuple[str | int, ...], str] = field(
        default_factory=dict, hash=False, compare=False
    )

    def excluded(self, given: list[str] | None) -> tuple[str, ...]:
        """Return the patterns of files to leave out; those ``given`` replace ``exclude``."""
        return (*(self.exclude if given is None else given), *self.extend_exclude)

    def place(self, *path: str | int) -> str:
        """Return ``file:line`` of a key or element, for messages; empty where no file says it."""
        return self.places.get(path, "")
