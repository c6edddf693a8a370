"""Kernels of PyTorch calls: they run on every device, and are the default."""

from __future__ import annotations

from typing import ClassVar

from opscaffold.scaffold.language import Language
from opscaffold.scaffold.spec import KernelLanguage


class Torch(Language):
    """PyTorch calls: all that ``Language`` says by itself."""

    word: ClassVar[KernelLanguage] = KernelLanguage.TORCH
    about: ClassVar[str] = "PyTorch calls: they run on every device"
