"""Kernels that compute with numpy, on the CPU."""

from __future__ import annotations

from typing import ClassVar

from opscaffold.scaffold.language import Language
from opscaffold.scaffold.spec import KernelLanguage


class Numpy(Language):
    """numpy arrays over the memory of the tensors."""

    word: ClassVar[KernelLanguage] = KernelLanguage.NUMPY
    about: ClassVar[str] = "numpy, on the CPU: for code that you have"
    unready: ClassVar[str] = "kernels in numpy are not made yet; nearest: --kernel torch"
