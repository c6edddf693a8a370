"""Finding a project's configuration and reading it; everything wrong has its file and line."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscaffold.config.keys import KEYS, REGISTRAR_KEYS
from opscaffold.config.model import OUT_NAMINGS, REGISTERS, Config, Registrar
from opscaffold.contract.releases import FIRST_WITH_CUSTOM_OP, parse_version
from opscaffold.errors import UserError
from opscaffold.patterns import pattern

if TYPE_CHECKING:
    from opscaffold.config import lines

OWN_FILE = "opscaffold.toml"
PYPROJECT = "pyproject.toml"
TABLE = ("tool", "opscaffold")

_SOURCES = ("name", "namespace", "function", "mutates_args", "schema", "fake")
_ALWAYS_LISTED = ("name", "function")
_DEFAULT_KEYS = ("namespace", "mutates_args", "fake")
_AT_LINE = pattern(r"\(at line (\d+)")
_DOTTED = pattern(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
_KINDS = {str: "a string", bool: "a boolean", int: "an integer", float: "a number"}


class ConfigError(UserError):
    """A configuration that cannot be followed. The text starts with its file and line."""


def load_config(root: Path) -> Config:
    """Read ``opscaffold.toml`` or ``[tool.opscaffold]`` of ``pyproject.toml`` in a directory.

    Where there is neither, the configuration is the default one. Raises ConfigError for a file
    that cannot be read or parsed, for two that both configure, and for an unknown key, a wrong
    type or a wrong value.
    """
    own, shared = root / OWN_FILE, root / PYPROJECT
    in_own = _read(own) if own.is_file() else None
    in_shared = _read(shared) if shared.is_file() else None
    table: Any = None if in_shared is None else in_shared[0]
    for part in TABLE:
        table = table.get(part) if isinstance(table, dict) else None
    if in_own is not None and table is not None:
        raise ConfigError(f"{_shown(own)}: {PYPROJECT} has [tool.opscaffold] too: keep one of them")
    if in_own is not None:
        return _Reader(own, in_own[1], ()).config(in_own[0])
    if table is not None and in_shared is not None:
        return _Reader(shared, in_shared[1], TABLE).config(table)
    return Config()


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'select'?`` where a known word is near, else the known words."""
    known = list(known)
    close = difflib.get_close_matches(word, known, 1, 0.6)
    if not close:
        close = difflib.get_close_matches(word.lower().replace("_", "-"), known, 1, 0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"


def _read(path: Path) -> tuple[dict[str, Any], str]:
    # Many projects have no configuration, and need nothing that reads TOML.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{_shown(path)}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{_shown(path)}: is not valid UTF-8: {error.reason}") from None
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        match = _AT_LINE.search(str(error))
        line = int(match[1]) if match else text.count("\n") + 1
        what = str(error).partition(" (at ")[0]
        raise ConfigError(f"{_shown(path)}:{line}: is no valid TOML: {what}") from None


def _shown(path: Path) -> str:
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


class _Reader:
    """Reads the values of one file, and knows where each stands."""

    def __init__(self, path: Path, text: str, base: lines.Path) -> None:
        self._path = path
        self._base = base
        from opscaffold.config.lines import key_lines

        self._lines = key_lines(text)

    def config(self, table: Any) -> Config:
        """Read the whole table."""
        values = self._table((), table, tuple(KEYS))
        config: dict[str, Any] = {}
        for key, value in values.items():
            field = key.replace("-", "_")
            match key:
                case "per-file-ignores":
                    config[field] = self._per_file(value)
                case "target-torch":
                    config[field] = self._torch(value)
                case "out-naming":
                    config[field] = self._one_of((key,), value, OUT_NAMINGS)
                case "registrars":
                    config[field] = self._registrars(value)
                case "notebooks":
                    config[field] = self._boolean((key,), value)
                case _:
                    config[field] = self._strings((key,), value)
        return Config(**config, file=self._path, places=dict(self._places((), values)))

    def _places(self, path: lines.Path, value: Any) -> Iterator[tuple[lines.Path, str]]:
        """Where each key and element stands."""
        if path:
            yield path, self._where(path)
        parts: Iterable[tuple[str | int, Any]] = ()
        if isinstance(value, Mapping):
            parts = value.items()
        elif isinstance(value, list):
            parts = enumerate(value)
        for part, inner in parts:
            yield from self._places((*path, part), inner)

    def _per_file(self, value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
        key = "per-file-ignores"
        if not isinstance(value, dict):
            raise self._wrong((key,), "must be a table of patterns", value)
        return tuple((glob, self._strings((key, glob), codes)) for glob, codes in value.items())

    def _torch(self, value: Any) -> tuple[int, int]:
        path = ("target-torch",)
        text = self._string(path, value)
        try:
            version = parse_version(text)
        except ValueError as error:
            raise self._error(path, str(error)) from None
        if version < FIRST_WITH_CUSTOM_OP:
            first = ".".join(map(str, FIRST_WITH_CUSTOM_OP))
            raise self._error(path, f"'target-torch' is {text}: custom_op came with torch {first}")
        return version

    def _registrars(self, value: Any) -> tuple[Registrar, ...]:
        if not isinstance(value, list):
            raise self._wrong(("registrars",), "must be an array of tables", value)
        found = [self._registrar(("registrars", i), each) for i, each in enumerate(value)]
        seen: set[str] = set()
        for number, registrar in enumerate(found):
            if registrar.helper in seen:
                path = ("registrars", number, "helper")
                raise self._error(path, f"{registrar.helper!r} is described twice")
            seen.add(registrar.helper)
            if not value[number].keys() - {"helper", "parameters"}:
                raise self._error(
                    ("registrars", number, "helper"),
                    f"nothing is said of {registrar.helper!r}: say where the op's 'name' comes "
                    "from, or give defaults",
                )
        return tuple(found)

    def _check_source(self, path: lines.Path, source: str, parameters: tuple[str, ...]) -> None:
        # One that is given by keyword alone need not be listed, unless it looks like a slip.
        if not parameters or source in parameters:
            return
        key = path[-1]
        slip = difflib.get_close_matches(source, parameters, 1, 0.8)
        if slip or key in _ALWAYS_LISTED:
            hint = f"; did you mean {slip[0]!r}?" if slip else f": {', '.join(parameters)}"
            what = f"{key!r} is {source!r}, which 'parameters' does not list{hint}"
            raise self._error(path, what)

    def _registrar(self, path: lines.Path, value: Any) -> Registrar:
        table = self._table(path, value, tuple(REGISTRAR_KEYS))
        if "helper" not in table:
            raise self._error(
                path, "a registrar needs 'helper', the dotted name of the function it describes"
            )
        helper = self._string((*path, "helper"), table["helper"])
        if _DOTTED.match(helper) is None:
            raise self._error((*path, "helper"), f"{helper!r} is no dotted name")
        parameters = self._strings((*path, "parameters"), table.get("parameters", []))
        sources: dict[str, str] = {}
        for key in _SOURCES:
            if key not in table:
                continue
            source = self._string((*path, key), table[key])
            if not source.isidentifier():
                raise self._error((*path, key), f"{key!r} must name a parameter, not {source!r}")
            self._check_source((*path, key), source, parameters)
            sources[key] = source
        registers = "define"
        if "registers" in table:
            registers = self._one_of((*path, "registers"), table["registers"], REGISTERS)
        strip = self._string((*path, "strip"), table["strip"]) if "strip" in table else ""
        given = table.get("defaults", {})
        namespace, mutates = self._defaults((*path, "defaults"), given)
        return Registrar(
            helper,
            parameters,
            **sources,
            registers=registers,
            strip=strip,
            default_namespace=namespace,
            default_mutates=mutates,
            default_fake="fake" in given
            and self._boolean((*path, "defaults", "fake"), given["fake"]),
        )

    def _defaults(
        self, path: lines.Path, value: Any
    ) -> tuple[str | None, tuple[str, ...] | str | None]:
        table = self._table(path, value, _DEFAULT_KEYS)
        namespace: str | None = None
        mutates: tuple[str, ...] | str | None = None
        if "namespace" in table:
            namespace = self._string((*path, "namespace"), table["namespace"])
        if table.get("mutates_args") == "unknown":
            mutates = "unknown"
        elif "mutates_args" in table:
            mutates = self._strings((*path, "mutates_args"), table["mutates_args"])
        return namespace, mutates

    def _table(self, path: lines.Path, value: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(path, "must be a table", value)
        for key in value:
            if key not in known:
                raise self._error((*path, key), f"unknown key {key!r}{nearest(key, known)}")
        return value

    def _strings(self, path: lines.Path, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self._wrong(path, "must be an array of strings", value)
        return tuple(self._string((*path, number), item) for number, item in enumerate(value))

    def _string(self, path: lines.Path, value: Any) -> str:
        if not isinstance(value, str):
            what = "may hold strings only" if isinstance(path[-1], int) else "must be a string"
            raise self._wrong(path, what, value)
        return value

    def _boolean(self, path: lines.Path, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self._wrong(path, "must be true or false", value)
        return value

    def _one_of(self, path: lines.Path, value: Any, known: tuple[str, ...]) -> str:
        text = self._string(path, value)
        if text not in known:
            shown = " or ".join(repr(each) for each in known)
            raise self._error(path, f"{path[-1]!r} must be {shown}, not {text!r}")
        return text

    def _wrong(self, path: lines.Path, what: str, value: Any) -> ConfigError:
        named = [part for part in path if isinstance(part, str)]
        name = f"{named[-1]!r} " if named else "[tool.opscaffold] "
        return self._error(path, f"{name}{what}, not {_kind(value)}")

    def _error(self, path: lines.Path, message: str) -> ConfigError:
        return ConfigError(f"{self._where(path)}: {message}")

    def _where(self, path: lines.Path) -> str:
        from opscaffold.config.lines import line_of

        return f"{_shown(self._path)}:{line_of(self._lines, (*self._base, *path))}"


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "a table"
    return _KINDS.get(type(value), "a date or time")
