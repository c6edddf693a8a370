"""How a function comes into a package: with its text, or by an import from its own module."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from opscaffold.scaffold.from_error import FromError
from opscaffold.scaffold.from_names import bindings_of, free_names
from opscaffold.scaffold.from_needs import Needs
from opscaffold.scaffold.from_origin import Origin

COPY, IMPORT = "copy", "import"


def mode_note(origin: Origin, needs: Needs, name: str, mode: str) -> str:
    """How the function comes into the package, and why. Raises FromError where it cannot."""
    if mode == COPY and needs.foreign:
        raise FromError(
            origin.shown,
            None,
            f"{name} cannot be copied: {'; '.join(needs.foreign)}",
            "drop --from-copy, and it is imported from its own module",
        )
    module = origin.module.name
    if imports(needs, mode):
        if not module or not all(part.isidentifier() for part in module.split(".")):
            raise FromError(
                origin.shown,
                None,
                f"{name} has to be imported, and its file is no module of a package",
                "give the file a name that can be imported, or make the function self-contained",
            )
        why = "as you say" if mode == IMPORT else "; ".join(needs.foreign)
        return f"it is imported from {module} ({why}), which the package then depends on"
    helpers = [s.name for s in needs.statements if isinstance(s, ast.FunctionDef)][1:]
    beside = f" with {', '.join(helpers)}" if helpers else ""
    return f"its text is copied{beside}: it needs nothing else of its project"


def imports(needs: Needs, mode: str) -> bool:
    """Whether a function is imported from its own module."""
    return mode == IMPORT or (not mode and bool(needs.foreign))


def importing(origin: Origin, needs: Needs, function: str, fakes: Mapping[str, str]) -> str:
    """The imports of a function from its own module, and of what its fake kernels read."""
    bindings = bindings_of(origin.module.tree)
    own = {function}
    outside: dict[str, None] = {}
    for name in (n for text in fakes.values() for n in free_names(ast.parse(text).body[0])):
        found = next((t for t, bound in needs.imports.items() if bound == name), None)
        if found is not None:
            outside[found] = None
        elif bindings.of(name) is not None:
            own.add(name)
    lines = sorted(outside, key=lambda text: (text.startswith("from "), text))
    gap = [""] if lines else []
    names = ", ".join(sorted(own))
    return "\n".join([*lines, *gap, f"from {origin.module.name} import {names}", ""])
