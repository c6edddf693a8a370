"""The languages that a kernel can be written in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from opscaffold.scaffold.kernel_cpp import Cpp
from opscaffold.scaffold.kernel_numpy import Numpy
from opscaffold.scaffold.kernel_torch import Torch
from opscaffold.scaffold.kernel_triton import Triton
from opscaffold.scaffold.kernel_wrapped import WrappedFunction
from opscaffold.scaffold.language import Language
from opscaffold.scaffold.spec import KernelLanguage, OpSpec, Setting

LANGUAGES: Mapping[KernelLanguage, Language] = MappingProxyType(
    {language.word: language for language in (Torch(), Numpy(), Triton(), Cpp(), WrappedFunction())}
)


def fitting(op: OpSpec, setting: Setting) -> list[Language]:
    """The languages that an op may be written in."""
    return [each for each in LANGUAGES.values() if each.refusal(op, setting) is None]
