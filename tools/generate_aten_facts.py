"""Write opscaffold/effects/aten.json from the native_functions.yaml that torch ships.

Run it in an environment with torch installed: ``python tools/generate_aten_facts.py``. It reads
the file as text and imports neither torch nor torchgen.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

TARGET = Path(__file__).parent.parent / "opscaffold" / "effects" / "aten.json"
ENTRY = re.compile(
    r"^- func: (?P<func>.*?)$(?P<rest>.*?)(?=^- func: |\Z)", re.MULTILINE | re.DOTALL
)
TAGS = re.compile(r"^  tags: (.*)$", re.MULTILINE)
# A written argument that is not the keyword-only buffer of an out= form.
WRITTEN = re.compile(r"^[^*]*\(\w+!\)")
READ_ALIAS = re.compile(r"\(\w+(\s*->\s*\*)?\)")


def native_functions() -> str:
    """The text of native_functions.yaml of the installed torch."""
    spec = importlib.util.find_spec("torchgen")
    if spec is None or spec.origin is None:
        raise SystemExit("torch is not installed here")
    root = Path(spec.origin).parent
    return (root / "packaged/ATen/native/native_functions.yaml").read_text("utf-8")


def facts(yaml_text: str) -> dict[str, list[str]]:
    """Names of ATen functions by what they do to memory."""
    known: set[str] = set()
    views: set[str] = set()
    inplace: set[str] = set()
    reshaping: set[str] = set()
    dynamic: set[str] = set()
    several: set[str] = set()
    mutating: set[str] = set()
    for entry in ENTRY.finditer(yaml_text):
        func = entry["func"]
        name = func.partition("(")[0].partition(".")[0]
        arguments, _, returned = func.rpartition("->")
        tags = TAGS.search(entry["rest"])
        tag_text = tags[1] if tags else ""
        known.add(name)
        if READ_ALIAS.search(returned):
            views.add(name)
        if name.endswith("_") and not name.endswith("__"):
            inplace.add(name)
        if "inplace_view" in tag_text:
            reshaping.add(name)
        plain = READ_ALIAS.sub("", returned)
        if "!" not in plain and (plain.count("Tensor") > 1 or "Tensor[]" in plain):
            several.add(name)
        if name not in inplace and WRITTEN.search(arguments.partition("(")[2]):
            mutating.add(name)
        if "dynamic_output_shape" in tag_text or "data_dependent_output" in tag_text:
            dynamic.add(name)
    return {
        "known": sorted(known),
        "views": sorted(views),
        "inplace": sorted(inplace),
        "reshaping": sorted(reshaping),
        "dynamic": sorted(dynamic),
        "several": sorted(several),
        "mutating": sorted(mutating),
    }


def render(yaml_text: str) -> str:
    """The data file's text."""
    lines = ",\n".join(
        f'"{key}": {json.dumps(" ".join(names))}' for key, names in facts(yaml_text).items()
    )
    return "{\n" + lines + "\n}\n"


if __name__ == "__main__":
    TARGET.write_text(render(native_functions()), "utf-8")
