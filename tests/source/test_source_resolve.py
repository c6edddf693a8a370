from __future__ import annotations

import pytest
from source_reading import last_expression, module_named

# Every program ends in an expression; what it stands for, or None where that is not sure.
CERTAIN = {
    "import as": ("import torch as th\nth.library.custom_op", "torch.library.custom_op"),
    "from import as": (
        "from torch import library as lib\nlib.custom_op",
        "torch.library.custom_op",
    ),
    "from import of the function": (
        "from torch.library import custom_op as op\nop",
        "torch.library.custom_op",
    ),
    "submodule import binds the top": (
        "import torch.nn\ntorch.library.custom_op",
        "torch.library.custom_op",
    ),
    "submodule import under a name": (
        "import torch.library as tl\ntl.custom_op",
        "torch.library.custom_op",
    ),
    "plain alias": (
        "import torch\nd = torch.library\nc = d.custom_op\nc",
        "torch.library.custom_op",
    ),
    "tuple of aliases": (
        "from torch import library\na, b = library.define, library.custom_op\nb",
        "torch.library.custom_op",
    ),
    "getattr with a literal": (
        "import torch\ngetattr(torch.library, 'custom_op')",
        "torch.library.custom_op",
    ),
    "imported by name": (
        "import importlib\nimportlib.import_module('torch.library').custom_op",
        "torch.library.custom_op",
    ),
    "star import of torch.library": (
        "from torch.library import *\ncustom_op",
        "torch.library.custom_op",
    ),
    "the last unconditional binding": (
        "custom_op = None\nfrom torch.library import custom_op\ncustom_op",
        "torch.library.custom_op",
    ),
    "None in a handler cannot be called": (
        "try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.library.custom_op",
        "torch.library.custom_op",
    ),
    "walrus": ("import torch\n(c := torch.library.custom_op)\nc", "torch.library.custom_op"),
    "walrus in a comprehension binds outside": (
        "import torch\n[(c := torch.library) for _ in 'a']\nc.custom_op",
        "torch.library.custom_op",
    ),
    "builtin": ("len", "builtins.len"),
    "unrelated name of the same spelling": (
        "from mylib import custom_op\ncustom_op",
        "mylib.custom_op",
    ),
    "definition": ("def custom_op(): ...\ncustom_op", "m.custom_op"),
    "comprehension variable does not leak": (
        "from torch import library\n[library for library in 'a']\nlibrary.custom_op",
        "torch.library.custom_op",
    ),
    "class attribute does not leak": (
        "from torch import library\nclass A:\n    library = 1\nlibrary.custom_op",
        "torch.library.custom_op",
    ),
    "read through a class": (
        "import torch\nclass A:\n    op = torch.library.custom_op\nA.op",
        "torch.library.custom_op",
    ),
    "not yet rebound": (
        "from torch.library import custom_op\ndef f():\n    global other\n    other = 1\ncustom_op",
        "torch.library.custom_op",
    ),
    "a bare annotation binds nothing": (
        "import torch\ntorch: object\ntorch.library.custom_op",
        "torch.library.custom_op",
    ),
}

UNSURE = {
    "either branch": (
        "import torch\nif torch.x:\n    c = torch.library.custom_op\nelse:\n    c = print\nc"
    ),
    "conditional expression": "import torch\nc = torch.library.custom_op if torch.x else print\nc",
    "loop variable": "from torch import library\nfor library in 'a': ...\nlibrary.custom_op",
    "with target": "from torch import library\nwith open('x') as library: ...\nlibrary.custom_op",
    "augmented assignment": "import torch\nc = torch.library.custom_op\nc += 1\nc",
    "rebound in a function": (
        "from torch import library\n"
        "def f():\n    global library\n    library = 1\nlibrary.custom_op"
    ),
    "rebound in the loop that reads it": (
        "import torch\nc = torch.library.custom_op\nfor _ in 'ab':\n    d = c\n    c = print\nd"
    ),
    "match capture": "import torch\nmatch torch.x:\n    case [c]: ...\nc",
    "unknown star import": "from somewhere import *\ncustom_op",
    "subscript": "import torch\n[torch.library][0].custom_op",
    "itself": "c = c\nc",
    "each other": "if 1:\n    a = b\nb = a\nb",
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_an_expression_stands_for(read, name):
    text, dotted = CERTAIN[name]
    project = read({"m.py": text})
    module = module_named(project, "m")
    assert project.resolve_dotted(module, last_expression(module)) == dotted


@pytest.mark.parametrize("name", UNSURE)
def test_what_cannot_be_told_is_not_claimed(read, name):
    project = read({"m.py": UNSURE[name]})
    module = module_named(project, "m")
    assert project.resolve_dotted(module, last_expression(module)) is None


@pytest.mark.parametrize(
    ("body", "dotted"),
    [
        ("def f(custom_op):\n    return custom_op", None),
        ("def f():\n    return custom_op", "torch.library.custom_op"),
        ("def f():\n    custom_op = 1\n    return custom_op", None),
        (
            "class A:\n    custom_op = 1\n    def f(self):\n        return custom_op",
            "torch.library.custom_op",
        ),
        ("def f():\n    try: ...\n    except E as custom_op: ...\n    return custom_op", None),
        ("def f(x=custom_op, *, custom_op=1):\n    return x", None),
        (
            "f = lambda custom_op: custom_op\ndef g():\n    return custom_op",
            "torch.library.custom_op",
        ),
        (
            (
                "def f():\n    def custom_op(): ...\n"
                "    def g():\n        return custom_op\n    return custom_op"
            ),
            "m.f.custom_op",
        ),
        (
            (
                "def f():\n    x = 1\n    def g():\n        nonlocal x\n"
                "        x = custom_op\n    return x"
            ),
            None,
        ),
        ("def f():\n    return [custom_op for _ in 'a'][0]", None),
        (
            "async def f():\n    import torch as t\n    return t.library.custom_op",
            "torch.library.custom_op",
        ),
    ],
)
def test_scopes_hide_names_as_python_says(read, body, dotted):
    project = read({"m.py": "from torch.library import custom_op\n" + body})
    module = module_named(project, "m")
    returned = [n.value for n in module.parents if type(n).__name__ == "Return"]
    assert project.resolve_dotted(module, returned[-1]) == dotted


def test_re_exports_are_followed_through_packages(read):
    project = read(
        {
            "src/pkg/__init__.py": "from .compat import *\nfrom . import deep\n",
            "src/pkg/compat.py": "import torch\nop = torch.library.custom_op\n_hidden = op\n",
            "src/pkg/deep/__init__.py": "from ..compat import op as renamed\n",
            "use.py": "import pkg\nfrom pkg import op\nfrom pkg.deep import renamed as r\n"
            "(pkg.op, op, r, pkg.deep.renamed, pkg._hidden)",
        }
    )
    module = module_named(project, "use")
    answers = [project.resolve_dotted(module, e) for e in last_expression(module).elts]
    assert answers == ["torch.library.custom_op"] * 4 + [None]


def test_all_decides_what_a_star_import_binds(read):
    project = read(
        {
            "a.py": "import torch\n__all__ = ['_op']\n_op = torch.library.custom_op\nother = _op\n",
            "b.py": "from a import *\n(_op, other)",
        }
    )
    module = module_named(project, "b")
    hidden, other = (project.resolve_dotted(module, e) for e in last_expression(module).elts)
    assert hidden == "torch.library.custom_op"
    assert other is None


def test_a_later_star_import_may_replace_a_name(read):
    project = read(
        {
            "a.py": "def f(): ...\n",
            "b.py": "def f(): ...\nfrom a import *\nf",
            "c.py": "from a import *\ndef f(): ...\nf",
        }
    )
    b, c = module_named(project, "b"), module_named(project, "c")
    assert project.resolve_dotted(b, last_expression(b)) is None
    assert project.resolve_dotted(c, last_expression(c)) == "c.f"


def test_circular_imports_end(read):
    project = read(
        {
            "pkg/__init__.py": "from . import ops\nfrom .a import x\n",
            "pkg/ops.py": "def f(): ...\n",
            "pkg/a.py": "from .b import x\n",
            "pkg/b.py": "from .a import x\nimport pkg\n(x, pkg.ops.f)",
        }
    )
    module = module_named(project, "pkg.b")
    answers = [project.resolve_dotted(module, e) for e in last_expression(module).elts]
    assert answers == [None, "pkg.ops.f"]


def test_modules_are_named_as_python_imports_them(read, tree):
    project = read(
        {
            "src/pkg/__init__.py": "",
            "src/pkg/sub/mod.py": "",
            "scripts/tool.py": "",
            "ns/inner/__init__.py": "",
            "top.py": "",
        }
    )
    names = {p.relative_to(tree.root).as_posix(): project.module_for(p).name for p in project.files}
    assert names == {
        "src/pkg/__init__.py": "pkg",
        "src/pkg/sub/mod.py": "pkg.sub.mod",
        "scripts/tool.py": "scripts.tool",
        "ns/inner/__init__.py": "inner",
        "top.py": "top",
    }


def test_a_name_two_files_bear_is_not_resolved_to_either(read):
    project = read(
        {
            "a/ops.py": "def f(): ...\n",
            "b/ops.py": "def f(): ...\n",
            "tests/use.py": "import ops\nops.f",
            "a/near.py": "import ops\nops.f",
        }
    )
    far, near = module_named(project, "tests.use"), module_named(project, "a.near")
    assert project.resolve_dotted(far, last_expression(far)) is None
    assert project.resolve_dotted(near, last_expression(near)) == "a.ops.f"


def test_a_tree_that_has_a_torch_directory_does_not_hide_torch(read):
    project = read(
        {
            "torch/__init__.py": "",
            "torch/library.py": "def custom_op(): ...\n",
            "m.py": "from torch.library import custom_op\ncustom_op",
        }
    )
    module = module_named(project, "m")
    assert project.resolve_dotted(module, last_expression(module)) == "torch.library.custom_op"


def test_names_in_scope_are_those_a_new_name_would_hide(read):
    project = read(
        {
            "other.py": "starred = 1\n_private = 2\n",
            "m.py": """
            from other import *
            import torch as t
            top = 1
            def f(parameter):
                local = 1
                class A:
                    attribute = 1
                return local
            """,
        }
    )
    module = module_named(project, "m")
    inside = next(n for n in module.parents if type(n).__name__ == "Return")
    names = project.bindings_in_scope(module, inside)
    assert names == {"starred", "t", "top", "f", "parameter", "local", "A"}
    assert project.bindings_in_scope(module, module.tree) == {"starred", "t", "top", "f"}
