"""The contract that a registered op declares, read from the schema that PyTorch prints."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch

from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.model import OpContract, Tag

_TAGS = {torch.Tag.inplace: Tag.INPLACE, torch.Tag.out: Tag.OUT}
# What infer_schema makes of a torch.Generator and of an Enum; the schema language has no word.
_OPAQUE = re.compile(r"\bPyObject\b")
# A device is printed bare, and read back only in quotes.
_DEVICE = re.compile(r"(\bDevice\??\s+\w+=)([a-z]+(?::\d+)?)(?=[,)])")


def text_of(overload: Any) -> str:
    """The schema of an op as ``parse_schema`` reads it; PyTorch does not read all it prints."""
    printed = _OPAQUE.sub("Any", str(overload._schema))
    return _DEVICE.sub(lambda m: m[0] if m[2] == "None" else f'{m[1]}"{m[2]}"', printed)


def contract_of(overload: Any) -> OpContract:
    """What an op declares. Raises SchemaError where its schema cannot be read."""
    tags = frozenset(_TAGS[tag] for tag in overload.tags if tag in _TAGS)
    return replace(parse_schema(text_of(overload)), tags=tags)
