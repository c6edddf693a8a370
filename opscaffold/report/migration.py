"""A migration as plain data to show: what was repaired, what was left, and each op's contract."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """An argument or a return. ``sets`` are the alias sets it is in, ``written`` says mutated.

    ``type`` is without alias annotations; ``default`` is None where there is none.
    """

    type: str
    name: str = ""
    default: str | None = None
    kw_only: bool = False
    sets: tuple[str, ...] = ()
    written: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """What an op promises. ``schema`` is None, and the rest empty, where it cannot be told."""

    op: str
    kind: str = ""
    schema: str | None = None
    tags: tuple[str, ...] = ()
    arguments: tuple[Value, ...] = ()
    returns: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """One call that changes, with its lines before and after."""

    path: str
    line: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair of one op. ``diff`` is a unified diff, ``safe`` says that no caller can tell."""

    op: str
    does: str
    rules: tuple[str, ...]
    safe: bool
    old: Contract
    new: tuple[Contract, ...]
    diff: bytes
    sites: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a breach stays, where, and what to do about it by hand."""

    state: str
    code: str
    name: str
    path: str
    line: int
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Page:
    """All that a page shows. ``left`` maps each op that stays as it is to its reasons.

    ``notes`` are what a person should look at, by op; ``written`` says that it has been done.
    """

    title: str
    written: bool
    ops: int
    files: int
    repairs: tuple[Repair, ...]
    left: tuple[tuple[str, tuple[Reason, ...]], ...]
    notes: tuple[Reason, ...] = ()
