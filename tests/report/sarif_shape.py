"""What SARIF 2.1.0 demands of the parts that are written here, as its JSON schema has it.

From the OASIS specification: required properties, closed sets of values, and the types of all
properties used. A property that is not listed is an error, since SARIF objects are closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

URI = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*\Z")


@dataclass(frozen=True)
class Shape:
    """One kind of object: its properties, of which some are required."""

    properties: dict[str, Any]
    required: frozenset[str] = field(default_factory=frozenset)


def shape(*required: str, **properties: Any) -> Shape:
    return Shape(properties, frozenset(required))


TEXT = shape("text", text=str)
ARTIFACT = shape(uri="uri", uriBaseId=str, index=int)
REGION = shape(startLine="positive", startColumn="positive", endLine="positive", endColumn=int)
LOCATION = shape(physicalLocation=shape(artifactLocation=ARTIFACT, region=REGION), message=TEXT)
LEVEL = {"none", "note", "warning", "error"}
RULE = shape(
    "id",
    id=str,
    name=str,
    shortDescription=TEXT,
    fullDescription=TEXT,
    help=TEXT,
    helpUri="uri",
    defaultConfiguration=shape(level=LEVEL, enabled=bool),
)
RESULT = shape(
    "message",
    ruleId=str,
    ruleIndex=int,
    level=LEVEL,
    message=TEXT,
    locations=[LOCATION],
    relatedLocations=[LOCATION],
    partialFingerprints={"*": str},
    properties={"*": object},
)
RUN = shape(
    "tool",
    tool=shape("driver", driver=shape("name", name=str, version=str, rules=[RULE])),
    results=[RESULT],
    columnKind={"utf16CodeUnits", "unicodeCodePoints"},
    originalUriBaseIds={"*": ARTIFACT},
)
LOG = shape("version", "runs", **{"$schema": "uri", "version": {"2.1.0"}, "runs": [RUN]})


def faults(value: Any, kind: Any = LOG, path: str = "$") -> Iterator[str]:
    """Every way in which a document is not SARIF."""
    if isinstance(kind, Shape):
        yield from _object(value, kind, path)
    elif isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{path}: no array"
            return
        for number, item in enumerate(value):
            yield from faults(item, kind[0], f"{path}[{number}]")
    elif isinstance(kind, dict):
        if not isinstance(value, dict):
            yield f"{path}: no object"
            return
        for key, item in value.items():
            yield from faults(item, kind["*"], f"{path}.{key}")
    elif isinstance(kind, set):
        if value not in kind:
            yield f"{path}: {value!r} is none of {sorted(kind)}"
    elif kind == "uri":
        if not isinstance(value, str) or not URI.match(value):
            yield f"{path}: {value!r} is no URI"
    elif kind == "positive":
        if not isinstance(value, int) or value < 1:
            yield f"{path}: {value!r} is not positive"
    elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        yield f"{path}: {value!r} is no {kind.__name__}"


def _object(value: Any, kind: Shape, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: no object"
        return
    for key in sorted(kind.required - value.keys()):
        yield f"{path}: lacks {key}"
    for key, item in value.items():
        if key in kind.properties:
            yield from faults(item, kind.properties[key], f"{path}.{key}")
        else:
            yield f"{path}: {key} is no property"
    if "ruleIndex" in value and value["ruleIndex"] < -1:
        yield f"{path}: ruleIndex is below -1"
