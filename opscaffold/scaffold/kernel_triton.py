"""Kernels in Triton, registered through ``torch.library.triton_op``."""

from __future__ import annotations

from typing import ClassVar

from opscaffold.scaffold.language import Language
from opscaffold.scaffold.spec import KernelLanguage


class Triton(Language):
    """Triton kernels."""

    word: ClassVar[KernelLanguage] = KernelLanguage.TRITON
    about: ClassVar[str] = "Triton, on a GPU: torch.compile sees into it"
    unready: ClassVar[str] = "kernels in Triton are not made yet; nearest: --kernel torch"
