"""What became of the cells, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscaffold.cli.template_run import Red, Result

_SHOWN = {"green": "ok", "red": "RED", "none": "-"}


def render_text(result: Result) -> str:
    """The table, each red result with the last of what the tool said, and the cost."""
    return "\n".join([*_table(result), *_reds(result), "", *_cost(result)]) + "\n"


def render_json(result: Result) -> str:
    """The same as a document: keys stay, new ones may be added."""
    document = {
        "cells": [
            {
                "name": cell.name,
                "package": group.name,
                "schema": cell.schema,
                "answers": cell.answers(),
                "results": {tool: result.verdict(cell, tool) for tool in result.tools},
            }
            for group in result.groups
            for cell in group.cells
        ],
        "red": [_red_document(red) for red in result.reds],
        "packages": [
            {
                "name": group.name,
                "seconds": {
                    tool: round(result.seconds[group.name, tool], 3)
                    for tool in result.tools
                    if (group.name, tool) in result.seconds
                },
            }
            for group in result.groups
        ],
        "seconds": {
            **{tool: round(result.cost(tool), 3) for tool in result.tools},
            "all": round(result.wall, 3),
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _red_document(red: Red) -> dict[str, Any]:
    return {
        "package": red.group,
        "tool": red.tool,
        "cells": list(red.cells),
        "output": list(red.output),
    }


def _table(result: Result) -> Iterator[str]:
    cells = [cell for group in result.groups for cell in group.cells]
    wide = max(len("cell"), *(len(cell.name) + 2 for cell in cells))
    yield "  ".join(["cell".ljust(wide), *result.tools]).rstrip()
    for group in result.groups:
        release = ".".join(map(str, group.spec.torch_min))
        yield f"{group.name} (torch {release})"
        for cell in group.cells:
            verdicts = [
                _SHOWN[result.verdict(cell, tool)].ljust(len(tool)) for tool in result.tools
            ]
            yield "  ".join([f"  {cell.name}".ljust(wide), *verdicts]).rstrip()


def _reds(result: Result) -> Iterator[str]:
    cells = {cell.name: cell for group in result.groups for cell in group.cells}
    for red in result.reds:
        yield ""
        if len(red.cells) == 1:
            cell = cells[red.cells[0]]
            answers = ", ".join(f"{key} {value}" for key, value in cell.answers().items())
            yield f"RED {red.tool}: {cell.name} in {red.group}: {cell.schema}"
            yield f"    {answers}"
        else:
            yield f"RED {red.tool}: all of {red.group}: {', '.join(red.cells)}"
        yield from (f"    | {line}" for line in red.output)


def _cost(result: Result) -> Iterator[str]:
    spent = ", ".join(f"{tool} {result.cost(tool):.1f} s" for tool in result.tools)
    yield f"time: {result.wall:.1f} s ({spent})"
    cells = [cell for group in result.groups for cell in group.cells]
    bad = [c for c in cells if any(result.verdict(c, tool) != "green" for tool in result.tools)]
    packages = f"{len(result.groups)} package{'' if len(result.groups) == 1 else 's'}"
    yield (
        f"{len(cells)} cell{'' if len(cells) == 1 else 's'} in {packages}: "
        f"{len(cells) - len(bad)} green, {len(bad)} red"
    )
