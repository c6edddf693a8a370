"""A contract as a small picture: arguments on the left, returns on the right, aliases between.

A filled dot is memory that is written, a ring memory that is only read or new; a line joins an
argument to a return that is the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from opscaffold.report.excerpt import cells, visible
from opscaffold.report.migration import Contract, Value

_ROW = 22
_TOP = 12
_WIDTH = 360
# Where the dots are: arguments end at the left one, returns begin at the right one.
_LEFT, _RIGHT = 226, 268
_CHAR = 6.7
_COLOURS = 6


def picture(contract: Contract) -> str:
    """Return an SVG element; what it shows is also its accessible description."""
    rows = max(len(contract.arguments), len(contract.returns), 1)
    height = 2 * _TOP + rows * _ROW
    sets = [name for value in contract.arguments for name in value.sets]
    colours = {name: index % _COLOURS for index, name in enumerate(dict.fromkeys(sets))}
    parts = [
        f'<svg class="picture" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(_described(contract))}</title>",
        f'<rect class="box" x="1" y="1" width="{_WIDTH - 2}" height="{height - 2}" rx="6"/>',
    ]
    parts += _links(contract, colours)
    parts += [_argument(v, i, contract, colours) for i, v in enumerate(contract.arguments)]
    if contract.returns:
        parts += [_return(v, i, colours) for i, v in enumerate(contract.returns)]
    else:
        parts.append(_text("nothing", _RIGHT + 10, 0, "start", "none", _WIDTH - _RIGHT - 16))
    if not contract.arguments:
        parts.append(_text("no arguments", _LEFT - 10, 0, "end", "none", _LEFT - 16))
    parts.append("</svg>")
    return "".join(parts)


def _y(row: int) -> float:
    return _TOP + _ROW * (row + 0.5)


def _links(contract: Contract, colours: dict[str, int]) -> list[str]:
    found = []
    for row, value in enumerate(contract.arguments):
        for other, returned in enumerate(contract.returns):
            shared = [name for name in value.sets if name in returned.sets]
            if shared:
                a, b = _y(row), _y(other)
                middle = (_LEFT + _RIGHT) / 2
                found.append(
                    f'<path class="link set{colours[shared[0]]}" '
                    f'd="M{_LEFT} {a}C{middle} {a} {middle} {b} {_RIGHT} {b}"/>'
                )
    return found


def _argument(value: Value, row: int, contract: Contract, colours: dict[str, int]) -> str:
    default = "" if value.default is None else f" = {value.default}"
    lead = "" if not value.kw_only else "* "
    label = f"{lead}{value.name}: {value.type}{default}"
    line = ""
    before = contract.arguments[row - 1] if row else None
    if value.kw_only and before is not None and not before.kw_only:
        y = _y(row) - _ROW / 2
        line = f'<path class="cut" d="M8 {y}H{_LEFT - 8}"/>'
    kind = "written" if value.written else ""
    text = _text(label, _LEFT - 10, row, "end", kind, _LEFT - 16)
    return line + text + _dot(_LEFT, row, value, colours)


def _return(value: Value, row: int, colours: dict[str, int]) -> str:
    label = value.type if value.sets else f"new {value.type}"
    text = _text(label, _RIGHT + 10, row, "start", "", _WIDTH - _RIGHT - 16)
    return text + _dot(_RIGHT, row, value, colours)


def _dot(x: int, row: int, value: Value, colours: dict[str, int]) -> str:
    known = next((f" set{colours[name]}" for name in value.sets if name in colours), "")
    kind = "written" if value.written else "read"
    return f'<circle class="dot {kind}{known}" cx="{x}" cy="{_y(row)}" r="4"/>'


def _text(text: str, x: int, row: int, anchor: str, kind: str, room: int) -> str:
    shown = visible(text)
    most = int(room / _CHAR)
    cut = shown
    while cells(cut) > most:
        cut = f"{cut[: most - 1]}…" if len(cut) > most else f"{cut[:-2]}…"
    title = f"<title>{escape(shown)}</title>" if cut != shown else ""
    return (
        f'<text class="{kind}" x="{x}" y="{_y(row) + 4}" text-anchor="{anchor}">'
        f"{title}{escape(cut)}</text>"
    )


def _described(contract: Contract) -> str:
    if contract.schema is not None:
        return visible(contract.schema)
    return visible(f"{contract.op}: {_names(contract.arguments)}")


def _names(values: Sequence[Value]) -> str:
    return ", ".join(value.name for value in values) or "no arguments"
