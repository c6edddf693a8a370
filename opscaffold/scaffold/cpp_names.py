"""Names and strings of Python as C++ takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Words that an argument may be called in Python, and a parameter in C++ may not.
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "alignas alignof and_eq asm auto bitand bitor bool case catch char char8_t char16_t "
        "char32_t co_await co_return co_yield compl concept const const_cast consteval constexpr "
        "constinit "
        "decltype default delete do double dynamic_cast enum explicit export extern false float "
        "friend goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq "
        "private protected public register reinterpret_cast requires short signed sizeof static "
        "static_assert static_cast struct switch template this thread_local throw true typedef "
        "typeid typename typeof union unsigned using virtual void volatile wchar_t xor xor_eq",
    )
)
# Names that a generated source uses itself.
_USED = frozenset(
    re.findall(
        r"\w+",
        "ops std torch at c10 m Tensor Kernel kernel cpu_kernel cuda_kernel metadata functional "
        "inplace out_variant mutable_op int64_t",
    )
)
# Macros of the headers of C in small letters, with glibc and MSVC.
_MACROS = frozenset(
    re.findall(
        r"\w+",
        "alloca assert errno far huge interface issubnormal linux major makedev math_errhandling "
        "minor near offsetof small stderr stdin stdout strdupa strndupa unix",
    )
)
# Macros are written in capitals, and compilers keep names that start with two underscores.
_LIKE_A_MACRO = re.compile(r"[A-Z][A-Z0-9_]|__|_[A-Z]")


def is_like_a_macro(name: str) -> bool:
    """Whether the preprocessor may put something else in the place of a name."""
    return name in _MACROS or _LIKE_A_MACRO.match(name) is not None


class Identifiers:
    """C++ names for the arguments of an op and for local variables, each its own.

    A name is that of Python wherever C++ takes it.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Take the names of all arguments that stand in one source file."""
        self._chosen: dict[str, str] = {}
        wanted = list(dict.fromkeys(names))
        # Those that keep their name come first: no other may take it.
        for name in sorted(wanted, key=lambda name: self._plain(name) != name):
            self[name]

    def __getitem__(self, name: str) -> str:
        """The C++ name, always the same one."""
        if name not in self._chosen:
            found = self._plain(name)
            while found in self._chosen.values():
                found += "_a"
            self._chosen[name] = found
        return self._chosen[name]

    def local(self, purpose: str) -> str:
        """The C++ name of a local variable, which no argument has."""
        key = f"local {purpose}"
        if key not in self._chosen:
            found = purpose
            while found in self._chosen.values():
                found += "_"
            self._chosen[key] = found
        return self._chosen[key]

    @staticmethod
    def _plain(name: str) -> str:
        if name not in _KEYWORDS | _USED and not is_like_a_macro(name):
            return name
        return f"{name.strip('_')}_arg" if name.strip("_") else "arg"


def literal(text: str) -> str:
    """A string literal of the UTF-8 bytes of ``text``."""
    escaped = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{escaped}"'
