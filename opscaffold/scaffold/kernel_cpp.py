"""Kernels in C++, registered by ``TORCH_LIBRARY``."""

from __future__ import annotations

from typing import ClassVar

from opscaffold.scaffold.language import Language
from opscaffold.scaffold.spec import KernelLanguage


class Cpp(Language):
    """C++ kernels in an extension that is built with the package."""

    word: ClassVar[KernelLanguage] = KernelLanguage.CPP
    about: ClassVar[str] = "C++, built with the package"
    unready: ClassVar[str] = "kernels in C++ are not made yet; nearest: --kernel torch"
