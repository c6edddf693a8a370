"""Every form of registration: what is listed is what running the program registers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from opscaffold.rules.contracts import contract_of
from opscaffold.source.model import Role
from opscaffold.source.project import Project, load_project

PROGRAMS = Path(__file__).with_name("forms.txt")

RUNNER = """
import json, os, runpy, sys, warnings
import torch

warnings.simplefilter("ignore")
found, kept = {}, []
for directory in sys.argv[1:]:
    before = set(torch._C._dispatch_get_all_op_names())
    os.chdir(directory)
    sys.path.insert(0, directory)
    modules = set(sys.modules)
    sys.argv = ["main.py"]
    kept.append(runpy.run_path("main.py", run_name="__main__"))
    sys.path.remove(directory)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(directory):
            kept.append(sys.modules.pop(name))
    ops = {}
    for name in set(torch._C._dispatch_get_all_op_names()) - before:
        space, _, rest = name.partition("::")
        op, _, overload = rest.partition(".")
        schema = getattr(getattr(getattr(torch.ops, space), op), overload or "default")._schema
        written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
        ops[name] = written
    found[os.path.basename(directory)] = ops
print(json.dumps(found))
"""


def programs() -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the ops and files of each program, by name."""
    found = {}
    for block in re.split(r"^=== ", PROGRAMS.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        listed = re.findall(r"^--- (.*)\n", rest, flags=re.MULTILINE)
        body = re.sub(r"^--- .*\n", "", rest, flags=re.MULTILINE)
        pieces = re.split(r"^#file: (.*)\n", body, flags=re.MULTILINE)
        files = dict(zip(pieces[1::2], pieces[2::2], strict=True)) or {"main.py": pieces[0]}
        found[name] = (listed, files)
    return found


ALL = programs()


def write(directory: Path, name: str) -> Project:
    for file, text in ALL[name][1].items():
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return load_project([directory], directory)


def listed(project: Project) -> dict[str, list[str] | None]:
    """Return what each op mutates, None where that is not known."""
    found: dict[str, list[str] | None] = {}
    for op in project.ops:
        contract = contract_of(project, op)
        mutates = op.definition.mutates if contract is None else contract.mutated
        known = (mutates,) if isinstance(mutates, str) else mutates
        found[op.qualname] = None if known is None else list(known)
    return found


def shown(name: str, mutates: list[str] | None) -> str:
    return f"{name}({'?' if mutates is None else ','.join(mutates)})"


@pytest.mark.parametrize("name", ALL)
def test_the_ops_of_a_program_are_listed(tmp_path: Path, name: str) -> None:
    project = write(tmp_path, name)
    assert [shown(*pair) for pair in listed(project).items()] == ALL[name][0]
    assert all(count == 1 for count in Counter(op.qualname for op in project.ops).values())


@pytest.mark.torch
@pytest.mark.slow
def test_running_the_programs_registers_what_is_listed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    projects = {}
    for number, name in enumerate(ALL):
        directory = tmp_path.resolve() / str(number)
        directory.mkdir()
        projects[str(number)] = (name, write(directory, name))
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, *(str(tmp_path.resolve() / n) for n in projects)],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    for number, run in json.loads(done.stdout.splitlines()[-1]).items():
        name, project = projects[number]
        found = listed(project)
        patterns = {
            op: re.compile(r"[\w:.]+".join(map(re.escape, re.split(r"\{.*?\}+", op))))
            for op in found
        }
        for op, mutates in run.items():
            matching = [op] if op in found else [p for p in found if patterns[p].fullmatch(op)]
            assert matching, (name, op)
            if op in found and found[op] not in (None, ["unknown"]):
                assert found[op] == mutates, (name, op)
        for op, pattern in patterns.items():
            assert any(pattern.fullmatch(made) for made in run), (name, op)


def test_a_library_entered_by_with_is_one(read) -> None:
    project = read(
        {
            "m.py": """
            import torch
            with torch.library._scoped_library("ns", "FRAGMENT") as lib:
                lib.define("a(Tensor x) -> Tensor")
                lib.impl("a", lambda x: x.clone(), "CPU")
            """
        }
    )
    assert [(op.qualname, [r.role for r in op.attached]) for op in project.ops] == [
        ("ns::a", [Role.IMPL])
    ]


def test_a_helper_registers_no_fake_that_it_is_not_given(read) -> None:
    project = read(
        {
            "m.py": """
            import torch
            lib = torch.library.Library("ns", "FRAGMENT")
            def register(name, fn, fake=None):
                lib.define(name + torch.library.infer_schema(fn, mutates_args=()))
                lib.impl(name, fn, "CPU")
                if fake is not None:
                    lib._register_fake(name, fake)
            def f(x): ...
            register("bare", f)
            register("full", f, fake=f)
            """
        }
    )
    roles = {op.name: [r.role for r in op.attached] for op in project.ops}
    assert roles == {"bare": [Role.IMPL], "full": [Role.IMPL, Role.FAKE]}
    assert [op.definition.declined for op in project.ops] == [{Role.FAKE}, frozenset()]


def test_helpers_of_helpers_are_found_through_modules(read) -> None:
    project = read(
        {
            "base.py": "import torch\n"
            "def direct(name, fn):\n    torch.library.custom_op(name, fn, mutates_args=())\n",
            "middle.py": "from base import direct\n"
            "def install(short, fn):\n    direct('ns::' + short, fn)\n",
            "use.py": "from middle import install\ndef f(x): ...\ninstall('a', f)\n",
        }
    )
    assert [op.qualname for op in project.ops] == ["ns::a"]


def test_a_module_on_a_path_that_the_file_adds_is_read(read) -> None:
    project = read(
        {
            "pkg/__init__.py": "",
            "pkg/tools/__init__.py": "",
            "pkg/tools/registry.py": "import torch\n"
            "def register(name):\n"
            "    def deco(fn):\n"
            "        return torch.library.custom_op(name, fn, mutates_args=())\n"
            "    return deco\n",
            "pkg/ops.py": "import sys\nsys.path.insert(0, 'pkg/tools')\n"
            "from registry import register\n@register('ns::a')\ndef a(x): ...\n",
            "pkg/other.py": "from registry import register\n@register('ns::b')\ndef b(x): ...\n",
        }
    )
    assert [op.qualname for op in project.ops] == ["ns::a"]


def test_a_helper_whose_library_has_no_known_name_still_defines(read) -> None:
    project = read(
        {
            "m.py": """
            import torch
            lib = torch.library.Library("ns", "FRAGMENT")
            def register(where):
                def deco(fn):
                    name = make_name(fn)
                    where.define(name + torch.library.infer_schema(fn, mutates_args=()))
                    return fn
                return deco
            @register(lib)
            def f(x): ...
            class Parser:
                def define(self, text): ...
            def note(where, fn):
                where.define(fn)
            note(Parser(), "ns::g(Tensor x) -> Tensor")
            """
        }
    )
    assert [op.qualname for op in project.ops] == ["ns::{make_name(fn)}"]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("'ns::' + n + schema", "ns::a"),
        ("f'ns::{n}{before} -> {after}'", "ns::a"),
        ("f'ns::{n}(Tensor {after}) -> Tensor'", "ns::a"),
        ("make(n)", "ns::{make(n)}"),
        ("'ns::' + make(n)", "ns::{make(n)}"),
    ],
)
def test_the_name_ends_where_the_schema_starts(read, written: str, name: str) -> None:
    project = read(
        {
            "m.py": (
                "import torch\nfrom acme import make, schema, before, after\nn = 'a'\n"
                f"lib = torch.library.Library('ns', 'FRAGMENT')\nlib.define({written})\n"
            )
        }
    )
    assert [op.qualname for op in project.ops] == [name]
