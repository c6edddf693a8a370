from __future__ import annotations

import ast

import pytest
from source_reading import op_named, shown

from opscaffold.source.model import Use

OPS = """
import torch

@torch.library.custom_op("ns::scale", mutates_args=())
def scale(x, out=None): ...
"""

HITS = {
    "from import": (
        "from pkg.ops import scale\nscale(x)",
        [("scale", "IMPORT"), ("scale", "CALL")],
    ),
    "from import under a name": (
        "from pkg.ops import scale as s\ns(x)",
        [("scale as s", "IMPORT"), ("s", "CALL")],
    ),
    "module attribute": ("import pkg.ops\npkg.ops.scale(x)", [("pkg.ops.scale", "CALL")]),
    "module under a name": ("import pkg.ops as o\no.scale(x)", [("o.scale", "CALL")]),
    "module from its package": ("from pkg import ops\nops.scale(x)", [("ops.scale", "CALL")]),
    "through a re-export": ("import pkg\npkg.api.sc(x)", [("pkg.api.sc", "CALL")]),
    "through a star": ("from pkg.star import *\nscale(x)", [("scale", "CALL")]),
    "renamed by a re-export": ("from pkg.api import sc\nsc(x)", [("sc", "IMPORT"), ("sc", "CALL")]),
    "torch.ops": ("import torch\ntorch.ops.ns.scale(x)", [("torch.ops.ns.scale", "CALL")]),
    "torch.ops default": (
        "import torch\ntorch.ops.ns.scale.default(x)",
        [("torch.ops.ns.scale.default", "CALL")],
    ),
    "namespace under a name": ("import torch\nn = torch.ops.ns\nn.scale(x)", [("n.scale", "CALL")]),
    "packet under a name": (
        "from torch import ops\np = ops.ns.scale\np.default(x)",
        [("ops.ns.scale", "VALUE"), ("p.default", "CALL")],
    ),
    "getattr with a literal": (
        "import torch\ngetattr(torch.ops.ns, 'scale')(x)",
        [("getattr(torch.ops.ns, 'scale')", "CALL")],
    ),
    "getattr of a module": (
        "import pkg.ops\ngetattr(pkg.ops, 'scale')(x)",
        [("getattr(pkg.ops, 'scale')", "CALL")],
    ),
    "computed getattr of the namespace": (
        "import torch\ngetattr(torch.ops.ns, name)(x)",
        [("getattr(torch.ops.ns, name)", "UNCERTAIN")],
    ),
    "computed getattr of the module": (
        "import pkg.ops\ngetattr(pkg.ops, name)",
        [("getattr(pkg.ops, name)", "UNCERTAIN")],
    ),
    "argument": (
        "import functools\nfrom pkg.ops import scale\nfunctools.partial(scale, x)",
        [("scale", "IMPORT"), ("scale", "VALUE")],
    ),
    "attribute of the op": (
        "from pkg.ops import scale\nscale._opoverload(x)",
        [("scale", "IMPORT"), ("scale", "ATTRIBUTE")],
    ),
    "attribute of the packet": (
        "import torch\ntorch.ops.ns.scale.overloads()",
        [("torch.ops.ns.scale", "ATTRIBUTE")],
    ),
    "registration": (
        "from pkg.ops import scale\n@scale.register_fake\ndef _(x): ...",
        [("scale", "IMPORT"), ("scale", "REGISTRATION")],
    ),
    "alias": (
        "import pkg.ops\nf = pkg.ops.scale\ndef g():\n    return f(x)",
        [("pkg.ops.scale", "VALUE"), ("f", "CALL")],
    ),
    "kept on self": (
        (
            "import pkg.ops\nclass A:\n    def __init__(self):\n        self.op = pkg.ops.scale\n"
            "    def f(self):\n        return self.op(x)"
        ),
        [("pkg.ops.scale", "VALUE"), ("self.op", "UNCERTAIN")],
    ),
    "bound in two branches": (
        "try:\n    from pkg.ops import scale\nexcept ImportError:\n    def scale(x): ...\nscale(x)",
        [("scale", "IMPORT"), ("scale", "UNCERTAIN")],
    ),
    "rebound": (
        "from pkg.ops import scale\nscale = wrap(scale)\ndef f():\n    return scale(x)",
        [("scale", "IMPORT"), ("scale", "UNCERTAIN"), ("scale", "VALUE"), ("scale", "UNCERTAIN")],
    ),
    "deleted": (
        "from pkg.ops import scale\nscale(x)\ndel scale",
        [("scale", "IMPORT"), ("scale", "CALL"), ("scale", "UNCERTAIN")],
    ),
    "replaced on its module": (
        "import pkg.ops\npkg.ops.scale = None",
        [("pkg.ops.scale", "UNCERTAIN")],
    ),
    "exported": (
        "from pkg.ops import scale\n__all__ = ['scale']\n__all__ += ['other']",
        [("scale", "IMPORT"), ("'scale'", "EXPORT")],
    ),
    "qualname in a string": ("OPS = {'ns::scale'}", [("'ns::scale'", "STRING")]),
    "overload in a string": (
        "OPS = 'see ns::scale.default!'",
        [("'see ns::scale.default!'", "STRING")],
    ),
    "dotted op in a string": ("OPS = 'torch.ops.ns.scale'", [("'torch.ops.ns.scale'", "STRING")]),
    "path in a string": (
        "from unittest import mock\nmock.patch('pkg.ops.scale')",
        [("'pkg.ops.scale'", "STRING")],
    ),
    "owner and name": (
        "import pkg.ops\ndef test(monkeypatch):\n    monkeypatch.setattr(pkg.ops, 'scale', None)",
        [("'scale'", "STRING")],
    ),
    "module imported at run time": (
        "import importlib\nm = importlib.import_module(name)\nm.scale(x)",
        [("m.scale", "UNCERTAIN")],
    ),
}


def write_package(read, text):
    return read(
        {
            "pkg/__init__.py": "from . import api\n",
            "pkg/ops.py": OPS,
            "pkg/api.py": "from .ops import scale as sc\n",
            "pkg/star.py": "from .ops import *\n",
            "use.py": text,
        }
    )


@pytest.mark.parametrize("name", HITS)
def test_every_way_to_an_op_is_found(read, name):
    text, expected = HITS[name]
    found = shown(write_package(read, text), "ns::scale")
    assert [(node, use) for module, node, use in found if module == "use"] == expected


MISSES = {
    "another function": "from other import scale\nscale(x)",
    "a parameter": "from pkg.ops import scale as s\ndef f(scale):\n    return scale(x)",
    "a local": "def f():\n    scale = 1\n    return scale",
    "a method": "class A:\n    def scale(self): ...\nA().scale()",
    "another namespace": "import torch\ntorch.ops.other.scale(x)",
    "another op": "import torch\ntorch.ops.ns.scale_out(x)\ntorch.ops.ns.rescale(x)",
    "part of a word": "A = 'xns::scale', 'ns::scaled', 'ns::scale::x', 'a.ns::scale'",
    "part of a path": "A = 'pkg.ops.scale_out', 'my.pkg.ops.scale', 'ops.scale'",
    "an unresolvable object": "from somewhere import thing\nthing.scale(x)",
    "keyword argument": "f(scale=1)",
    "another star": "from other import *\nscale(x)",
}


@pytest.mark.parametrize("name", MISSES)
def test_what_only_looks_like_the_op_is_no_reference(read, name):
    found = shown(write_package(read, MISSES[name]), "ns::scale", without=(Use.IMPORT,))
    assert [entry for entry in found if entry[0] == "use"] == []


def test_the_definition_and_its_own_name_string_are_no_references(read):
    project = read({"ops.py": OPS + "\ntorch.library.register_fake('ns::scale')(lambda x: x)\n"})
    assert shown(project, "ns::scale") == []


def test_the_way_a_name_is_bound_is_told(read):
    project = read(
        {
            "pkg/__init__.py": "from .api import sc as scale\n",
            "pkg/ops.py": OPS,
            "pkg/api.py": "from .ops import scale as sc\n",
            "use.py": "import pkg\nfrom pkg import scale as s\ns(1)\npkg.scale(2)\nt = s\nt(3)\n",
        }
    )
    references = [
        r for r in project.references(op_named(project, "ns::scale")) if r.module.name == "use"
    ]
    calls = {r.call.args[0].value: r for r in references if r.call is not None}
    assert [(b.module.name, b.local, b.target.name) for b in calls[1].via] == [
        ("use", "s", "pkg"),
        ("pkg", "scale", "pkg.api"),
        ("pkg.api", "sc", "pkg.ops"),
    ]
    assert calls[1].holder is None
    assert [b.local for b in calls[2].via] == ["scale", "sc"]
    assert calls[2].holder.name == "pkg"
    assert [ast.unparse(s) for s in calls[3].assignments] == ["t = s"]
    assert not any(r.torch_ops for r in references)


def test_the_place_of_the_name_is_told_for_torch_ops(read):
    project = read(
        {
            "ops.py": OPS,
            "use.py": "import torch\nn = torch.ops.ns\np = n.scale\n"
            "torch.ops.ns.scale(1)\nn.scale.default(2)\np.default(3)\ngetattr(n, 'scale')(4)\n",
        }
    )
    references = project.references(op_named(project, "ns::scale"))
    calls = {r.call.args[0].value: r for r in references if r.call is not None}
    assert {key: (r.torch_ops, len(r.assignments)) for key, r in calls.items()} == {
        1: (True, 0),
        2: (True, 0),
        3: (False, 1),
        4: (True, 0),
    }


def test_an_alias_of_an_alias_is_followed_into_files_that_do_not_name_the_op(read):
    project = read(
        {
            "ops.py": OPS,
            "a.py": "from ops import scale as first\n",
            "b.py": "from a import first as second\n",
            "c.py": "import b\nb.second(x)\n",
        }
    )
    assert ("c", "b.second", "CALL") in shown(project, "ns::scale")


def test_overloads_are_told_apart(read):
    project = read(
        {
            "ops.py": """
            import torch
            lib = torch.library.Library("ns", "DEF")
            lib.define("f(Tensor x) -> Tensor")
            lib.define("f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
            torch.ops.ns.f.default(x)
            torch.ops.ns.f.out(x, out=x)
            torch.ops.ns.f(x)
            """
        }
    )
    assert shown(project, "ns::f") == [
        ("ops", "torch.ops.ns.f.default", "CALL"),
        ("ops", "torch.ops.ns.f", "UNCERTAIN"),
    ]
    assert shown(project, "ns::f.out") == [
        ("ops", "torch.ops.ns.f.out", "CALL"),
        ("ops", "torch.ops.ns.f", "UNCERTAIN"),
    ]


def test_an_op_under_another_decorator_may_be_something_else(read):
    project = read(
        {
            "ops.py": """
            import torch
            @wrap
            @torch.library.custom_op("ns::a", mutates_args=())
            def a(x): ...
            class K:
                @staticmethod
                @torch.library.custom_op("ns::b", mutates_args=())
                def b(x): ...
            a(x)
            K.b(x)
            """
        }
    )
    assert shown(project, "ns::a") == [("ops", "a", "UNCERTAIN")]
    assert shown(project, "ns::b") == [("ops", "K.b", "CALL")]


def test_call_form_op_is_not_its_raw_function(read):
    project = read(
        {
            "ops.py": "import torch\ndef _f(x): ...\n"
            "f = torch.library.custom_op('ns::f', _f, mutates_args=())\nf(x)\n_f(x)\n",
            "use.py": "import ops\nops.f(x)\nops._f(x)\n",
        }
    )
    assert shown(project, "ns::f") == [("ops", "f", "CALL"), ("use", "ops.f", "CALL")]


def test_references_outside_the_paths_are_found(tree):
    tree.file("src/pkg/__init__.py", "")
    tree.file("src/pkg/ops.py", OPS)
    tree.file("tests/test_ops.py", "from pkg.ops import scale\nscale(1)\n")
    project = tree.read("src")
    assert shown(project, "ns::scale") == [
        ("tests.test_ops", "scale", "IMPORT"),
        ("tests.test_ops", "scale", "CALL"),
    ]


def test_op_of_an_expression(read):
    project = read({"ops.py": OPS + "\nscale\n"})
    module = op_named(project, "ns::scale").definition.module
    name = module.tree.body[-1].value
    assert project.op_of(module, name) is project.ops[0]


def test_an_op_with_a_computed_name_may_be_what_fits_it(read):
    project = read(
        {
            "ops.py": """
            import torch
            def make(kind):
                @torch.library.custom_op(f"ns::{kind}_apply", mutates_args=())
                def apply(x): ...
            """,
            "use.py": "import torch\ntorch.ops.ns.sin_apply(x)\ntorch.ops.ns.sin(x)\n"
            "torch.ops.other.sin_apply(x)\ngetattr(torch.ops.ns, name)(x)\n",
        }
    )
    assert shown(project, "ns::{kind}_apply") == [
        ("use", "torch.ops.ns.sin_apply", "UNCERTAIN"),
        ("use", "getattr(torch.ops.ns, name)", "UNCERTAIN"),
    ]
