"""The new op has a name wherever the old one has: in every branch, or the op stays."""

from __future__ import annotations

import pytest
from migrating import HEADER, migrate_files, reasons
from migrating import OP as HEAD

OP = (
    HEAD
    + """def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, 2, out=out)
"""
)
USE = "\n\ndef use(x):\n    return mul(x, torch.empty_like(x))\n"
BRANCHES = {
    "if": "if torch.cuda.is_available():\n    from ops import double as mul\nelse:\n"
    "    from ops import double as mul\n",
    "try": "try:\n    from ops import double as mul\nexcept ImportError:\n"
    "    from ops import double as mul\n",
    "match": "match torch.__version__:\n    case '2':\n        from ops import double as mul\n"
    "    case _:\n        from ops import double as mul\n",
}


@pytest.mark.parametrize("kind", BRANCHES)
def test_imports_in_every_branch_bring_the_new_op(kind: str) -> None:
    files, migration = migrate_files(
        {"ops.py": OP, "use.py": f"import torch\n{BRANCHES[kind]}{USE}"}
    )
    assert migration.findings == []
    text = files["use.py"].decode()
    assert text.count("import double as mul, double_out as mul_out\n") == 2
    assert "return mul_out(x, out=torch.empty_like(x))" in text


def test_imports_in_a_function_and_through_a_module_with_branches() -> None:
    files, _ = migrate_files({
        "ops.py": OP,
        "api.py": f"import torch\n{BRANCHES['if']}",
        "use.py": "import torch\n\n\ndef use(x):\n    from api import mul\n\n"
        "    return mul(x, torch.empty_like(x))\n",
        "other.py": "def other(x):\n    from api import mul\n\n    return mul(x)\n",
    })  # fmt: skip
    assert files["api.py"].decode().count("double_out as mul_out") == 2
    assert "from api import mul, mul_out" in files["use.py"].decode()
    assert "mul_out" not in files["other.py"].decode()


@pytest.mark.parametrize("word", ["global", "nonlocal"])
def test_an_import_that_binds_a_name_outside_keeps_the_op(word: str) -> None:
    inner = f"def load():\n    {word} double\n    from ops import double\n"
    use = "load()\nreturn double(x, torch.empty_like(x))\n"
    if word == "global":
        text = inner + "\n\ndef use(x):\n" + "".join(f"    {line}\n" for line in use.splitlines())
    else:
        lines = ["double = None", *inner.splitlines(), *use.splitlines()]
        text = "def use(x):\n" + "".join(f"    {line}\n" for line in lines)
    files, migration = migrate_files({"ops.py": OP, "use.py": f"import torch\n\n\n{text}"})
    assert migration.plans == []
    assert files["ops.py"].decode() == OP
    assert migration.findings, reasons(migration)


@pytest.mark.parametrize(
    ("calls", "sure"),
    [
        ("run(x, x)", True),
        ("run(x, None)", False),
        ("run(x, buffer=None)", False),
        ("run(x, x if len(x) else None)", False),
        ("walk(x, None)", True),
    ],
)
def test_an_annotation_that_callers_do_not_keep_to_is_not_believed(
    calls: str, *, sure: bool
) -> None:
    text = HEADER + (
        "from ops import double\n\n\ndef run(x: Tensor, buffer: Tensor) -> Tensor:\n"
        "    return double(x, buffer)\n"
    )
    other = f"from use import run\n\n\ndef other(x, walk):\n    return {calls}\n"
    files, _ = migrate_files({"ops.py": OP, "use.py": text, "other.py": other})
    assert ("if buffer is None" not in files["use.py"].decode()) == sure


def test_what_a_caller_may_leave_out_may_be_none_further_down() -> None:
    text = HEADER + (
        "from ops import double\n\n\ndef run(x: Tensor, buffer: Tensor) -> Tensor:\n"
        "    return double(x, buffer)\n\n\ndef outer(x, b=None):\n    return run(x, b)\n"
    )
    files, _ = migrate_files({"ops.py": OP, "use.py": text})
    assert "double(x) if buffer is None else double_out" in files["use.py"].decode()


def test_a_module_imported_by_a_call_is_named() -> None:
    use = 'import torch\n\n\ndef use(x):\n    return __import__("ops").double(x, out=x + 1)\n'
    _, migration = migrate_files({"ops.py": OP, "use.py": use})
    assert [(n.position.path.name, n.severity.value) for n in migration.notes] == [
        ("use.py", "warning")
    ]
