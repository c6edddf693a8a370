from __future__ import annotations

from pathlib import Path

import pytest
from source_reading import op_named

from opscaffold.source.model import Form, Role
from opscaffold.source.project import load_project

HEAD = "import torch\nfrom torch import Tensor, library as lib\n"

DEFINITIONS = {
    "decorator": (
        "@torch.library.custom_op('ns::scale', mutates_args=('out',))\ndef scale(x, out): ...",
        (Role.CUSTOM_OP, Form.DECORATOR, "scale"),
    ),
    "decorator under an alias": (
        (
            "from torch.library import custom_op as reg\n"
            "@reg('ns::scale', mutates_args=['out'])\ndef scale(x, out): ..."
        ),
        (Role.CUSTOM_OP, Form.DECORATOR, "scale"),
    ),
    "call": (
        "def _scale(x, out): ...\nscale = lib.custom_op('ns::scale', _scale, mutates_args={'out'})",
        (Role.CUSTOM_OP, Form.CALL, "_scale"),
    ),
    "call with a keyword name": (
        (
            "NAMES = ('out',)\ndef _scale(x, out): ...\n"
            "scale = lib.custom_op(name='ns::scale', fn=_scale, mutates_args=NAMES)"
        ),
        (Role.CUSTOM_OP, Form.CALL, "_scale"),
    ),
    "curried": (
        (
            "def _scale(x, out): ...\n"
            "scale = lib.custom_op('ns::scale', mutates_args=('out',))(_scale)"
        ),
        (Role.CUSTOM_OP, Form.CURRIED, "_scale"),
    ),
    "kept decorator": (
        "deco = lib.custom_op('ns::scale', mutates_args=('out',))\n@deco\ndef scale(x, out): ...",
        (Role.CUSTOM_OP, Form.CURRIED, "scale"),
    ),
    "triton_op": (
        "@lib.triton_op('ns::scale', mutates_args=('out',))\ndef scale(x, out): ...",
        (Role.TRITON_OP, Form.DECORATOR, "scale"),
    ),
    "concatenated name": (
        (
            "NS = 'ns'\n@lib.custom_op(NS + '::' + 'scale', mutates_args=('out',))\n"
            "def scale(x, out): ..."
        ),
        (Role.CUSTOM_OP, Form.DECORATOR, "scale"),
    ),
    "f-string of constants": (
        (
            "class C:\n    NS = 'ns'\n@lib.custom_op(f'{C.NS}::scale', mutates_args=('out',))\n"
            "def scale(x, out): ..."
        ),
        (Role.CUSTOM_OP, Form.DECORATOR, "scale"),
    ),
    "percent and format": (
        (
            "@lib.custom_op('%s::%s' % ('ns', '{}'.format('scale')), mutates_args=('out',))\n"
            "def scale(x, out): ..."
        ),
        (Role.CUSTOM_OP, Form.DECORATOR, "scale"),
    ),
    "partial": (
        (
            "import functools\nreg = functools.partial(lib.custom_op, mutates_args=('out',))\n"
            "@reg('ns::scale')\ndef scale(x, out): ..."
        ),
        (Role.CUSTOM_OP, Form.HELPER, "scale"),
    ),
    "helper decorator": (
        (
            "def reg(name, mutates):\n"
            "    def deco(fn):\n"
            "        return lib.custom_op('ns::' + name, fn, mutates_args=mutates)\n"
            "    return deco\n"
            "@reg('scale', ('out',))\ndef scale(x, out): ..."
        ),
        (Role.CUSTOM_OP, Form.HELPER, "scale"),
    ),
    "helper named after the function": (
        (
            "def reg(fn):\n"
            "    return lib.custom_op(f'ns::{fn.__name__}', mutates_args=('out',))(fn)\n"
            "@reg\ndef scale(x, out): ..."
        ),
        (Role.CUSTOM_OP, Form.HELPER, "scale"),
    ),
    "helper of a helper": (
        (
            "def inner(name, fn, mutates=()):\n"
            "    return lib.custom_op(name, fn, mutates_args=mutates)\n"
            "def reg(fn, short):\n    return inner(f'ns::{short}', fn, mutates=['out'])\n"
            "def _scale(x, out): ...\nreg(_scale, 'scale')"
        ),
        (Role.CUSTOM_OP, Form.HELPER, "_scale"),
    ),
    "helper that infers and defines": (
        (
            "LIB = lib.Library('ns', 'FRAGMENT')\n"
            "def reg(op_name, op_func, mutates_args):\n"
            "    schema = lib.infer_schema(op_func, mutates_args=mutates_args)\n"
            "    LIB.define(op_name + schema)\n"
            "    LIB.impl(op_name, op_func, 'CPU')\n"
            "def _scale(x, out): ...\n"
            "reg(op_name='scale', op_func=_scale, mutates_args=['out'])"
        ),
        (Role.DEFINE, Form.HELPER, "_scale"),
    ),
    "helper with a choice of Library": (
        (
            "LIB = lib.Library('ns', 'FRAGMENT')\n"
            "def reg(op_name, op_func, target: lib.Library | None = None):\n"
            "    where = target or LIB\n"
            "    where.define(op_name + lib.infer_schema(op_func, mutates_args=('out',)))\n"
            "def _scale(x, out): ...\nreg('scale', _scale)"
        ),
        (Role.DEFINE, Form.HELPER, "_scale"),
    ),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_form_of_definition_is_found(read, name):
    text, (role, form, function) = DEFINITIONS[name]
    op = op_named(read({"m.py": HEAD + text}), "ns::scale")
    definition = op.definition
    assert (definition.role, definition.form) == (role, form)
    assert getattr(definition.function, "name", None) == function
    assert definition.mutates == ("out",)
    assert definition.qualname == "ns::scale"
    assert not definition.conditional


NOT_OPS = {
    "a function of the same name": (
        "def custom_op(name, mutates_args=()):\n    return lambda f: f\n"
        "@custom_op('ns::scale', mutates_args=())\ndef scale(x): ..."
    ),
    "a shadowing parameter": (
        "from torch.library import custom_op\n"
        "def make(custom_op):\n"
        "    @custom_op('ns::scale', mutates_args=())\n    def scale(x): ...\n"
    ),
    "another package's": (
        "from acme.library import custom_op\n"
        "@custom_op('ns::scale', mutates_args=())\ndef scale(x): ..."
    ),
    "redefined before its use": (
        "from torch.library import custom_op\n"
        "def custom_op(name, **kw):\n    return lambda f: f\n"
        "@custom_op('ns::scale', mutates_args=())\ndef scale(x): ..."
    ),
    "a method": (
        "class Registry:\n    def custom_op(self, name): ...\nr = Registry()\n"
        "@r.custom_op('ns::scale')\ndef scale(x): ..."
    ),
    "some other Library": (
        "class Library:\n    def __init__(self, ns): ...\n    def define(self, s): ...\n"
        "Library('ns').define('scale(Tensor x) -> Tensor')"
    ),
    "only mentioned": "f = torch.library.custom_op\nprint('torch.library.custom_op')",
    "a plain function with out": "def scale(x, out=None):\n    return x",
}


@pytest.mark.parametrize("name", NOT_OPS)
def test_what_only_looks_like_a_registration_is_none(read, name):
    project = read({"m.py": HEAD + NOT_OPS[name]})
    assert project.all_ops == []
    assert project.stray == []


def test_a_version_fallback_is_found_and_marked(read):
    project = read(
        {
            "m.py": """
            import torch
            if hasattr(torch.library, "custom_op"):
                deco = torch.library.custom_op
            else:
                def deco(name, **kw):
                    return lambda f: f

            @deco("ns::scale", mutates_args=())
            def scale(x): ...

            try:
                from torch.library import register_fake
            except ImportError:
                from torch.library import impl_abstract as register_fake

            @register_fake("ns::scale")
            def _(x): ...
            """
        }
    )
    op = op_named(project, "ns::scale")
    assert op.definition.fallback
    assert not op.definition.conditional
    assert [r.role for r in op.attached] == [Role.FAKE]


def test_low_level_registrations_are_tied_by_name(read):
    project = read(
        {
            "lib.py": "from torch.library import Library\nlib = Library('ns', 'DEF')\n"
            "lib.define('scale(Tensor x, Tensor(a!) out) -> ()')\n",
            "impls.py": """
            import torch
            from lib import lib
            @torch.library.impl(lib, "scale", "CPU")
            def cpu(x, out): ...
            @torch.library.impl("ns::scale", "cuda")
            def cuda(x, out): ...
            def meta(x, out): ...
            lib._register_fake("scale", meta)
            torch.library.impl("ns::scale", "xpu", lambda x, out: None)
            lib.impl("other", meta, "CPU")
            torch.library.define("ns::late", "(Tensor x) -> Tensor")
            """,
        }
    )
    op = op_named(project, "ns::scale")
    assert (op.definition.form, op.definition.role) == (Form.LIBRARY, Role.DEFINE)
    assert op.definition.schema == "scale(Tensor x, Tensor(a!) out) -> ()"
    assert [(r.role, r.form, getattr(r.function, "name", "lambda")) for r in op.attached] == [
        (Role.IMPL, Form.FUNCTION, "cpu"),
        (Role.IMPL, Form.FUNCTION, "cuda"),
        (Role.FAKE, Form.LIBRARY, "meta"),
        (Role.IMPL, Form.FUNCTION, "lambda"),
    ]
    assert [r.qualname for r in project.stray] == ["ns::other"]
    assert op_named(project, "ns::late").definition.schema == "(Tensor x) -> Tensor"


def test_attachments_are_tied_by_object_name_and_overload(read):
    project = read(
        {
            "pkg/__init__.py": "",
            "pkg/ops.py": """
            import torch
            @torch.library.custom_op("ns::scale", mutates_args=())
            def scale(x): ...
            @scale.register_fake
            def _(x): ...
            @scale.register_kernel("cuda")
            def _(x): ...
            scale.register_kernel("xpu", lambda x: x)
            scale.register_kernel("hpu")(scale)
            """,
            "pkg/grads.py": """
            import torch
            from . import ops as o
            from .ops import scale as s
            def backward(ctx, g): ...
            s.register_autograd(backward, setup_context=None)
            @o.scale.register_vmap
            def rule(info, in_dims, x): ...
            torch.library.register_autocast("ns::scale", "cuda", torch.float16)
            torch.library.register_torch_dispatch(torch.ops.ns.scale.default, object)(backward)
            torch.library.register_kernel(o.scale, "mps", backward)
            torch.library.impl_abstract("ns::scale")(backward)
            """,
        }
    )
    op = op_named(project, "ns::scale")
    assert project.stray == []
    assert [(r.module.name, r.role.name, r.form.name) for r in op.attached] == [
        ("pkg.grads", "AUTOGRAD", "CALL"),
        ("pkg.grads", "VMAP", "DECORATOR"),
        ("pkg.grads", "AUTOCAST", "FUNCTION"),
        ("pkg.grads", "TORCH_DISPATCH", "FUNCTION"),
        ("pkg.grads", "KERNEL", "FUNCTION"),
        ("pkg.grads", "FAKE", "FUNCTION"),
        ("pkg.ops", "FAKE", "DECORATOR"),
        ("pkg.ops", "KERNEL", "DECORATOR"),
        ("pkg.ops", "KERNEL", "CALL"),
        ("pkg.ops", "KERNEL", "CURRIED"),
    ]
    assert all(r.qualname == "ns::scale" for r in op.attached)


@pytest.mark.parametrize(
    ("before", "indent"),
    [
        ("if torch.cuda.is_available():", 1),
        ("try:", 1),
        ("for _ in range(1):", 1),
        ("def setup():", 1),
        ("class A:\n    def f(self):", 2),
        ("class A:\n    if 1:", 2),
    ],
)
def test_what_may_not_run_once_is_conditional(read, before, indent):
    space = "    " * indent
    after = "\nexcept Exception: ..." if before == "try:" else ""
    project = read(
        {
            "m.py": f"{HEAD}{before}\n{space}@lib.custom_op('ns::scale', mutates_args=())\n"
            f"{space}def scale(x): ...{after}"
        }
    )
    assert op_named(project, "ns::scale").definition.conditional


@pytest.mark.parametrize("before", ["class A:", "with torch.no_grad():"])
def test_what_always_runs_once_is_not_conditional(read, before):
    project = read(
        {"m.py": f"{HEAD}{before}\n    @lib.custom_op('ns::a', mutates_args=())\n    def a(x): ..."}
    )
    assert not op_named(project, "ns::a").definition.conditional


def test_a_computed_name_shows_what_is_known(read):
    project = read(
        {
            "m.py": HEAD
            + """
def make(kind):
    @lib.custom_op(f"ns::{kind}_apply", mutates_args=())
    def apply(x): ...
    @apply.register_fake
    def _(x): ...
    return apply
"""
        }
    )
    (op,) = project.ops
    assert op.definition.qualname is None
    assert op.qualname == op.definition.name_hint == "ns::{kind}_apply"
    assert op.definition.conditional
    assert [r.role for r in op.attached] == [Role.FAKE]


def test_helpers_of_another_module_carry_their_fakes_along(read):
    project = read(
        {
            "pkg/__init__.py": "from .register import *\n",
            "pkg/register.py": """
            from torch.library import Library, infer_schema
            _lib = Library("ns", "FRAGMENT")
            def install(name, fn, mutates=(), fake=None):
                schema = infer_schema(fn, mutates_args=mutates)
                _lib.define(f"{name}{schema}")
                _lib.impl(name, fn, "CUDA")
                if fake is not None:
                    _lib._register_fake(name, fake)
            """,
            "app.py": """
            from pkg import install as add
            def run(x): ...
            def run_fake(x): ...
            add("run", run, fake=run_fake)
            """,
        }
    )
    op = op_named(project, "ns::run")
    assert op.definition.module.name == "app"
    assert getattr(op.definition.helper, "name", None) == "install"
    assert op.definition.mutates == ()
    assert [(r.role, r.function.name) for r in op.attached] == [
        (Role.IMPL, "run"),
        (Role.FAKE, "run_fake"),
    ]


def test_only_ops_of_the_paths_are_asked_for(tree):
    tree.file(
        "a.py", "import torch\n@torch.library.custom_op('ns::a', mutates_args=())\ndef a(x): ..."
    )
    tree.file(
        "b.py",
        "import torch, a\n@torch.library.custom_op('ns::b', mutates_args=())\n"
        "def b(x): ...\na.a.register_fake(b)",
    )
    project = tree.read("a.py")
    assert [op.qualname for op in project.ops] == ["ns::a"]
    assert [op.qualname for op in project.all_ops] == ["ns::a", "ns::b"]
    assert [r.module.name for r in project.ops[0].attached] == ["b"]


def test_one_name_registered_twice_is_two_ops(read):
    text = "import torch\n@torch.library.custom_op('ns::a', mutates_args=())\ndef a(x): ...\n"
    project = read(
        {"one.py": text + "@torch.library.register_fake('ns::a')\ndef _(x): ...", "two.py": text}
    )
    assert [(op.qualname, len(op.attached)) for op in project.ops] == [("ns::a", 1), ("ns::a", 0)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("()", ()),
        ("set()", ()),
        ("['a', 'b']", ("a", "b")),
        ("'unknown'", "unknown"),
        ("'a'", "a"),
        ("names", None),
        ("[x for x in 'a']", None),
    ],
)
def test_mutates_args_is_read_where_it_is_literal(read, written, value):
    project = read(
        {
            "m.py": (
                f"{HEAD}def f(names):\n    @lib.custom_op('ns::a', mutates_args={written})\n"
                "    def a(a, b): ..."
            )
        }
    )
    assert op_named(project, "ns::a").definition.mutates == value


def test_file_that_cannot_be_parsed_stops_nothing(read):
    project = read(
        {
            "bad.py": "import torch\ntorch.library.custom_op(\n",
            "good.py": "import torch\n"
            "@torch.library.custom_op('ns::a', mutates_args=())\ndef a(x): ...",
        }
    )
    assert [op.qualname for op in project.ops] == ["ns::a"]
    (problem,) = project.problems
    assert (problem.path.name, problem.line) == ("bad.py", 2)
    assert "syntax error" in problem.message


def test_helpers_from_elsewhere_are_told(read):
    project = read(
        {
            "m.py": """
            from acme.utils import direct_register as reg
            import acme
            def f(x): ...
            reg(op_name="f", op_func=f, mutates_args=[])
            @acme.register("g", mutates_args=())
            def g(x): ...
            """,
            "plain.py": """
            from torch.library import infer_schema
            def note(f, mutates_args):
                return f
            def f(x): ...
            note(f, mutates_args=())
            infer_schema(f, mutates_args=())
            """,
        }
    )
    assert project.ops == []
    assert [(h.module.name, h.name) for h in project.unknown_helpers] == [
        ("m", "acme.utils.direct_register"),
        ("m", "acme.register"),
    ]


def test_a_registry_object_is_a_helper_too(read):
    project = read(
        {
            "registry.py": """
            import torch
            class Registry:
                def __init__(self, ns):
                    self.lib = torch.library.Library("ns", "FRAGMENT")
                def add(self, name, *, mutates=()):
                    def deco(fn):
                        torch.library.custom_op("ns::" + name, fn, mutates_args=mutates)
                        return fn
                    return deco
                def late(self):
                    self.lib.define("late(Tensor x) -> Tensor")
            registry = Registry("ns")
            """,
            "use.py": """
            from registry import registry
            @registry.add("one", mutates={"x"})
            def one(x): ...
            """,
        }
    )
    one = op_named(project, "ns::one").definition
    assert (one.form, one.function.name, one.mutates) == (Form.HELPER, "one", ("x",))
    late = op_named(project, "ns::late").definition
    assert (late.form, late.conditional) == (Form.LIBRARY, True)


@pytest.mark.parametrize(
    "name",
    [
        'schema.split("(")[0]',
        'schema.split("(", 1)[0]',
        'schema.partition("(")[0]',
        'schema[: schema.index("(")]',
        'schema[: schema.find("(")].strip()',
        "LIB.define(schema)",
    ],
)
def test_a_kernel_is_tied_to_the_op_that_its_decorator_cuts_out_of_the_schema(
    tmp_path: Path, name: str
) -> None:
    define = "" if name.startswith("LIB") else "    LIB.define(schema)\n"
    (tmp_path / "ops.py").write_text(
        "import torch\nLIB = torch.library.Library('d', 'FRAGMENT')\n"
        f"def define(schema):\n{define}    name = {name}\n"
        "    def on(fn):\n        LIB.impl(name, fn, 'CPU')\n        return fn\n    return on\n"
        "@define('f(Tensor x) -> Tensor')\ndef f(x): ...\n"
        "@define('g(Tensor x) -> Tensor')\ndef g(x): ...\n",
        "utf-8",
    )
    project = load_project([tmp_path], tmp_path)
    assert project.stray == []
    kernels = {
        op.qualname: [getattr(r.function, "name", "") for r in op.attached] for op in project.ops
    }
    assert kernels == {"d::f": ["f"], "d::g": ["g"]}


@pytest.mark.parametrize("empty", ["{}", "[]", "()", "set()", "tuple()", "dict()", "NONE"])
def test_whatever_is_empty_says_that_nothing_is_mutated(tmp_path: Path, empty: str) -> None:
    (tmp_path / "ops.py").write_text(
        "import torch\nNONE = ()\n"
        f"@torch.library.triton_op('d::f', mutates_args={empty})\ndef f(x): ...\n",
        "utf-8",
    )
    (op,) = load_project([tmp_path], tmp_path).ops
    assert op.definition.mutates == ()
